"""The index of a history: equal however it grew, and its parts are those of the whole timeline; slow twins beside."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from conftest import N, R, facts_like, make_facts
from tangokg.history.evidence import seen_before
from tangokg.history.index import HistoryIndex, build_index
from tangokg.history.occurrences import count_unseen, past_of_label
from tangokg.history.series import active_pairs, pasts_of
from tangokg.history.sorted_rows import Layers, add_rows, expand, sort_rows
from tangokg.history.subjects import last_edges
from tangokg.quads.values import Quadruples, concatenate
from tangokg.snapshots.timeline import build_timeline

SNAPSHOTS = 20
SEEN = torch.arange(N) % 3 > 0


def pieces(facts: Quadruples, number: int = 9) -> list[Quadruples]:
    """The facts in any order, cut into parts of several sizes, some of them reported twice."""
    order = np.random.default_rng(3).permutation(len(facts))
    cuts = np.sort(np.random.default_rng(4).integers(len(facts), size=number - 1))
    parts = [facts.select(rows) for rows in np.split(order, cuts)]
    return [concatenate([part, parts[0].select(slice(0, 3))]) for part in parts]


def grow(facts: Quadruples) -> HistoryIndex:
    first, *rest = pieces(facts)
    index = build_index(first)
    for seen in (SEEN.numpy(), SEEN.numpy()[:0]):
        assert index.objects(seen), "made now, and kept up from here on"
    for part in rest:
        index, _ = index.add(part)
    return index


def rows(layers: Layers) -> list[tuple[Any, ...]]:
    return sorted(row for x in layers for row in zip(*(c.tolist() for c in x.read(slice(None))), strict=True))


@pytest.mark.parametrize("seed", range(3))
def test_an_index_that_grew_equals_one_made_from_all_facts(seed: int) -> None:
    facts = make_facts(seed, SNAPSHOTS)
    made, grown = build_index(facts), grow(facts)
    for name in ("t", "pairs", "relations"):
        assert getattr(made, name).tolist() == getattr(grown, name).tolist(), name
    assert rows(made.edges) == rows(grown.edges)
    assert set(rows(made.facts)) == set(rows(grown.facts))
    assert len(grown.edges) > 1, "or nothing was merged"


def test_each_layer_is_more_than_twice_the_next_one() -> None:
    layers: Layers = ()
    rng = np.random.default_rng(0)
    for size in rng.integers(1, 9, size=200):
        layers = add_rows(layers, sort_rows(rng.integers(9, size=size), rng.integers(9, size=size), (), False), False)
        sizes = [len(layer) for layer in layers]
        assert all(a > 2 * b for a, b in pairwise(sizes)), sizes
    assert max(map(len, layers)) > 200


@pytest.mark.parametrize("largest", [2**62, 1])
def test_rows_are_found_by_group_and_time(largest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tangokg.history.sorted_rows.LARGEST", largest)
    rng = np.random.default_rng(1)
    group, t, value = rng.integers(-4, 9, 80), rng.integers(-30, 30, 80) ** 3, rng.integers(0, 3, 80)
    table = sort_rows(group, t, (value,), distinct=True)
    expected = sorted(set(zip(group.tolist(), t.tolist(), value.tolist(), strict=True)))
    assert rows((table,)) == expected
    assert list(zip(*(c.tolist() for c in table.read(slice(None))), strict=True)) == expected, "in this order"
    asked = np.arange(-6, 12)
    for since, before in ((-np.inf, np.inf), (-100, 64), (0, 0), (5, 10**9)):
        found, owner = expand(*table.spans(asked, since, before))
        slow = [(g, *row[1:]) for g in asked.tolist() for row in expected if row[0] == g and since <= row[1] < before]
        assert list(zip(*(c.tolist() for c in table.read(found)), strict=True)) == slow
        assert asked[owner].tolist() == [row[0] for row in slow]


@pytest.mark.parametrize("make", [build_index, grow])
def test_the_edges_around_a_subject_are_its_rows_of_the_whole_timeline(make: Any) -> None:
    facts = make_facts(1, SNAPSHOTS)
    whole, index = build_timeline(facts), make(facts)
    for subjects in ([3], [0, 5, N - 1], list(range(N))):
        part = index.around(np.array(subjects))
        mine = torch.isin(whole.s, torch.tensor(subjects))
        j = torch.repeat_interleave(whole.offset.diff())[mine]
        for name in "sro":
            assert torch.equal(getattr(part, name), getattr(whole, name)[mine])
        assert torch.equal(part.t, whole.t)
        assert torch.equal(torch.repeat_interleave(part.offset.diff()), j)
        assert index.rows_of(np.array(subjects)) == int(mine.sum())


@pytest.mark.parametrize("make", [build_index, grow])
@pytest.mark.parametrize("size", [1, 3, 40])
def test_last_edges_are_those_that_a_loop_finds(make: Any, size: int) -> None:
    facts = make_facts(2, SNAPSHOTS)
    whole = build_timeline(facts)
    j = torch.repeat_interleave(whole.offset.diff()).tolist()
    edges = list(zip(whole.s.tolist(), j, whole.r.tolist(), whole.o.tolist(), strict=True))
    node, known = torch.cartesian_prod(torch.tensor([4, 0, N - 1, 4]), torch.tensor([0, 1, 7, SNAPSHOTS])).T
    slow = [
        (row, r, o, whole.t[at].item())
        for row, (s, end) in enumerate(zip(node.tolist(), known.tolist(), strict=True))
        for _, at, r, o in [edge for edge in edges if edge[0] == s and edge[1] < end][::-1][:size]
    ]
    for timeline in (whole, make(facts).around(np.array([4]))):
        found = timeline.derive(last_edges)(node, known, size)
        assert list(zip(*(column.tolist() for column in found), strict=True)) == slow


@pytest.mark.parametrize("make", [build_index, grow])
def test_a_window_has_the_snapshots_and_transitions_of_the_whole_timeline(make: Any) -> None:
    facts = make_facts(1, SNAPSHOTS)
    whole, index = build_timeline(facts), make(facts)
    for first, end in ((0, 4), (6, 11), (SNAPSHOTS - 3, SNAPSHOTS)):
        part = index.window(np.arange(first, end))
        assert torch.equal(part.t, whole.t)
        for j in range(first, end):
            for name in "sro":
                assert torch.equal(getattr(part[j], name), getattr(whole[j], name))
            if j > first or j == 0:
                assert all(torch.equal(a, b) for a, b in zip(part.transition(j), whole.transition(j), strict=True))


@pytest.mark.parametrize("make", [build_index, grow])
def test_counts_are_those_of_the_whole_timeline(make: Any) -> None:
    facts = make_facts(1, SNAPSHOTS)
    whole, index = build_timeline(facts), make(facts)
    gap = 1.5
    assert torch.equal(torch.from_numpy(index.pairs), torch.bincount(pasts_of(whole, gap).pair.j, minlength=SNAPSHOTS))
    assert whole.derive(active_pairs) is None
    part = pasts_of(index.around(np.array([3])), gap)
    assert torch.equal(part.activity, pasts_of(whole, gap).activity)
    assert torch.equal(part.steps, pasts_of(whole, gap).steps)
    slow, fast = whole.derive(past_of_label), index.past_of_label
    for known in (0, 1, 9, SNAPSHOTS):
        label = torch.arange(2 * R)
        a, b = (past(label, torch.full_like(label, known)) for past in (slow, fast))
        for name in ("row", "o", "count", "last"):
            assert torch.equal(getattr(a, name), getattr(b, name)), name
        both = torch.tensor([known, 5])
        a, b = (count(both, SEEN) for count in (whole.derive(count_unseen), index.count_unseen))
        assert all(torch.equal(x, y) for x, y in zip(a, b, strict=True))
        step = float(whole.t[known - 1]) + 0.5 if known else float(whole.t[0])
        r = whole.r[: int(whole.offset[known])]
        assert index.relations_before(step).tolist() == torch.bincount(r, minlength=2 * R)[:R].tolist()


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("make", [build_index, grow])
def test_how_often_and_when_facts_were_seen(make: Any, timed: bool) -> None:
    facts = make_facts(1, SNAPSHOTS)
    if timed:
        rng = np.random.default_rng(0)
        facts = replace(facts, exact=facts.t + rng.random(len(facts)))
        once = np.unique(np.stack([facts.s, facts.r, facts.o, facts.t]), axis=1, return_index=True)[1]
        facts = facts.select(once)  # of two reports of one fact, the index that grew has the first
    index = make(facts)
    step = float(np.unique(facts.t)[-2])
    for s, r, o in ((facts.s, facts.r, facts.o), (facts.s, facts.r, np.full_like(facts.o, 4))):
        count, moment = seen_before(index, s, r, o, step)
        for i in range(len(s)):
            own = (facts.s == s[i]) & (facts.r == r[i]) & (facts.o == o[i]) & (facts.t < step)
            assert count[i] == len(set(facts.t[own].tolist()))
            assert not own.any() or moment[i] == facts.moments[own].max()


def test_facts_that_are_there_are_not_added_and_the_index_given_stays() -> None:
    facts = make_facts(1, SNAPSHOTS)
    index = build_index(facts)
    same, added = index.add(facts)
    assert len(added) == 0
    assert rows(same.edges) == rows(index.edges)
    before = rows(index.edges), index.t.tolist(), index.pairs.tolist()
    last = int(facts.t.max())
    new = facts_like(facts, [(0, 0, 1, last + 1), (0, 0, 1, last + 1), (int(facts.s[0]), 2, 7, last + 2)])
    more, added = index.add(concatenate([facts.select(slice(0, 2)), new]))
    assert added.tolist() == [2, 4]
    assert (rows(index.edges), index.t.tolist(), index.pairs.tolist()) == before
    assert more.t.tolist() == sorted({*before[1], last + 1, last + 2})
