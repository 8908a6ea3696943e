"""The oracle says what the world states, and nothing that was tried ranks better."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from tangokg.errors import DataError
from tangokg.models.oracle import Oracle
from tangokg.quads.world import World, make_world
from tangokg.snapshots.timeline import Timeline, build_timeline
from tangokg.snapshots.windows import Queries, Windows, queries_at, windows_at


@pytest.fixture(scope="module")
def worlds() -> list[World]:
    return [make_world(seed) for seed in range(3)]


def asked_in_test_part(world: World) -> tuple[Timeline, Windows, Queries]:
    timeline = build_timeline(world.facts)
    target = torch.arange(timeline.before(float(world.dataset.test.t.min())), len(timeline))
    return timeline, windows_at(timeline, target), queries_at(timeline, target)


def mean_reciprocal_rank(scores: Tensor, queries: Queries) -> float:
    """Time-aware, ties at their mean rank, one query after the other."""
    true: dict[tuple[int, int, int], list[int]] = {}
    rows = list(zip(*(c.tolist() for c in (queries.window, queries.s, queries.r, queries.answer)), strict=True))
    for w, s, r, o in rows:
        true.setdefault((w, s, r), []).append(o)
    reciprocal = []
    for (w, s, r, o), row in zip(rows, scores.numpy(), strict=True):
        others = np.delete(row, true[w, s, r])
        reciprocal.append(1 / (1 + (others > row[o]).sum() + 0.5 * (others == row[o]).sum()))
    return float(np.mean(reciprocal))


def test_scores_equal_a_slow_lookup_in_both_directions(worlds: list[World]) -> None:
    world = worlds[0]
    timeline, windows, queries = asked_in_test_part(world)
    rows = torch.arange(0, len(queries), 37)
    queries = queries.select(rows)
    oracle = Oracle(world)
    scores = oracle.score(oracle.encode(timeline, windows), queries)
    stated = world.stated
    at = {
        (t, s, r, o): p
        for s, r, o, t, p in zip(*(c.tolist() for c in (stated.s, stated.r, stated.o, stated.t, stated.p)), strict=True)
    }
    days, above_floor = world.t.tolist(), 0
    for w, s, r, row in zip(*(c.tolist() for c in (queries.window, queries.s, queries.r, scores)), strict=True):
        t = int(windows.t[w])
        for o, score in enumerate(row):
            fact = (t, s, r, o) if r < oracle.num_relations else (t, o, r - oracle.num_relations, s)
            expected = world.floor[days.index(t), fact[2], int(world.bloc[s] == world.bloc[o])]
            if s == o or max(world.since[s], world.since[o]) > t:
                expected = 0.0
            above_floor += fact in at
            assert score == pytest.approx(at.get(fact, expected), rel=2e-9, abs=0), fact
    assert set((queries.r // oracle.num_relations).tolist()) == {0, 1}
    assert above_floor > 20


def test_one_who_has_not_come_is_in_no_fact(worlds: list[World]) -> None:
    world = worlds[0]
    oracle, timeline = Oracle(world), build_timeline(world.facts)
    late = int(world.since.argmax())
    windows = windows_at(timeline, torch.tensor([0, len(timeline) - 1]))
    queries = Queries(torch.tensor([0, 1]), torch.tensor([late] * 2), torch.tensor([0] * 2), torch.tensor([-1] * 2))
    before, after = oracle.score(oracle.encode(timeline, windows), queries)
    assert not before.any()
    assert (after > 0).sum() == len(world.bloc) - 1


def test_windows_and_queries_may_be_batched_in_any_way(worlds: list[World]) -> None:
    world = worlds[0]
    timeline, windows, queries = asked_in_test_part(world)
    oracle = Oracle(world)
    together = oracle.score(oracle.encode(timeline, windows), queries)
    row = len(queries) // 2
    w = queries.window[row]
    alone = Windows(windows.known[w : w + 1], windows.t[w : w + 1])
    query = Queries(torch.tensor([0]), queries.s[row : row + 1], queries.r[row : row + 1], torch.tensor([-1]))
    assert torch.equal(oracle.score(oracle.encode(timeline, alone), query)[0], together[row])


def test_no_score_depends_on_the_facts_of_the_target_day(worlds: list[World]) -> None:
    world = worlds[0]
    timeline, windows, queries = asked_in_test_part(world)
    oracle = Oracle(world)
    earlier = build_timeline(world.facts.before(float(windows.t[0])))
    scores = oracle.score(oracle.encode(timeline, windows), queries)
    assert torch.equal(oracle.score(oracle.encode(earlier, windows), queries), scores)


def blurred(oracle: Oracle, encoded: Tensor, queries: Queries) -> Tensor:
    scores = oracle.score(encoded, queries)
    noise = torch.randn(scores.shape, generator=torch.Generator().manual_seed(0), dtype=scores.dtype)
    return scores * torch.exp(2 * noise)


def shuffled(oracle: Oracle, encoded: Tensor, queries: Queries) -> Tensor:
    order = torch.randperm(oracle.num_entities, generator=torch.Generator().manual_seed(0))
    return oracle.score(encoded, queries)[:, order]


def a_day_late(oracle: Oracle, encoded: Tensor, queries: Queries) -> Tensor:
    return oracle.score(encoded - 1, queries)


def without_blocs(oracle: Oracle, encoded: Tensor, queries: Queries) -> Tensor:
    scores = oracle.score(encoded, queries)
    guess = torch.rand(scores.shape, generator=torch.Generator().manual_seed(0), dtype=scores.dtype)
    return torch.where(scores < 1e-3, 1e-3 * guess, scores)


def with_ties(oracle: Oracle, encoded: Tensor, queries: Queries) -> Tensor:
    return oracle.score(encoded, queries).float()


@pytest.mark.parametrize("worse", [blurred, shuffled, a_day_late, without_blocs, with_ties])
def test_any_other_order_ranks_worse(worlds: list[World], worse: Callable[[Oracle, Tensor, Queries], Tensor]) -> None:
    gains = []
    for world in worlds:
        timeline, windows, queries = asked_in_test_part(world)
        oracle = Oracle(world)
        encoded = oracle.encode(timeline, windows)
        best = mean_reciprocal_rank(oracle.score(encoded, queries), queries)
        gains.append(best - mean_reciprocal_rank(worse(oracle, encoded, queries), queries))
    assert np.mean(gains) > 0


def test_probabilities_are_shares(worlds: list[World]) -> None:
    oracle = Oracle(worlds[0])
    p = oracle.probabilities(torch.tensor([[0.2, 0.6, 0.0], [0.0, 0.0, 0.0]], dtype=torch.float64))
    assert p[0].tolist() == pytest.approx([0.25, 0.75, 0.0])
    assert p[1].tolist() == pytest.approx([1 / 275] * 3)


def test_there_is_nothing_to_train_or_save(worlds: list[World]) -> None:
    oracle = Oracle(worlds[0])
    assert not list(oracle.parameters())
    assert not oracle.state_dict()


def test_a_day_that_was_not_observed_and_a_foreign_timeline_are_refused(worlds: list[World]) -> None:
    oracle, timeline = Oracle(worlds[0]), build_timeline(worlds[0].facts)
    for t in (worlds[0].t[-1] + 5.0, 0.5):
        with pytest.raises(DataError, match=f"day {t:g} is none of them: ask for an observed day"):
            oracle.encode(timeline, Windows(torch.tensor([1]), torch.tensor([t], dtype=torch.float64)))
    other = build_timeline(worlds[0].facts, num_entities=300)
    with pytest.raises(DataError, match="275 entities and 7 relations, the facts have 300 and 7"):
        oracle.encode(other, windows_at(other, torch.tensor([1])))
