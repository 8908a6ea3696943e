"""The figure of a comparison: a labelled point with its interval for each model, and no label over another."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tangokg.rank import HITS, Metrics, Ranks, Summary
from tangokg.rank.significance import Paired, resampled_means
from tangokg.report import compare as module
from tangokg.report.compare import FILTER, Measured, Row, compare, plot_comparison


def measured(name: str, ranks: list[float], seconds: float | None = 3.0) -> Measured:
    rank, row = torch.tensor(ranks, dtype=torch.float64), torch.arange(len(ranks))
    metrics = Metrics({FILTER: Ranks(rank.long(), rank, rank.long())}, row, row, row, row.double(), len(ranks))
    return Measured(name, metrics, seconds, 0.5)


def test_the_best_comes_first_and_is_tested_against_the_second() -> None:
    found = compare([measured("poor", [9, 9, 9, 9]), measured("good", [1, 1, 1, 1]), measured("fair", [2, 2, 2, 2])])
    assert [row.name for row in found.rows] == ["good", "fair", "poor"]
    assert [(row.low, row.figures.mrr, row.high) for row in found.rows[:2]] == [(100, 100, 100), (50, 50, 50)]
    assert found.rows[0].queries_per_second == 8
    assert found.test is not None
    assert (found.test.difference, found.test.low, found.test.high) == (50, 50, 50)
    assert found.test.p == pytest.approx(1 / 8, abs=0.02)  # all four signs alike: 2 of 16
    assert found.to_dict()["paired"]["second"] == "fair"
    assert compare([measured("alone", [1, 4])]).test is None


def test_a_seed_gives_the_same_comparison_and_equal_models_no_difference() -> None:
    models = [measured("a", [1, 3, 8, 2, 5]), measured("b", [1, 3, 8, 2, 5])]
    assert compare(models, 4) == compare(models, 4)
    assert compare(models, 4).test == Paired(0, 0, 0, 1)


def test_95_of_100_resampled_means_lie_in_an_interval() -> None:
    rng = np.random.default_rng(0)
    ranks = {name: rng.integers(1, most, size=60).tolist() for name, most in (("good", 5), ("poor", 40))}
    found = compare([measured(name, own) for name, own in ranks.items()], 4)
    values = 100 / torch.tensor(list(ranks.values()), dtype=torch.float64)
    means = resampled_means(values, torch.Generator().manual_seed(4))
    for row, own in zip(found.rows, means, strict=True):
        assert ((row.low <= own) & (own <= row.high)).double().mean().item() == pytest.approx(0.95, abs=0.005)


def test_models_that_were_asked_something_else_are_not_compared() -> None:
    with pytest.raises(AssertionError, match="rank the same queries"):
        compare([measured("a", [1, 2]), measured("b", [1, 2, 3])])


def test_each_model_is_a_labelled_point_and_no_label_hides_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[Any] = []
    monkeypatch.setattr(module, "write_figure", lambda figure, _: kept.append(figure))
    rng = np.random.default_rng(0)
    rows = [row(f"model-{i}", rng.uniform(20, 30), 10 ** rng.uniform(1, 2.7)) for i in range(12)]
    rows += [row(f"counter-{i} $", 24 + 0.05 * i, 0.0) for i in range(5)]
    plot_comparison(tmp_path / "a.png", [*rows, row("unknown time", 25, None)], "a title")
    (axes,) = kept[0].axes
    assert {text.get_text() for text in axes.texts} == {r.name for r in rows}
    bars = {bar.get_label(): bar for bar in axes.containers}
    for r in rows:
        assert bars[r.name].lines[0].get_xydata().tolist() == [[r.train_seconds, r.figures.mrr]]
        (ends,) = bars[r.name].lines[2][0].get_segments()
        assert ends[:, 1].tolist() == pytest.approx([r.low, r.high])
    kept[0].draw_without_rendering()
    for a, b in combinations(axes.texts, 2):
        assert not _text_box(a).overlaps(_text_box(b)), (a.get_text(), b.get_text())


def _text_box(annotation: Any) -> Any:
    """Of the text alone, without the line that leads to it."""
    from matplotlib.text import Text

    return Text.get_window_extent(annotation)


def row(name: str, mrr: float, seconds: float | None) -> Row:
    return Row(name, Summary(mrr, dict.fromkeys(HITS, mrr), 10), mrr - 0.5, mrr + 0.25, seconds, 100.0)
