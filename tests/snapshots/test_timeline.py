"""Snapshots and transitions are what a few lines of Python sets say they are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from conftest import R, facts_like, make_facts, make_timeline, make_vocab
from tangokg.quads.values import Quadruples, concatenate
from tangokg.snapshots.timeline import Timeline, build_timeline

Edge = tuple[int, int, int]


def edge_sets(facts: Quadruples, num_relations: int = R) -> list[set[Edge]]:
    """One set for each time, reciprocals included."""
    rows = list(zip(*(column.tolist() for column in (facts.s, facts.r, facts.o, facts.t)), strict=True))
    return [
        {(s, r, o) for s, r, o, u in rows if u == t} | {(o, r + num_relations, s) for s, r, o, u in rows if u == t}
        for t in sorted({row[3] for row in rows})
    ]


def snapshot(timeline: Timeline, j: int) -> list[Edge]:
    g = timeline[j]
    return list(zip(g.s.tolist(), g.r.tolist(), g.o.tolist(), strict=True))


def transition(timeline: Timeline, j: int) -> list[tuple[Edge, int]]:
    s, r, o, sign = (column.tolist() for column in timeline.transition(j))
    return [((a, b, c), d) for a, b, c, d in zip(s, r, o, sign, strict=True)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("num_entities", [None, 2**31 - 1], ids=["one key", "two keys"])
def test_snapshots_and_transitions_equal_sets(seed: int, num_entities: int | None) -> None:
    """With 2**31 - 1 entities an edge does not fit into one 64-bit number: the other branch of the sort."""
    facts = make_facts(seed)
    timeline = build_timeline(facts, num_entities)
    expected = edge_sets(facts)
    assert timeline.t.tolist() == sorted(set(facts.t.tolist()))
    assert len(timeline) == len(expected)
    for j, edges in enumerate(expected):
        found = snapshot(timeline, j)
        assert len(found) == len(set(found))
        assert set(found) == edges
        before = expected[j - 1] if j else edges
        changes = transition(timeline, j)
        assert len(changes) == len(dict(changes))
        assert dict(changes) == dict.fromkeys(edges - before, 1) | dict.fromkeys(before - edges, -1)


def test_repeats_and_the_order_of_rows_change_nothing() -> None:
    facts = make_facts(1)
    twice = concatenate([facts.select(np.arange(len(facts))[::-1].copy()), facts])
    a, b = build_timeline(facts), build_timeline(twice)
    for name in ("t", "s", "r", "o", "offset", "change_s", "change_r", "change_o", "change_sign", "change_offset"):
        assert torch.equal(getattr(a, name), getattr(b, name)), name


def test_a_self_loop_has_its_reciprocal() -> None:
    facts = facts_like(make_facts(), [(4, 1, 4, 7)])
    assert snapshot(build_timeline(facts), 0) == [(4, 1, 4), (4, 1 + R, 4)]


def test_nothing_in_nothing_out() -> None:
    facts = make_facts().before(-1)
    timeline = build_timeline(facts)
    assert (len(timeline), len(timeline.s), len(timeline.change_s)) == (0, 0, 0)
    assert timeline.offset.tolist() == timeline.change_offset.tolist() == [0]


def test_before_counts_the_snapshots_strictly_before() -> None:
    timeline = make_timeline()
    for j, t in enumerate(timeline.t.tolist()):
        assert timeline.before(t) == j
        assert timeline.before(t + 0.5) == j + 1
    assert timeline.before(-1e9) == 0


def test_several_snapshots_come_one_after_the_other() -> None:
    timeline = make_timeline()
    rows, owner = timeline.edges_of(torch.tensor([5, 2]))
    assert owner.tolist() == [0] * len(timeline[5].s) + [1] * len(timeline[2].s)
    assert torch.equal(timeline.o[rows], torch.cat([timeline[5].o, timeline[2].o]))
    rows, owner = timeline.changes_of(torch.tensor([0, 3]))
    assert torch.equal(timeline.change_sign[rows], timeline.transition(3)[3])
    assert set(owner.tolist()) == {1}


def test_a_vocabulary_may_be_longer_than_the_facts() -> None:
    facts = replace(make_facts(), vocab=make_vocab(40, 5))
    timeline = build_timeline(facts)
    assert (timeline.num_entities, timeline.num_relations) == (40, 5)
    assert set(snapshot(timeline, 2)) == edge_sets(facts, 5)[2]
