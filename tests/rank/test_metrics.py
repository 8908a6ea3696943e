"""Figures follow from ranks by hand, and every breakdown averages back to the whole."""

from __future__ import annotations

import pytest
import torch

from tangokg.rank.filters import FILTERS
from tangokg.rank.metrics import HITS, Metrics, Summary
from tangokg.rank.ranks import Ranks


def metrics_of(realistic: list[float], r: list[int], t: list[float], num_relations: int) -> Metrics:
    rank = torch.tensor(realistic, dtype=torch.float64)
    ranks = {name: Ranks(rank.floor().long(), rank, rank.ceil().long()) for name in FILTERS}
    column = torch.zeros(len(r), dtype=torch.int64)
    return Metrics(ranks, column, torch.tensor(r), column, torch.tensor(t).double(), num_relations)


def test_figures_by_hand() -> None:
    metrics = metrics_of([1, 2, 10, 10.5], [0, 1, 2, 3], [5, 5, 5, 6], 2)
    figures = {"mrr": 25 * (1 + 1 / 2 + 1 / 10 + 2 / 21), "hits@1": 25.0, "hits@3": 50.0, "hits@10": 75.0}
    assert metrics.to_dict() == {name: pytest.approx(figures, rel=1e-14) for name in FILTERS}
    assert metrics.queries == metrics["raw"].queries == 4
    assert metrics.by_relation("raw")[0].mrr == pytest.approx(55.0)
    assert metrics.by_relation("raw")[0].hits == {1: 50.0, 3: 50.0, 10: 100.0}
    assert metrics.by_relation("raw", "object")[0] == Summary(100.0, {1: 100.0, 3: 100.0, 10: 100.0}, 1)
    assert metrics.by_relation("raw", "subject")[1].hits == {1: 0.0, 3: 0.0, 10: 0.0}
    assert metrics.by_time("raw")[6.0].queries == 1


def test_breakdowns_average_back_to_the_whole() -> None:
    generator = torch.Generator().manual_seed(0)
    rank = torch.randint(2, 60, (500,), generator=generator) / 2
    r = torch.randint(14, (500,), generator=generator)
    t = torch.randint(5, (500,), generator=generator) * 1.5
    metrics = metrics_of(rank.tolist(), r.tolist(), t.tolist(), 7)
    directions = [*metrics.by_relation("raw", "object").values(), *metrics.by_relation("raw", "subject").values()]
    for groups in (directions, [*metrics.by_relation("raw").values()], [*metrics.by_time("raw").values()]):
        whole, queries = metrics["raw"], sum(group.queries for group in groups)
        assert queries == 500
        assert sum(g.mrr * g.queries for g in groups) / queries == pytest.approx(whole.mrr)
        for k in HITS:
            assert sum(g.hits[k] * g.queries for g in groups) / queries == pytest.approx(whole.hits[k])
    assert len(directions) == 14
    assert len(metrics.by_relation("raw")) == 7
