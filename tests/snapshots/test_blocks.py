"""Blocks number the touched entities of each window, and their graphs are the snapshots renumbered."""

from __future__ import annotations

from dataclasses import asdict, replace
from itertools import pairwise

import pytest
import torch

from conftest import N, make_facts, make_timeline
from tangokg.snapshots.blocks import Block, Capacity, Interval, build_block, needed
from tangokg.snapshots.rows import Edges, orders_of, touched_rows
from tangokg.snapshots.timeline import Timeline, build_timeline
from tangokg.snapshots.windows import Windows, windows_at

Row = tuple[int, int]  # window, entity


def rows_of(block: Block, interval: Interval) -> list[Row]:
    """What each row of the interval stands for."""
    w, entity = block.window[interval.rows].tolist(), block.entity[interval.rows].tolist()
    return list(zip(w, entity, strict=True))


def expected_rows(timeline: Timeline, windows: Windows, back: int) -> tuple[set[Row], set[Row]]:
    """Objects of the graph, and all that graph or transition touches, ``back`` snapshots before each window's end."""
    objects, touched = set(), set()
    for w, known in enumerate(windows.known.tolist()):
        if (j := known - back) >= 0:
            g, (s, _, o, _) = timeline[j], timeline.transition(j)
            objects |= {(w, e) for e in g.o.tolist()}
            touched |= {(w, e) for e in g.s.tolist() + g.o.tolist() + s.tolist() + o.tolist()}
    return objects, touched


@pytest.mark.parametrize("history", [1, 2, 4, 20])
@pytest.mark.parametrize("horizon", [0.0, 3.0])
def test_rows_edges_and_lengths_equal_a_plain_listing(history: int, horizon: float) -> None:
    timeline = make_timeline(3)
    windows = windows_at(timeline, torch.tensor([0, 1, 8, 2, 5]), horizon)
    block = build_block(timeline, windows, history)
    backs = [b for b in range(history, 0, -1) if any(k >= b for k in windows.known.tolist())]
    assert len(block.intervals) == len(backs)
    union: set[Row] = set()
    for interval, back in zip(block.intervals, backs, strict=True):
        rows = rows_of(block, interval)
        objects, touched = expected_rows(timeline, windows, back)
        assert len(rows) == len(set(rows))
        assert set(rows[: interval.num_objects]) == objects
        assert set(rows) == touched
        check_graph(timeline, windows, back, interval, rows)
        check_lengths(timeline, windows, back, interval, rows)
        union |= touched
    found = list(zip(block.window.tolist(), block.entity.tolist(), strict=True))
    assert found == sorted(union)
    assert block.key.tolist() == [w * N + e for w, e in found]
    assert block.borders == [sum(w < i for w, _ in found) for i in range(len(windows) + 1)]


def check_graph(timeline: Timeline, windows: Windows, back: int, interval: Interval, rows: list[Row]) -> None:
    edges, changes = {}, {}
    for w, known in enumerate(windows.known.tolist()):
        if (j := known - back) < 0:
            continue
        g, (s, r, o, sign) = timeline[j], timeline.transition(j)
        for a, b, c in zip(g.s.tolist(), g.r.tolist(), g.o.tolist(), strict=True):
            edges[(w, a), b, (w, c)] = 1 / g.o.tolist().count(c)
        for a, b, c, d in zip(s.tolist(), r.tolist(), o.tolist(), sign.tolist(), strict=True):
            changes[(w, a), b, (w, c)] = d / o.tolist().count(c)
    for part, expected in ((interval.edges, edges), (interval.changes, changes)):
        found = [(rows[s], r, rows[o]) for s, r, o in zip(part.s, part.r.tolist(), part.o, strict=True)]
        assert dict(zip(found, part.weight.tolist(), strict=True)) == pytest.approx(expected, rel=1e-15)
        assert len(found) == len(part) == len(expected)


def check_lengths(timeline: Timeline, windows: Windows, back: int, interval: Interval, rows: list[Row]) -> None:
    length = []
    for known, t in zip(windows.known.tolist(), windows.t.tolist(), strict=True):
        end = t if back == 1 else float(timeline.t[min(known - back + 1, len(timeline) - 1)])
        length.append(end - float(timeline.t[known - back]) if known >= back else 0.0)
    assert interval.dt.tolist() == [length[w] for w, _ in rows] + length
    assert interval.num_rows == len(rows) + len(windows)


def test_a_window_without_history_has_no_rows_and_extra_rows_are_kept() -> None:
    timeline = make_timeline()
    windows = windows_at(timeline, torch.tensor([0, 0]))
    empty = build_block(timeline, windows, 3)
    assert (len(empty), len(empty.key), empty.intervals) == (2, 0, ())
    extra = build_block(timeline, windows, 3, torch.tensor([5, N + 2]))
    assert (extra.window.tolist(), extra.entity.tolist()) == ([0, 1], [5, 2])


def test_extra_rows_move_the_others_and_change_nothing_else() -> None:
    timeline = make_timeline(3)
    windows = windows_at(timeline, torch.tensor([2, 6, 4]))
    plain = build_block(timeline, windows, 2)
    key = torch.tensor([w * N + e for w in range(3) for e in range(0, N, 2)])
    more = build_block(timeline, windows, 2, key)
    assert more.key.tolist() == sorted({*plain.key.tolist(), *key.tolist()})
    assert [more.key[a:b].tolist() for a, b in pairwise(more.borders)] == [
        [k for k in more.key.tolist() if k // N == w] for w in range(3)
    ]
    for a, b in zip(plain.intervals, more.intervals, strict=True):
        assert torch.equal(plain.key[a.rows], more.key[b.rows])
        assert all(torch.equal(getattr(a.edges, x), getattr(b.edges, x)) for x in ("s", "r", "o", "weight"))


def test_a_block_in_more_room_than_it_needs_differs_by_rows_of_nobody_and_edges_of_no_weight() -> None:
    timeline = make_timeline(3)
    windows = windows_at(timeline, torch.tensor([0, 6, 2]))
    plain, least = build_block(timeline, windows, 3), needed(timeline, windows, 3)
    room = Capacity(**{name: size + 5 for name, size in asdict(least).items()})
    wide = build_block(timeline, windows, 3, capacity=room)
    assert torch.equal(wide.key[: len(plain.key)], plain.key)
    assert (wide.key[len(plain.key) :] >= len(windows) * N).all()
    for a, b in zip(plain.intervals, wide.intervals, strict=True):
        assert (b.num_objects, b.num_rows) == (room.objects, room.objects + room.others + len(windows))
        kept = (b.rows < len(plain.key)).nonzero()[:, 0]  # the number in b of each row of a
        assert torch.equal(b.rows[kept], a.rows)
        assert torch.equal(b.dt[kept], a.dt[: len(a.rows)])
        assert (b.dt[: len(b.rows)][b.rows >= len(plain.key)] == 0).all()
        for few, many in ((a.edges, b.edges), (a.changes, b.changes)):
            assert (many.weight[len(few) :] == 0).all()
            for name in ("r", "weight"):
                assert torch.equal(getattr(many, name)[: len(few)], getattr(few, name))
            for name in ("s", "o"):
                assert torch.equal(getattr(many, name)[: len(few)], kept[getattr(few, name)])


def test_a_timeline_without_snapshots_gives_a_block_without_rows() -> None:
    timeline = build_timeline(make_facts(0).select(slice(0, 0)))
    windows = Windows(torch.tensor([0, 0]), torch.tensor([1.0, 2.0], dtype=torch.float64))
    block = build_block(timeline, windows, 3)
    assert (len(block), len(block.key), block.intervals) == (2, 0, ())


def test_orders_of_edges_and_changes_bring_equal_ends_together() -> None:
    """What a GPU gets: three orders, in each interval, of the edges alone and of edges and changes."""
    timeline = make_timeline(3)
    group = torch.repeat_interleave(torch.cat([timeline.offset.diff(), timeline.change_offset.diff()]))
    touched = timeline.derive(touched_rows, 3)
    timeline.give(touched_rows, replace(touched, by=orders_of(touched.edges[:, 0], group)))
    windows = windows_at(timeline, torch.tensor([6, 0, 2]))
    room = Capacity(**{name: size + 5 for name, size in asdict(needed(timeline, windows, 3)).items()})
    for block in (build_block(timeline, windows, 3), build_block(timeline, windows, 3, capacity=room)):
        for part in block.intervals:
            shifted = torch.cat([part.edges.o, part.changes.o + part.num_objects * (part.changes.weight != 0)])
            assert torch.equal(part.both.o, shifted)
            for edges in (part.edges, part.changes, part.both):
                assert len(edges.by) == 3
                for order, end in zip(edges.by, ("s", "r", "o"), strict=True):
                    assert listed(order) == listed(edges)
                    filled = getattr(order, end)[order.weight != 0].tolist()
                    runs = 1 + sum(a != b for a, b in pairwise(filled)) if filled else 0
                    parts = 2 if edges is part.both and end != "o" else 1  # edges, then changes
                    assert runs <= len(set(filled)) * parts * (len(windows) if end == "r" else 1)
                    assert order.weight.dtype == torch.float32


def listed(edges: Edges) -> list[tuple[float, ...]]:
    columns = (edges.s, edges.r, edges.o, edges.weight.float())
    return sorted(zip(*(column.tolist() for column in columns), strict=True))
