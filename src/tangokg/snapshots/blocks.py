"""Windows -> one block-diagonal graph for each interval, numbered by the rows that it touches (DESIGN section 5).

What depends on the timeline alone was made once by sorting (:mod:`tangokg.snapshots.rows`); a batch of windows is put
together by indexing, and all its sizes are known on the host, so that a GPU is not waited for, unless further rows are
wanted (``extra``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

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
    key: Tensor  # (M,) window * N + entity, ascending: finds the row of an entity; W * N and more where nobody stands
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

    With a ``capacity`` nothing depends on the host: the block is a function of ``windows.known`` and ``windows.t`` on
    the device alone, and its ``borders`` are left at 0.
    """
    history = min(history, len(timeline))
    n, rows = timeline.num_entities, timeline.window_rows(history)
    sizes = [0] * len(windows) if capacity else rows.sizes[windows.known_on_host].tolist()
    borders = [0, *accumulate(sizes)]
    start, stop = (rows.offset.index_select(0, windows.known + i) for i in (0, 1))
    row, owner = expand(start, stop, capacity.rows if capacity else borders[-1])
    window = owner.clamp(max=len(windows) - 1)
    entity = rows.entity.index_select(0, row)
    first = (stop - start).cumsum(0) - (stop - start)  # (W,) where each window's rows begin
    backs = range(history, 0, -1)
    if capacity:
        rooms = [_Room(capacity.objects, capacity.others, capacity.edges, capacity.changes)] * history
    else:  # the first intervals may be nobody's
        rooms = [room for back in backs if sum(room := _Room(*_filled(timeline, windows.known_on_host - back)))]
    intervals = _Pieces(timeline, windows, rooms).intervals(first, rows.place, len(row) - 1) if rooms else ()
    block = Block(entity, window, owner * n + entity, borders, intervals, n)
    return block if extra is None else _with_rows(block, extra)


def _with_rows(block: Block, extra: Tensor) -> Block:
    """The block with rows for these keys too, where it has none yet."""
    key = torch.unique(torch.cat([block.key, extra]))
    moved = torch.searchsorted(key, block.key)  # (M,) new place of each row
    ends = torch.arange(len(block) + 1, device=key.device) * block.num_entities
    intervals = tuple(replace(part, rows=moved.index_select(0, part.rows)) for part in block.intervals)
    borders = torch.searchsorted(key, ends).tolist()
    return Block(key % block.num_entities, key // block.num_entities, key, borders, intervals, block.num_entities)


class _Room(NamedTuple):
    """How much there is room for in an interval."""

    objects: int
    others: int
    edges: int
    changes: int


class _Runs(NamedTuple):
    """Concatenated runs of rows: for each its place in the whole, its piece, its place there and in the timeline."""

    at: Tensor
    piece: Tensor
    local: Tensor
    row: Tensor  # 0 where the piece is what is left of the room
    filled: Tensor  # whether it is not
    first: Tensor  # where each piece begins


class _Pieces:
    """The snapshots of all windows in all intervals, the oldest interval first; all intervals are numbered at once.

    A piece is what one window has in one interval, and after the windows of each interval comes what is left of its
    room: I (W + 1) pieces.
    """

    def __init__(self, timeline: Timeline, windows: Windows, rooms: list[_Room]) -> None:
        self.timeline, self.windows, self.rooms = timeline, windows, rooms
        self.device = windows.known.device
        back = torch.arange(len(rooms), 0, -1, device=self.device)[:, None]  # (I, 1)
        snapshot = pad(windows.known - back, (0, 1), value=-1)  # (I, W + 1); negative: there is no such interval
        self.there, self.j = snapshot >= 0, snapshot.clamp(min=0)

    def intervals(self, first: Tensor, place: Tensor, nobody: int) -> tuple[Interval, ...]:
        """``first`` says where each window's rows begin in the block, ``place`` where among them a touched entity is;
        ``nobody`` is the block's row for what is left of the room.
        """
        wide = len(self.windows) + 1
        run = self._runs(self.timeline.active.offset, [room.objects + room.others for room in self.rooms])
        interval, window = run.piece // wide, (run.piece % wide).clamp(max=wide - 2)
        number = self._numbers(run, interval)
        sizes = [room.objects + room.others + 1 for room in self.rooms]  # with one beyond, for what is left over
        slot = number + self._each(accumulate(sizes[:-1], initial=0))[interval]
        rows = slot.new_full((sum(sizes),), nobody)
        rows.scatter_(0, slot, first[window] + place[len(self.rooms) - 1 - interval, run.row])
        dt = self._lengths()  # (I, W)
        lengths = dt.new_zeros(sum(sizes)).scatter_(0, slot, dt[interval, window])
        of_edges, of_changes = self.timeline.graph_edges
        edges = self._join(run.first, number, self.timeline.offset, of_edges, [r.edges for r in self.rooms])
        changes = self._join(
            run.first, number, self.timeline.change_offset, of_changes, [r.changes for r in self.rooms]
        )
        columns = zip(self.rooms, rows.split(sizes), edges, changes, lengths.split(sizes), dt, strict=True)
        return tuple(
            Interval(own[:-1], room.objects, of_edges, of_changes, torch.cat([length[:-1], of_windows]))
            for room, own, of_edges, of_changes, length, of_windows in columns
        )

    def _runs(self, offset: Tensor, rooms: list[int]) -> _Runs:
        """The rows ``offset[j] .. offset[j + 1]`` of all pieces, and what is left of the rooms."""
        start = offset[self.j]  # (I, W + 1)
        length = torch.where(self.there, offset[self.j + 1] - start, 0)
        length[:, -1] = self._each(rooms) - length.sum(1)
        after, at = length.flatten().cumsum(0), torch.arange(sum(rooms), device=self.device)
        piece, first = torch.searchsorted(after, at, right=True), after - length.flatten()
        local, filled = at - first[piece], self.there.flatten()[piece]
        return _Runs(at, piece, local, (start.flatten()[piece] + local) * filled, filled, first)

    def _numbers(self, run: _Runs, interval: Tensor) -> Tensor:
        """The number of each row in its interval: objects of all windows come first, then the others of all windows.

        What is left over gets the one beyond.
        """
        own = torch.where(self.there, self.timeline.active.num_objects[self.j], 0)  # (I, W + 1)
        before = (own.cumsum(1) - own).flatten()[run.piece]  # objects of windows before
        own = own.flatten()[run.piece]
        objects, others = (self._each(room[kind] for room in self.rooms)[interval] for kind in (0, 1))
        within = run.at - run.first.view_as(self.j)[:, 0][interval]  # place in the interval, window after window
        number = torch.where(run.local < own, before + run.local, objects + within - before - own)
        return torch.where(run.filled, number, objects + others)

    def _lengths(self) -> Tensor:
        """(I, W) how long each interval is for each window; the last of them ends at the target time."""
        j, t = self.j[:, :-1], self.timeline.t
        end = torch.cat([t[(j[:-1] + 1).clamp(max=len(t) - 1)], self.windows.t[None]])
        return torch.where(self.there[:, :-1], end - t[j], 0.0)

    def _join(self, first: Tensor, number: Tensor, offset: Tensor, whole: Edges, rooms: list[int]) -> list[Edges]:
        """The edges of each interval, in its numbering; those beyond what is filled have weight 0."""
        run = self._runs(offset, rooms)
        start = first[run.piece] * run.filled

        def pick(column: Tensor) -> Tensor:
            return column.index_select(0, run.row) * run.filled

        def renumber(end: Tensor) -> Tensor:
            return (number.index_select(0, start + pick(end)) * run.filled).to(end.dtype)

        def joined(e: Edges) -> list[Edges]:
            columns = (renumber(e.s), pick(e.r), renumber(e.o), pick(e.weight))
            each = zip(*(column.split(rooms) for column in columns), strict=True)
            orders = zip(*map(joined, e.by), strict=True) if e.by else [()] * len(rooms)
            return [Edges(s, r, o, weight, by) for (s, r, o, weight), by in zip(each, orders, strict=True)]

        return joined(whole)

    def _each(self, values: Iterable[int]) -> Tensor:
        """(I,) a number for each interval, made on the GPU where they are evenly spaced, as those of a capacity are."""
        first, *rest = values
        step = rest[0] - first if rest else 0
        if all(value == first + (i + 1) * step for i, value in enumerate(rest)):
            return torch.arange(len(rest) + 1, device=self.device) * step + first
        return torch.tensor([first, *rest], device=self.device)
