"""Figures: the right lines with labels and units, whole files, nothing left behind in pyplot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tangokg.errors import DataError
from tangokg.quads.clock import Clock
from tangokg.rank import HITS, Summary
from tangokg.report import SUFFIXES, check_figure, figures, plot_by_time, plot_horizons, plot_training, read_log
from tangokg.train import Progress
from tangokg.train.checkpoint import write_log

DAYS = Clock("day", "2024-01-01")
STARTS = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}
LOG = [{"epoch": float(i), "loss": 3 / i, "valid_mrr": 10.0 * i, "seconds": 0.5 * i} for i in (1, 2, 3)]


def summary(mrr: float) -> Summary:
    return Summary(mrr, dict(zip(HITS, (mrr / 2, mrr, mrr + 5), strict=True)), 10)


GROUPS = {3.0: summary(40.0), 4.0: summary(30.5), 9.0: summary(20.0)}


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The figures that were written, for a look inside."""
    kept: list[Any] = []
    write = figures.write_figure

    def keep(figure: Any, path: Path) -> None:
        write(figure, path)
        kept.append(figure)

    monkeypatch.setattr(figures, "write_figure", keep)
    return kept


def lines(axes: Any) -> dict[str, list[tuple[float, float]]]:
    return {line.get_label(): [tuple(point) for point in line.get_xydata()] for line in axes.lines}


def legend(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_metrics_by_time_have_a_line_for_each_figure_over_dates(drawn: list[Any], tmp_path: Path) -> None:
    plot_by_time(tmp_path / "a.png", GROUPS, DAYS, "a title")
    axes = drawn[0].axes[0]
    assert lines(axes) == {
        "MRR": [(3, 40), (4, 30.5), (9, 20)],
        "Hits@1": [(3, 20), (4, 15.25), (9, 10)],
        "Hits@3": [(3, 40), (4, 30.5), (9, 20)],
        "Hits@10": [(3, 45), (4, 35.5), (9, 25)],
    }
    assert legend(drawn[0]) == ["MRR", "Hits@1", "Hits@3", "Hits@10"]
    assert (axes.get_title(loc="left"), axes.get_xlabel(), axes.get_ylabel()) == ("a title", "date", "per cent")
    assert axes.get_ylim() == (0, 100)
    assert axes.xaxis.get_major_formatter()(4, 0) == "2024-01-05"
    assert axes.xaxis.get_major_formatter()(1e9, 0) == ""  # beyond the calendar


def test_times_without_dates_are_numbers_with_their_unit(drawn: list[Any], tmp_path: Path) -> None:
    plot_by_time(tmp_path / "a.png", GROUPS, Clock("year"), "")
    assert drawn[0].axes[0].get_xlabel() == "time (years)"
    assert drawn[0].axes[0].xaxis.get_major_formatter()(4, 0) == "4"


def test_horizons_are_drawn_in_their_unit(drawn: list[Any], tmp_path: Path) -> None:
    plot_horizons(tmp_path / "a.png", GROUPS, "week", "", {"frequency": GROUPS})
    assert drawn[0].axes[0].get_xlabel() == "how far ahead (weeks)"
    assert lines(drawn[0].axes[0])["MRR"] == [(3, 40), (4, 30.5), (9, 20)]
    assert lines(drawn[0].axes[0])["MRR of frequency"] == [(3, 40), (4, 30.5), (9, 20)]


def test_training_has_two_axes_with_a_validation_part_and_one_without(drawn: list[Any], tmp_path: Path) -> None:
    plot_training(tmp_path / "a.png", LOG, "")
    left, right = drawn[0].axes
    assert lines(left) == {"loss": [(1, 3), (2, 1.5), (3, 1)]}
    assert lines(right) == {"validation MRR": [(1, 10), (2, 20), (3, 30)]}
    assert "per cent" in right.get_ylabel()
    assert legend(drawn[0]) == ["loss", "validation MRR"]
    plot_training(tmp_path / "a.png", [{"epoch": 1, "loss": 2.0}], "")
    assert len(drawn[1].axes) == 1
    assert legend(drawn[1]) == ["loss"]


@pytest.mark.parametrize("suffix", [*SUFFIXES, ".PNG"])
def test_a_figure_is_a_whole_file_of_its_kind_and_the_same_each_time(suffix: str, tmp_path: Path) -> None:
    files = [tmp_path / f"{name}{suffix}" for name in "ab"]
    for file in files:
        check_figure(file)
        plot_by_time(file, GROUPS, DAYS, "prices in $, a_{b}$ and 日本 \\frac")  # neither formulas nor warnings
    first, second = (file.read_bytes() for file in files)
    assert first.startswith(STARTS[suffix.lower()])
    assert first == second
    assert set(tmp_path.iterdir()) == set(files)


def test_nothing_is_left_open_or_set_in_matplotlib(tmp_path: Path) -> None:
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    before = dict(mpl.rcParams)
    plot_training(tmp_path / "a.svg", LOG, "")
    plot_horizons(tmp_path / "a.png", GROUPS, "day", "", {})
    assert plt.get_fignums() == []
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize("name", ["a.gif", "a", "png", "a.png.txt"])
def test_a_wrong_suffix_names_the_known_ones(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"expected one of \.png, \.svg, \.pdf"):
        check_figure(tmp_path / name)


def test_a_place_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "folder.png").mkdir()
    for path in (tmp_path / "folder.png", tmp_path / "nowhere" / "a.png"):
        with pytest.raises(DataError, match="a file in an existing folder"):
            check_figure(path)


def test_the_log_of_a_run_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    unvalidated = [{"epoch": 1.0, "loss": 2.5, "seconds": 0.1}]
    for log in (LOG, unvalidated, []):
        write_log(path, Progress(log=list(log)))
        assert read_log(path) == log
    for damaged in (b"epoch,loss\n1,many\n", b"epoch,loss\n1,2,3,4\n", b"\xff\xfe"):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"log\.csv: expected one epoch of a run"):
            read_log(path)
    with pytest.raises(DataError, match=r"nowhere\.csv.*No such file"):
        read_log(tmp_path / "nowhere.csv")
