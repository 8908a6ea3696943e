"""Figures for notebooks: the points are the values, no name is markup, and a missing plotly is our error."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import tangokg as tk
from conftest import make_dataset, make_forecaster
from tangokg.errors import ConfigError
from tangokg.quads.clock import Clock
from tangokg.rank import HITS, Summary
from tangokg.report.interactive import (
    Curve,
    draw,
    interactive_by_time,
    interactive_comparison,
    interactive_horizons,
    interactive_reliability,
    interactive_training,
)

pytest.importorskip("plotly")

EVIL = "<a href='javascript:alert(1)'><b>Bob</b></a>\x1b[2J"
LOG = [{"epoch": float(i), "loss": 3 / i, "valid_mrr": 10.0 * i} for i in (1, 2, 3)]


def summary(mrr: float) -> Summary:
    return Summary(mrr, dict(zip(HITS, (mrr / 2, mrr, mrr + 5), strict=True)), 10)


GROUPS = {3.0: summary(40.0), 4.0: summary(30.5), 9.0: summary(20.0)}


def points(figure: Any) -> dict[str, list[tuple[Any, Any]]]:
    return {trace.name: list(zip(trace.x, trace.y, strict=True)) for trace in figure.data}


@pytest.mark.parametrize(
    ("clock", "kind", "times"),
    [
        (Clock("year"), None, (3.0, 4.0, 9.0)),
        (Clock("day", "2024-01-01"), "date", ("2024-01-04", "2024-01-05", "2024-01-10")),
        (Clock("quarter", "2024-01-01"), "category", ("2024-Q4", "2025-Q1", "2026-Q2")),
    ],
)
def test_metrics_by_time_have_every_figure_at_its_date(clock: Clock, kind: str | None, times: tuple[Any, ...]) -> None:
    figure = interactive_by_time(GROUPS, clock, "a title")
    assert points(figure) == {
        "MRR": [*zip(times, (40, 30.5, 20), strict=True)],
        "Hits@1": [*zip(times, (20, 15.25, 10), strict=True)],
        "Hits@3": [*zip(times, (40, 30.5, 20), strict=True)],
        "Hits@10": [*zip(times, (45, 35.5, 25), strict=True)],
    }
    assert figure.layout.xaxis.type == kind
    assert figure.layout.title.text == "a title"
    assert all(told == "<br>10 queries" for trace in figure.data for told in trace.customdata)


def test_horizons_and_training_have_their_points() -> None:
    assert points(interactive_horizons(GROUPS, "week", ""))["MRR"] == [(3, 40), (4, 30.5), (9, 20)]
    loss, mrr = interactive_training(LOG, "").data
    assert ([*loss.y], [*mrr.y], loss.yaxis, mrr.yaxis) == ([3, 1.5, 1], [10, 20, 30], "y", "y2")
    assert len(interactive_training([{"epoch": 1, "loss": 2.0}], "").data) == 1


def test_what_is_drawn_into_a_file_is_drawn_for_a_notebook(tmp_path: Path) -> None:
    forecaster = tk.fit(make_dataset(1), "tango-distmult", dim=4, history=2, epochs=2, verbose=False)
    metrics, said = forecaster.evaluate(), forecaster.calibration()
    found = tk.compare(make_dataset(1), ["frequency", "recurrence"], verbose=False)
    for what in (forecaster, metrics, {1.0: metrics, 2.0: metrics}, said, said["pair"], found):
        assert tk.plot(what, tmp_path / "a.svg") == tmp_path / "a.svg"
        assert tk.plot(what).data
    by_time = metrics.by_time("time-aware")
    assert points(tk.plot(metrics))["MRR"] == [(t, one.mrr) for t, one in by_time.items()]
    (rows,) = tk.plot(found).data
    assert [*zip(rows.y, rows.x, strict=True)] == [(row.name, row.figures.mrr) for row in reversed(found.rows)]
    ends = zip(rows.x, rows.error_x.arrayminus, rows.error_x.array, strict=True)
    assert [(x - low, x + high) for x, low, high in ends] == [
        (pytest.approx(row.low), pytest.approx(row.high)) for row in reversed(found.rows)
    ]
    diagonal, chances = tk.plot(said["pair"]).data
    assert [*diagonal.x] == [*diagonal.y]
    assert [(x / 100, y / 100) for x, y in zip(chances.x, chances.y, strict=True)] == [
        (pytest.approx(one.said), pytest.approx(one.happened)) for one in said["pair"].bins()
    ]


def texts(value: Any) -> list[str]:
    """Every text of a figure, templates of our own apart."""
    if isinstance(value, Mapping):
        return [text for key, one in value.items() if key not in ("template", "hovertemplate") for text in texts(one)]
    if isinstance(value, list | tuple):
        return [text for one in value for text in texts(one)]
    return [value] if isinstance(value, str) else []


def test_no_name_is_markup() -> None:
    dataset = make_dataset(1)
    found = tk.compare(dataset, {EVIL: make_forecaster("recurrence", dataset)}, verbose=False)
    for figure in (
        interactive_comparison(found.rows, EVIL),
        interactive_reliability({EVIL: []}, EVIL),
        interactive_horizons(GROUPS, EVIL, EVIL),
        draw([Curve(EVIL, [1], [2], [EVIL], right=True)], EVIL, {}, {}),
    ):
        told = texts(figure.to_dict())
        assert any("&lt;b&gt;Bob" in text for text in told)
        assert not any("<" in text.removeprefix("<br>") or "\x1b" in text for text in told)


def test_without_plotly_the_message_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    metrics = make_forecaster("recurrence").evaluate()
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    monkeypatch.setitem(sys.modules, "plotly", None)
    with pytest.raises(ConfigError, match=r"needs plotly.*pip install -e '\.\[notebook\]'"):
        tk.plot(metrics)
    assert tk.plot(metrics, tmp_path / "a.png").exists()
