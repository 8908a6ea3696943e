"""Windows -> one block-diagonal graph for each interval, numbered by the rows that it touches.

What depends on the timeline alone was made once by sorting (:mod:`tangokg.snapshots.rows`). A batch of windows is
planned on the host, in numbers for each window and interval, and put together by a few indexing operations: a GPU
starts some thirty kernels, and the host waits for it only if further rows are wanted (``extra``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from tangokg.quads.values import Ids
from tangokg.snapshots.rows import ActiveRows, Edges
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
    both: Edges  # edges, then changes, the objects of these after ``num_objects`` rows: two sums in one
    dt: Tensor  # (A + W,) length of the interval for each row, in the data's unit; 0 where a window has none

    @property
    def num_rows(self) -> int:
        return len(self.dt)


@dataclass(frozen=True, eq=False)
class Block:
    """Several windows as one: the touched entities of each, one after the other, and the graph of each interval."""

    entity: Tensor  # (M,) ascending within a window
    window: Tensor  # (M,) ascending
    key: Tensor  # (M,) window * N + entity, ascending: finds the row of an entity; W * N and more for padding
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


def empty_block(timeline: Timeline, windows: Windows) -> Block:
    """Windows without graphs: no entity is touched."""
    none = timeline.s[:0]
    return Block(none, none, none, [0] * (len(windows) + 1), (), timeline.num_entities)


@dataclass(frozen=True)
class Capacity:
    """Room for a block: its rows, and the objects, other rows, edges and changes of each of its intervals.

    Blocks of one capacity have tensors of the same shapes, whatever their windows hold: a GPU can replay a step.
    The rest of the room is padding: rows of an entity that no query asks for, and edges of weight 0.
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


@dataclass(frozen=True, eq=False)
class BlockPlan:
    """What a block is put together from, on the host: runs of rows and of edges, in the order of the block.

    A run is what one window has there; after the runs of all windows comes one for what is left of the room. First
    come the rows of the block, then for each interval objects, other rows and isolated ones, then for each interval
    edges and changes: P = (W + 1) (1 + 5 I) runs. Plans of one capacity differ in ``numbers`` and ``borders`` alone.
    """

    numbers: Tensor  # (8, P), see _NUMBERS
    borders: list[int]  # (W + 1) where the rows of each window begin
    rows: int
    rooms: Ids  # (I, 4) objects, other rows, edges and changes of each interval

    def send(self, like: Tensor) -> Tensor:
        """The numbers on the device of a tensor, copied without waiting."""
        return self.numbers.pin_memory().to(like.device, non_blocking=True) if like.is_cuda else self.numbers

    @property
    def sizes(self) -> tuple[int, list[int], list[int]]:
        """Rows of the block; rows, isolated ones included, and edges and changes of each interval."""
        objects, others, edges, changes = self.rooms.T
        return self.rows, (objects + others + len(self.borders) - 1).tolist(), (edges + changes).tolist()


# Of each run: where it ends; what leads from a place in the block to one in the timeline; what is added to what is
# found there (b from the number ``split`` on); what more is added to objects in ``both``; two places in the times.
_NUMBERS = END, SHIFT, A, B, SPLIT, MORE, FROM, TO = range(8)
NOWHERE = 2**40  # beyond every table: clamped to the last entry, which is that of padding


def build_block(
    timeline: Timeline,
    windows: Windows,
    history: int,
    extra: Tensor | None = None,
    capacity: Capacity | None = None,
) -> Block:
    """Join windows over their last ``history`` known snapshots; ``extra`` are keys of further rows that are wanted."""
    plan = plan_block(timeline, windows.known_on_host, history, capacity)
    block = assemble(timeline, plan, plan.send(windows.t), windows.t, history)
    return block if extra is None else _with_rows(block, extra)


def plan_block(timeline: Timeline, known: Ids, history: int, capacity: Capacity | None = None) -> BlockPlan:
    """The runs of windows that know so many snapshots, in room for them or in a given one."""
    history, wide = min(history, len(timeline)), len(known)
    rows_of, active = timeline.window_rows(history), timeline.active
    count = history if capacity else min(history, int(known.max(initial=0)))  # the first intervals may be empty
    back = np.arange(count, 0, -1)[:, None, None]  # (I, 1, 1)
    there, j = known >= back, np.maximum(known - back, 0)  # (I, 1, W)
    rows, objects, edges, changes = np.moveaxis(active.sizes[j] * there[..., None], 3, 0)  # (I, 1, W) each
    begin, _, edge, change = np.moveaxis(active.starts[j], 3, 0)
    begin = begin + (back - 1) * len(active.entity)
    others, in_window = rows - objects, rows_of.sizes[known]
    total, parts = int(in_window.sum()), np.concatenate([objects, others, edges, changes], 1)  # (I, 4, W)
    rooms = parts.sum(2)
    if capacity:
        total, rooms[:] = capacity.rows, (capacity.objects, capacity.others, capacity.edges, capacity.changes)
    of_block = {SHIFT: rows_of.starts[known], A: np.arange(wide)}
    of_rows = {
        SHIFT: np.concatenate([begin, begin + objects, np.full_like(begin, NOWHERE)], 1),
        A: _before(in_window),
        FROM: j * there,
        TO: np.where(back > 1, j + 1, len(timeline) + np.arange(wide)) * there,
    }
    of_edges = {
        SHIFT: np.concatenate([edge, change + int(timeline.num_edges.sum())], 1),
        A: _before(objects),
        B: rooms[:, :1, None] + _before(others) - objects,
        SPLIT: objects,
        MORE: rooms[:, :1, None] * np.arange(2)[:, None],
    }
    numbers = np.concatenate([
        _runs(in_window, np.array(total), of_block, {A: wide}),
        _runs(np.insert(parts[:, :2], 2, 1, 1), np.insert(rooms[:, :2], 2, wide, 1), of_rows, {A: total - 1}),
        _runs(parts[:, 2:], rooms[:, 2:], of_edges, {SPLIT: 1}),
    ], axis=1)  # fmt: skip
    numbers[SHIFT] -= _before(numbers[END])
    numbers[END] = numbers[END].cumsum()
    return BlockPlan(torch.from_numpy(numbers), [0, *accumulate(in_window.tolist())], total, rooms)


def _runs(length: Ids, room: Ids, numbers: dict[int, Ids], left: dict[int, int]) -> Ids:
    """Runs (8, ..) of these lengths (.., W), each W of them with one for what is ``left`` of the room (..)."""
    runs = np.zeros((len(_NUMBERS), *length.shape[:-1], length.shape[-1] + 1), dtype=np.int64)
    runs[END, ..., -1], runs[SHIFT, ..., -1] = room - length.sum(-1), NOWHERE
    for name, value in {END: length, **numbers}.items():
        runs[name, ..., :-1] = value
    for name, number in left.items():
        runs[name, ..., -1] = number
    return runs.reshape(len(_NUMBERS), -1)


def _before(length: Ids) -> Ids:
    """The sum of all that come before, along the last axis."""
    return length.cumsum(-1) - length


def assemble(timeline: Timeline, plan: BlockPlan, numbers: Tensor, t: Tensor, history: int) -> Block:
    """The block of a plan, from its ``numbers``, or those of another of one capacity, and the target times ``t`` (W,).

    Both are on the device, and nothing else of the windows is looked at.
    """
    of_window, active, n = timeline.window_rows(min(history, len(timeline))), timeline.active, timeline.num_entities
    total, row_sizes, edge_sizes = plan.sizes
    parts = [total, sum(row_sizes), sum(edge_sizes)]
    at = torch.arange(sum(parts), device=numbers.device)
    run = torch.searchsorted(numbers[END], at, right=True)
    each = numbers[SHIFT : MORE + 1, run]  # (5, ..)
    in_block, in_rows, in_edges = (at + each[0]).split(parts)
    owner, first, _ = each[1].split(parts)
    entity = of_window.entity[in_block.clamp(max=len(of_window.entity) - 1)]
    window, key = owner.clamp(max=len(t) - 1), owner * n + entity
    if not row_sizes:
        return Block(entity, window, key, plan.borders, (), n)
    rows = first + of_window.place[in_rows.clamp(max=len(of_window.place) - 1)]
    start, end = torch.cat([timeline.t, t])[numbers[FROM : TO + 1]]  # (P,) each
    dt = (end - start)[run[total : total + len(rows)]]
    edges = _edges(active, in_edges, each[1:, total + len(rows) :], plan)
    columns = zip(plan.rooms.tolist(), rows.split(row_sizes), edges, dt.split(row_sizes), strict=True)
    intervals = tuple(
        Interval(own[: room[0] + room[1]], room[0], *of_edges, length) for room, own, of_edges, length in columns
    )
    return Block(entity, window, key, plan.borders, intervals, n)


def _edges(
    active: ActiveRows, source: Tensor, numbers: Tensor, plan: BlockPlan
) -> Iterator[tuple[Edges, Edges, Edges]]:
    """Edges, changes and both of each interval, in its numbering; those beyond what is filled have weight 0."""
    source = source.clamp(max=active.edges.shape[-1] - 1)
    whole, by = (_columns(table, source, numbers) for table in (active.edges, active.by))

    def cut(at: slice, o: int) -> Edges:
        (alone,), orders = (
            [Edges(*each) for each in zip(*(columns[i][:, at] for i in (0, 1, o, 4)), strict=True)]
            for columns in (whole, by)
        )
        return replace(alone, by=tuple(orders))

    first = 0
    for *_, edges, changes in plan.rooms.tolist():
        middle, last = first + edges, first + edges + changes
        yield cut(slice(first, middle), 2), cut(slice(middle, last), 2), cut(slice(first, last), 3)
        first = last


def _columns(table: Tensor, source: Tensor, numbers: Tensor) -> tuple[Tensor, ...]:
    """s, r, o, o in ``both`` and weight, (orders, E) each, of picked edges."""
    picked = table[..., source]  # (4, orders, E)
    a, b, split, more = numbers.to(table.dtype)
    picked[:2].add_(torch.where(picked[:2] < split, a, b))
    s, o, r, bits = picked
    return s, r, o, o + more, bits.view(torch.float64 if bits.dtype == torch.int64 else torch.float32)


def _with_rows(block: Block, extra: Tensor) -> Block:
    """The block with rows for these keys too, where it has none yet."""
    key = torch.unique(torch.cat([block.key, extra]))
    moved = torch.searchsorted(key, block.key)  # (M,) new place of each row
    ends = torch.arange(len(block) + 1, device=key.device) * block.num_entities
    intervals = tuple(replace(part, rows=moved.index_select(0, part.rows)) for part in block.intervals)
    borders = torch.searchsorted(key, ends).tolist()
    return Block(key % block.num_entities, key // block.num_entities, key, borders, intervals, block.num_entities)
