"""Windows -> one block-diagonal graph for each interval, numbered by the rows that it touches (DESIGN section 5).

What depends on the timeline alone was made once by sorting (:mod:`tangokg.snapshots.rows`); a batch of windows is put
together by indexing, and all its sizes are known on the host, so that a GPU is never waited for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate

import torch
from torch import Tensor

from tangokg.quads.values import Ids
from tangokg.snapshots.ranges import expand
from tangokg.snapshots.rows import Edges
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Windows


@dataclass(frozen=True, eq=False)
class Interval:
    """What acts during the i-th interval of every window: one graph over ``num_rows`` rows, W isolated ones at the end.

    The isolated row of a window shows what the solver does to an entity without edges.
    """

    rows: Tensor  # (A,) block rows that the graph touches; its own numbering is their order here
    num_objects: int  # the first of them are the objects of edges
    edges: Edges  # weight 1 / |N(o)|
    changes: Edges  # weight T / |N_T(o)|
    dt: Tensor  # (A + W,) length of the interval for each row, in the data's unit; 0 where a window has none

    @property
    def num_rows(self) -> int:
        return len(self.dt)


@dataclass(frozen=True, eq=False)
class Block:
    """Several windows as one: the touched entities of each, one after the other, and the graph of each interval."""

    entity: Tensor  # (M,) ascending within a window
    window: Tensor  # (M,) ascending
    key: Tensor  # (M,) window * N + entity, ascending: finds the row of an entity; W * N where nobody stands
    borders: list[int]  # (W + 1) on the host: where the rows of each window begin
    intervals: tuple[Interval, ...]
    num_entities: int

    def __len__(self) -> int:
        return len(self.borders) - 1

    def find(self, window: Tensor, entity: Tensor) -> tuple[Tensor, Tensor]:
        """``(row, touched)``: the row of each (window, entity), and whether there is one (else row is any)."""
        wanted = window * self.num_entities + entity
        row = torch.searchsorted(self.key, wanted).clamp(max=max(len(self.key) - 1, 0))
        return row, self.key.index_select(0, row) == wanted if len(self.key) else torch.zeros_like(wanted).bool()


@dataclass(frozen=True)
class Capacity:
    """Room for a block: its rows, and the objects, other rows, edges and changes of each of its intervals.

    Blocks of one capacity have tensors of one shape, whatever their windows hold: a GPU can replay what it did for one.
    Beyond what a block fills stand rows of an entity that nobody asks for, and edges of weight 0.
    """

    rows: int
    objects: int
    others: int
    edges: int
    changes: int


def needed(timeline: Timeline, windows: Windows, history: int) -> Capacity:
    """The least capacity for these windows; one row more than they fill."""
    known = windows.known_on_host
    parts = [_filled(timeline, known - back) for back in range(1, min(history, len(timeline)) + 1)]
    rows = int(timeline.window_rows(min(history, len(timeline))).sizes[known].sum())
    return Capacity(rows + 1, *(max(column) for column in zip(*parts, strict=True)))


def _filled(timeline: Timeline, snapshot: Ids) -> tuple[int, int, int, int]:
    """Objects, other rows, edges and changes of all these snapshots; a negative one has none."""
    rows, objects, edges, changes = timeline.active.sizes[snapshot[snapshot >= 0]].sum(0).tolist()
    return objects, rows - objects, edges, changes


def build_block(
    timeline: Timeline,
    windows: Windows,
    history: int,
    extra: Tensor | None = None,
    capacity: Capacity | None = None,
) -> Block:
    """Join windows over their last ``history`` known snapshots; ``extra`` are keys of further rows that are wanted.

    With a ``capacity`` no tensor depends on the host: the block is a function of ``windows.known`` and ``windows.t`` on
    the device alone, but for its ``borders``.
    """
    history = min(history, len(timeline))
    n, rows = timeline.num_entities, timeline.window_rows(history)
    borders = [0] if capacity else [0, *accumulate(rows.sizes[windows.known_on_host].tolist())]
    start, stop = (rows.offset.index_select(0, windows.known + i) for i in (0, 1))
    row, owner = expand(start, stop, capacity.rows if capacity else borders[-1])
    window = owner.clamp(max=len(windows) - 1)
    entity = rows.entity.index_select(0, row)
    first = (stop - start).cumsum(0) - (stop - start)  # (W,) where each window's rows begin
    intervals = []
    for back in range(history, 0, -1):
        filled = (
            (capacity.objects, capacity.others, capacity.edges, capacity.changes)
            if capacity
            else _filled(timeline, windows.known_on_host - back)
        )
        if sum(filled):
            place = first, rows.place[back - 1]
            intervals.append(_interval(timeline, windows, back, place, len(row) - 1, filled))
    block = Block(entity, window, owner * n + entity, borders, tuple(intervals), n)
    return block if extra is None else _with_rows(block, extra)


def _with_rows(block: Block, extra: Tensor) -> Block:
    """The block with rows for these keys too, where it has none yet."""
    key = torch.unique(torch.cat([block.key, extra]))
    moved = torch.searchsorted(key, block.key)  # (M,) new place of each row
    ends = torch.arange(len(block) + 1, device=key.device) * block.num_entities
    intervals = tuple(replace(part, rows=moved.index_select(0, part.rows)) for part in block.intervals)
    borders = torch.searchsorted(key, ends).tolist()
    return Block(key % block.num_entities, key // block.num_entities, key, borders, intervals, block.num_entities)


def _interval(
    timeline: Timeline,
    windows: Windows,
    back: int,
    place: tuple[Tensor, Tensor],
    nobody: int,
    room: tuple[int, int, int, int],
) -> Interval:
    """The interval that begins ``back`` snapshots before the end of each window's history.

    ``place`` says where each window's rows begin in the block, and where among them a touched entity stands; ``nobody``
    is the block's row for what is left of the ``room``.
    """
    active, (objects, others, edges, changes) = timeline.active, room
    snapshot = windows.known - back  # (W,); negative: this window has no such interval
    there = snapshot >= 0
    j = snapshot.clamp(min=0)

    def runs(offset: Tensor, total: int) -> tuple[Tensor, Tensor]:
        start = offset.index_select(0, j)
        return expand(start, torch.where(there, offset.index_select(0, j + 1), start), total)

    end = windows.t if back == 1 else timeline.t.index_select(0, (j + 1).clamp(max=len(timeline) - 1))
    dt = torch.where(there, end - timeline.t.index_select(0, j), 0.0)  # (W,)
    row, owner = runs(active.offset, objects + others)
    w = owner.clamp(max=len(windows) - 1)
    own = torch.where(there, active.offset.index_select(0, j + 1) - active.offset.index_select(0, j), 0)  # (W,)
    own_objects = torch.where(there, active.num_objects.index_select(0, j), 0)
    begin, begin_objects = own.cumsum(0) - own, own_objects.cumsum(0) - own_objects
    # Objects of all windows come first: the number of a row is where it stands among those, or among the others.
    at = torch.arange(objects + others, device=row.device)  # one window after the other
    local = at - begin.index_select(0, w)
    as_object = begin_objects.index_select(0, w) + local
    as_other = objects + at - (begin_objects + own_objects).index_select(0, w)
    number = torch.where(local < own_objects.index_select(0, w), as_object, as_other)
    number = torch.where(owner < len(windows), number, objects + others)  # what is left over gets the one beyond
    rows = at.new_full((objects + others + 1,), nobody)
    rows.scatter_(0, number, place[0].index_select(0, w) + place[1].index_select(0, row))
    lengths = dt.new_zeros(objects + others + 1).scatter_(0, number, dt.index_select(0, w))

    def join(offset: Tensor, total: int, whole: Edges) -> Edges:
        """The edges of all windows; those beyond what is filled have weight 0."""
        edge, owner = runs(offset, total)
        filled = owner < len(windows)
        start = torch.where(filled, begin.index_select(0, owner.clamp(max=len(windows) - 1)), 0)

        def pick(column: Tensor) -> Tensor:
            return column.index_select(0, edge) * filled

        def renumber(end: Tensor) -> Tensor:
            return (number.index_select(0, start + pick(end)) * filled).to(end.dtype)

        def joined(e: Edges) -> Edges:
            return Edges(renumber(e.s), pick(e.r), renumber(e.o), pick(e.weight), tuple(joined(one) for one in e.by))

        return joined(whole)

    of_edges, of_changes = timeline.graph_edges
    return Interval(
        rows=rows[:-1],
        num_objects=objects,
        edges=join(timeline.offset, edges, of_edges),
        changes=join(timeline.change_offset, changes, of_changes),
        dt=torch.cat([lengths[:-1], dt]),
    )
