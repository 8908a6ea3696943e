"""Snapshots and transitions are what a few lines of Python sets say they are."""

from __future__ import annotations

from dataclasses import fields, replace
from math import isqrt

import numpy as np
import pytest
import torch

from conftest import R, facts_like, make_facts, make_timeline, make_vocab
from tangokg.quads.values import Quadruples, concatenate, in_time_order
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


def largest_for_one_key(facts: Quadruples) -> int:
    """How many entities an edge may have so that it is one 64-bit number, and its snapshot in it."""
    return isqrt(2**62 // (len(set(facts.t.tolist())) + 2) // (2 * R))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("in_order", [False, True], ids=["as drawn", "in time order"])
@pytest.mark.parametrize("more", [None, 0, 1, 2**31], ids=["small", "the largest in one key", "one more", "huge"])
def test_snapshots_and_transitions_equal_sets(seed: int, in_order: bool, more: int | None) -> None:
    """Edges stand in (s, r, o) order, transitions with what forms first; ids up to the last one that there is."""
    facts = make_facts(seed)
    facts = in_time_order(facts) if in_order else facts
    if more is not None:
        num_entities = largest_for_one_key(facts) + more
        facts = replace(facts, s=num_entities - 1 - facts.s, o=num_entities - 1 - facts.o)
    timeline = build_timeline(facts, None if more is None else num_entities)
    expected = edge_sets(facts)
    assert timeline.t.tolist() == sorted(set(facts.t.tolist()))
    assert len(timeline) == len(expected)
    for j, edges in enumerate(expected):
        assert snapshot(timeline, j) == sorted(edges)
        before = expected[j - 1] if j else edges
        formed, dissolved = sorted(edges - before), sorted(before - edges)
        assert transition(timeline, j) == [(edge, 1) for edge in formed] + [(edge, -1) for edge in dissolved]


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


def test_the_leading_snapshots_are_those_of_the_facts_before_and_share_their_columns() -> None:
    facts = make_facts(1)
    timeline = build_timeline(facts)
    for number, t in [*enumerate(timeline.t.tolist()), (len(timeline), 1e9)]:
        view, alone = timeline.leading(number), build_timeline(facts.before(t))
        for column in (f.name for f in fields(Timeline) if f.name != "vocab"):
            assert torch.equal(torch.as_tensor(getattr(view, column)), torch.as_tensor(getattr(alone, column))), column
        assert view.s.data_ptr() == timeline.s.data_ptr() or not len(view.s)
        assert view.derive(len) == number, "nothing derived from the whole stands in a part"
    assert timeline.derive(len) == len(timeline)


def test_a_vocabulary_may_be_longer_than_the_facts() -> None:
    facts = replace(make_facts(), vocab=make_vocab(40, 5))
    timeline = build_timeline(facts)
    assert (timeline.num_entities, timeline.num_relations) == (40, 5)
    assert set(snapshot(timeline, 2)) == edge_sets(facts, 5)[2]
