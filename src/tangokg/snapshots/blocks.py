"""Windows -> one block-diagonal graph for each interval, numbered by the rows that it touches.

What depends on the timeline alone was made once by sorting (:mod:`tangokg.snapshots.rows`). A batch of windows is
planned on the host, in numbers for each window and interval, and put together by a few indexing operations: a GPU
starts some thirty kernels, and the host waits for it only if further rows are wanted (``extra``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from tangokg.quads.values import Ids
from tangokg.snapshots.rows import Edges, TouchedRows, touched_rows
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
    """Several windows as one: the touched entities of each, concatenated, and the graph of each interval."""

    entity: Tensor  # (M,) ascending within a window
    window: Tensor  # (M,) ascending
    key: Tensor  # (M,) window * N + entity, ascending: finds the row of an entity; W * N and more for padding
    borders: list[int]  # (W + 1) on the host: where the rows of each window begin
    intervals: tuple[Interval, ...]
    num_entities: int

    def __len__(self) -> int:
        return len(self.borders) - 1


def empty_block(timeline: Timeline, windows: Windows, extra: Tensor | None = None) -> Block:
    """Windows without graphs: no entity is touched; ``extra`` are keys of rows that are wanted all the same."""
    none = timeline.s[:0]
    block = Block(none, none, none, [0] * (len(windows) + 1), (), timeline.num_entities)
    return block if extra is None else _with_rows(block, extra)


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
    history, known = min(history, len(timeline)), windows.known_on_host
    touched = timeline.derive(touched_rows, history)
    parts = []
    for snapshot in (known - back for back in range(1, history + 1)):  # a negative one is none
        rows, objects, edges, changes = touched.sizes[snapshot[snapshot >= 0]].sum(0).tolist()
        parts.append((objects, rows - objects, edges, changes))
    rows = int((touched.borders[known + 1] - touched.borders[known]).sum())
    return Capacity(rows + 1, *(max(column) for column in zip(*parts, strict=True)))


@dataclass(frozen=True, eq=False)
class BlockPlan:
    """What a block is put together from, on the host: runs of rows and of edges, in the order of the block.

    A run is what one window has there; after the runs of all windows comes one for what is left of the room. First
    come the rows of the block, then for each interval objects, other rows and isolated ones, then for each interval
    edges and changes: P = (1 + 5 I) (W + 1) runs. Plans of one capacity differ in ``numbers`` and ``borders`` alone.
    """

    numbers: Tensor  # (8, P), see _NUMBERS
    borders: list[int]  # (W + 1) where the rows of each window begin
    rows: int
    rooms: Ids  # (I, 5) objects, other rows, isolated rows, edges and changes of each interval


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
    numbers = plan.numbers.to(windows.t.device, non_blocking=True)
    block = assemble(timeline, plan, numbers, windows.t, history)
    return block if extra is None else _with_rows(block, extra)


def plan_block(timeline: Timeline, known: Ids, history: int, capacity: Capacity | None = None) -> BlockPlan:
    """Plan the block of windows that know ``known`` snapshots, with the given capacity or the least one."""
    history, wide = min(history, len(timeline)), len(known)
    touched = timeline.derive(touched_rows, history)
    count = history if capacity else min(history, int(known.max(initial=0)))  # the first intervals may be empty
    back = np.arange(count, 0, -1)[:, None]  # (I, 1)
    mask, j = known >= back, np.maximum(known - back, 0)  # (I, W)
    rows, objects, edges, changes = np.moveaxis(touched.sizes[j] * mask[..., None], 2, 0)  # (I, W) each
    row, _, edge, change = np.moveaxis(touched.starts[j], 2, 0)
    row = row + (back - 1) * touched.sizes[:, 0].sum()
    parts = np.stack([objects, rows - objects, np.ones_like(rows), edges, changes], axis=1)  # (I, 5, W)
    before, rooms = parts.cumsum(2) - parts, parts.sum(2)  # (I, 5, W) in the windows before, (I, 5)
    in_window = touched.borders[known + 1] - touched.borders[known]
    borders = np.insert(in_window.cumsum(), 0, 0)  # (W + 1,)
    total = capacity.rows if capacity else int(borders[-1])
    if capacity:
        rooms[:] = capacity.objects, capacity.others, wide, capacity.edges, capacity.changes
    lengths = np.concatenate(
        [parts, (rooms - parts.sum(2))[..., None]], axis=2
    )  # (I, 5, W + 1) what is left comes last
    numbers = np.zeros((len(_NUMBERS), 1 + 5 * count, wide + 1), dtype=np.int64)
    of_block = numbers[:, 0]
    of_rows = numbers[:, 1 : 1 + 3 * count].reshape(len(_NUMBERS), count, 3, wide + 1)
    of_edges = numbers[:, 1 + 3 * count :].reshape(len(_NUMBERS), count, 2, wide + 1)
    of_block[END], of_rows[END], of_edges[END] = (
        np.append(in_window, total - borders[-1]),
        lengths[:, :3],
        lengths[:, 3:],
    )
    numbers[SHIFT] = NOWHERE
    of_block[SHIFT, :-1], of_block[A] = touched.borders[known], np.arange(wide + 1)
    of_rows[SHIFT, :, 0, :-1], of_rows[SHIFT, :, 1, :-1] = row, row + objects
    of_rows[A, ..., :-1], of_rows[A, ..., -1] = borders[:-1], total - 1
    of_rows[FROM, ..., :-1] = (j * mask)[:, None]
    of_rows[TO, ..., :-1] = (np.where(back > 1, j + 1, len(timeline) + np.arange(wide)) * mask)[:, None]
    of_edges[SHIFT, :, 0, :-1], of_edges[SHIFT, :, 1, :-1] = edge, change + timeline.num_edges.sum()
    of_edges[A, ..., :-1] = before[:, :1]
    of_edges[B, ..., :-1] = rooms[:, :1, None] + before[:, 1:2] - parts[:, :1]
    of_edges[SPLIT, ..., :-1], of_edges[SPLIT, ..., -1] = parts[:, :1], 1
    of_edges[MORE, :, 1, :-1] = rooms[:, :1]
    runs = numbers.reshape(len(_NUMBERS), -1)
    end = runs[END].cumsum()
    runs[SHIFT] -= end - runs[END]
    runs[END] = end
    return BlockPlan(torch.from_numpy(runs), borders.tolist(), total, rooms)


def assemble(timeline: Timeline, plan: BlockPlan, numbers: Tensor, t: Tensor, history: int) -> Block:
    """The block of a plan, from its ``numbers``, or those of another of one capacity, and the target times ``t`` (W,).

    Both are on the device; nothing else of the windows is used.
    """
    touched = timeline.derive(touched_rows, min(history, len(timeline)))
    row_sizes, edge_sizes = plan.rooms[:, :3].sum(1).tolist(), plan.rooms[:, 3:].sum(1)
    parts, n = [plan.rows, sum(row_sizes), int(edge_sizes.sum())], timeline.num_entities
    at = torch.arange(sum(parts), device=numbers.device)
    run = torch.searchsorted(numbers[END], at, right=True)
    each = numbers[SHIFT : MORE + 1, run]  # (5, ..)
    in_block, in_rows, in_edges = (at + each[0]).split(parts)
    owner, first, _ = each[1].split(parts)
    entity = touched.entity[in_block.clamp(max=len(touched.entity) - 1)]
    window, key = owner.clamp(max=len(t) - 1), owner * n + entity
    if not row_sizes:
        return Block(entity, window, key, plan.borders, (), n)
    rows = first + touched.place[in_rows.clamp(max=len(touched.place) - 1)]
    start, end = torch.cat([timeline.t, t])[numbers[FROM : TO + 1]]  # (P,) each
    dt = (end - start)[run[parts[0] : parts[0] + parts[1]]]
    edges = _edges(touched, in_edges, each[1:, parts[0] + parts[1] :], plan.rooms)
    columns = zip(plan.rooms.tolist(), rows.split(row_sizes), edges, dt.split(row_sizes), strict=True)
    intervals = tuple(
        Interval(ids[: room[0] + room[1]], room[0], *of_edges, dt=length) for room, ids, of_edges, length in columns
    )
    return Block(entity, window, key, plan.borders, intervals, n)


def _edges(touched: TouchedRows, source: Tensor, numbers: Tensor, rooms: Ids) -> list[tuple[Edges, Edges, Edges]]:
    """Edges, changes and both of each interval, in its numbering; those beyond what is filled have weight 0."""
    source = source.clamp(max=touched.edges.shape[-1] - 1)
    orders: list[tuple[Tensor, ...]] = []  # the edges as they are, then in the orders for a GPU
    for table in (touched.edges, touched.by):
        picked = table[..., source]  # (4, orders, E)
        a, b, split, more = numbers.to(table.dtype)
        picked[:2].add_(torch.where(picked[:2] < split, a, b))
        s, o, r, bits = picked
        weight = bits.view(torch.float64 if bits.dtype == torch.int64 else torch.float32)
        orders += zip(s, r, o, o + more, weight, strict=True)
    parts, first = [], 0
    for *_, edges, changes in rooms.tolist():
        middle, last = first + edges, first + edges + changes
        for at, end in ((slice(first, middle), 2), (slice(middle, last), 2), (slice(first, last), 3)):
            both, *by = (Edges(order[0][at], order[1][at], order[end][at], order[4][at]) for order in orders)
            parts.append(replace(both, by=tuple(by)))
        first = last
    return list(zip(parts[::3], parts[1::3], parts[2::3], strict=True))


def _with_rows(block: Block, extra: Tensor) -> Block:
    """Add rows for these keys to the block, where it has none yet."""
    key = torch.unique(torch.cat([block.key, extra]))
    moved = torch.searchsorted(key, block.key)  # (M,) new place of each row
    ends = torch.arange(len(block) + 1, device=key.device) * block.num_entities
    intervals = tuple(replace(part, rows=moved.index_select(0, part.rows)) for part in block.intervals)
    borders = torch.searchsorted(key, ends).tolist()
    return Block(key % block.num_entities, key // block.num_entities, key, borders, intervals, block.num_entities)
