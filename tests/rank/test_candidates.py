"""Ranks among given candidates: a list for each question, with the true object always ranked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import tangokg as tk
from conftest import N, make_dataset, make_forecaster, make_timeline
from tangokg.errors import DataError, TrainingError
from tangokg.models import Model
from tangokg.models.counters import COUNTERS
from tangokg.rank import FILTERS, Listed, candidate_lists, evaluate, horizon, listed, prepare, true_facts
from tangokg.rank.candidates import CandidateLists
from tangokg.rank.protocols import SINGLE_STEP
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Queries, Windows

TARGET = torch.tensor([5, 7, 8])
Question = tuple[int, int, float]


class Tied(Model):
    """Few different scores, of all of a query but its answer."""

    def encode(self, timeline: Timeline, windows: Windows) -> Windows:
        return windows

    def score(self, encoded: Windows, queries: Queries) -> Tensor:
        mixed = 3 * queries.s + 5 * queries.r + 7 * encoded.known[queries.window]
        return (mixed[:, None] * (torch.arange(N) + 2) % 11 // 3).double()


def make_model(name: str) -> Model:
    return COUNTERS[name]() if name in COUNTERS else Tied()


def draw_lists(timeline: Timeline, seed: int = 0) -> dict[Question, list[int]]:
    """Lists of 0 to 6 objects by question; some hold the answer, some hold other true objects."""
    rng, exam = np.random.default_rng(seed), prepare(timeline, TARGET)
    asked = zip(exam.queries.s.tolist(), exam.queries.r.tolist(), exam.t.tolist(), strict=True)
    return {question: rng.choice(N, size=rng.integers(7), replace=False).tolist() for question in dict.fromkeys(asked)}


def as_candidates(lists: dict[Question, list[int]]) -> CandidateLists:
    s, r, t = zip(*lists, strict=True)
    return candidate_lists(s, r, t, list(lists.values()))


def slow_ranks(
    model: Model, timeline: Timeline, lists: dict[Question, list[int]], dt: float
) -> dict[tuple[float, ...], dict[str, tuple[float, ...]]]:
    """(s, r, answer, t) -> ranks under each filter, each query alone, with sets."""
    edges = zip(*(x.tolist() for x in (timeline.s, timeline.r, timeline.o)), strict=True)
    times = torch.repeat_interleave(timeline.t, timeline.offset.diff()).tolist()
    both = {(*edge, t) for edge, t in zip(edges, times, strict=True)}
    result: dict[tuple[float, ...], dict[str, tuple[float, ...]]] = {}
    for s, r, o, t in both:
        if t not in timeline.t[TARGET].tolist():
            continue
        known = timeline.before(t) if not dt else int((timeline.t <= t - dt).sum())
        window = Windows(torch.tensor([known]), torch.tensor([t], dtype=torch.float64))
        query = Queries(*(torch.tensor([v]) for v in (0, s, r, o)))
        x = model.score(model.encode(timeline, window), query)[0].tolist()
        out = {"raw": set[int](), "time-aware": {b for b in range(N) if (s, r, b, t) in both}}
        out["time-unaware"] = {b for a, label, b, _ in both if (a, label) == (s, r)}
        ranks: dict[str, tuple[float, ...]] = {}
        for name in FILTERS:
            rest = [x[b] for b in set(lists[s, r, t]) - {o} - out[name]]
            above, same = sum(v > x[o] for v in rest), sum(v == x[o] for v in rest)
            ranks[name] = (1 + above, 1 + above + same / 2, 1 + above + same)
        result[s, r, o, t] = ranks
    return result


def rows_of(metrics: tk.Metrics) -> dict[tuple[float, ...], dict[str, tuple[float, ...]]]:
    asked = torch.stack([metrics.s, metrics.r, metrics.answer, metrics.t], dim=1).tolist()
    kinds = ("optimistic", "realistic", "pessimistic")
    return {
        tuple(query): {name: tuple(float(getattr(metrics.ranks[name], kind)[i]) for kind in kinds) for name in FILTERS}
        for i, query in enumerate(asked)
    }


@pytest.mark.parametrize("name", ["tied", *COUNTERS])
@pytest.mark.parametrize("dt", [0.0, 3.0])
def test_each_query_is_ranked_among_its_own_list(name: str, dt: float) -> None:
    timeline, model = make_timeline(), make_model(name)
    lists, protocol = draw_lists(timeline), horizon(dt) if dt else SINGLE_STEP
    slow = slow_ranks(model, timeline, lists, dt)
    assert len({ranks[name] for ranks in slow.values() for name in FILTERS}) > 5
    for cells in (None, 1, 4 * N):
        found = evaluate(model, timeline, TARGET, protocol, cells=cells, candidates=as_candidates(lists))
        assert rows_of(found) == slow


@pytest.mark.parametrize("name", ["tied", *COUNTERS])
def test_lists_of_all_entities_give_the_ranks_among_all(name: str) -> None:
    timeline, model = make_timeline(), make_model(name)

    def everybody(queries: Queries, t: Tensor) -> Listed:
        """One list in memory that all queries share."""
        start = torch.zeros_like(queries.s)
        return listed(torch.arange(N, dtype=torch.int32), start, start + N)

    among = evaluate(model, timeline, TARGET, candidates=everybody)
    assert rows_of(among) == rows_of(evaluate(model, timeline, TARGET))


def test_a_table_of_equally_long_lists_and_repeats_within_a_list_change_nothing() -> None:
    timeline, rng = make_timeline(), np.random.default_rng(3)
    lists = {question: rng.choice(N, size=4, replace=False).tolist() for question in draw_lists(timeline)}
    s, r, t = zip(*lists, strict=True)
    table = np.array(list(lists.values()), dtype=np.int32)
    expected = rows_of(evaluate(Tied(), timeline, TARGET, candidates=as_candidates(lists)))
    for objects in (table, np.concatenate([table, table[:, :2]], axis=1), torch.from_numpy(table)):
        candidates = candidate_lists(np.array(s), torch.tensor(r), t, objects)
        assert rows_of(evaluate(Tied(), timeline, TARGET, candidates=candidates)) == expected


def test_a_forecaster_ranks_among_candidates() -> None:
    forecaster = make_forecaster("recurrence", make_dataset(1))
    whole = forecaster.evaluate("test")

    def none(queries: Queries, t: Tensor) -> Listed:
        start = torch.zeros_like(queries.s)
        return listed(start[:0], start, start)

    assert forecaster.evaluate("test", candidates=none)["raw"].mrr == 100 > whole["raw"].mrr


def _without(lists: dict[Question, list[int]]) -> CandidateLists:
    return as_candidates(dict(list(lists.items())[1:]))


def _of_other_ids(lists: dict[Question, list[int]]) -> CandidateLists:
    return as_candidates(lists | {next(iter(lists)): [2, N]})


def _too_few(lists: dict[Question, list[int]]) -> Callable[[Queries, Tensor], Listed]:
    zero = torch.zeros(1, dtype=torch.int64)
    return lambda queries, t: listed(zero, zero, zero)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (_without, r"queries have no list, the first being \(s="),
        (lambda lists: candidate_lists([], [], [], []), "queries have no list"),
        (_of_other_ids, f"holds the id {N}, and entities have ids 0 to {N - 1}"),
        (_too_few, "candidates: 1 lists for"),
    ],
)
def test_lists_that_do_not_match_the_queries_are_an_error(make: Callable[..., Any], message: str) -> None:
    timeline = make_timeline()
    with pytest.raises(DataError, match=message):
        evaluate(Tied(), timeline, TARGET, candidates=make(draw_lists(timeline)))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (([1, 1], [0, 0], [3, 3], [[1], [2]]), r"\(s=1, r=0, \?\) at time 3 has two lists"),
        (([1, 1], [0, 1], [3, 3], [[1]]), "2 subjects, 2 relations, 2 times and 1 lists"),
        (([1], [0], [3], [[-1, 2]]), "a list begins with .*-1"),
        (([1], [0], [3], [[0.5, 2]]), "a list begins with .*0.5"),
        (([1], [0], [3], [["e1"]]), "a list begins with .*e1"),
    ],
)
def test_tables_that_are_none_are_refused(table: tuple[Any, ...], message: str) -> None:
    with pytest.raises(DataError, match=message):
        candidate_lists(*table)


def test_a_damaged_score_of_a_candidate_is_an_error() -> None:
    class Damaged(Tied):
        def score(self, encoded: Windows, queries: Queries) -> Tensor:
            scores = super().score(encoded, queries)
            scores[:, 2] = torch.nan
            return scores

    timeline = make_timeline()
    lists = {question: [1] for question in draw_lists(timeline)}
    asked = prepare(timeline, TARGET).queries
    facts = true_facts(timeline)
    with pytest.raises(TrainingError, match=f"{int((asked.answer == 2).sum())} of {len(asked)} queries have a score"):
        evaluate(Damaged(), timeline, TARGET, facts=facts, candidates=as_candidates(lists))
    with pytest.raises(TrainingError, match=f"{len(asked)} of {len(asked)} queries have a score"):
        evaluate(Damaged(), timeline, TARGET, candidates=as_candidates({question: [2] for question in lists}))
