"""Windows -> one block-diagonal graph for each interval, numbered by the rows that it touches (DESIGN section 5).

Reciprocal edges make every endpoint an object too, so the objects of G(t_j) and of T(t_j) are all that is touched.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tangokg.snapshots.ranges import expand
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Windows


@dataclass(frozen=True, eq=False)
class ActiveRows:
    """For each snapshot j of a timeline the entities that its graph or its transition touches, made once by sorting.

    Those of snapshot j are the rows ``offset[j] .. offset[j + 1]`` of ``entity``, objects of G(t_j) first.
    """

    entity: Tensor  # (A,)
    offset: Tensor  # (T + 1,)
    num_objects: Tensor  # (T,) how many of them are objects of an edge
    s: Tensor  # (E,) position of each edge's subject among its snapshot's rows, as o
    o: Tensor
    change_s: Tensor  # (C,) the same for transitions
    change_o: Tensor
    inverse_degree: Tensor  # (E,) float64, 1 / |N(o)| of each edge's object
    change_weight: Tensor  # (C,) float64, T / |N_T(o)|


def active_rows(timeline: Timeline) -> ActiveRows:
    """Number the touched entities of every snapshot."""
    n = timeline.num_entities
    everything = torch.arange(len(timeline), device=timeline.t.device)
    _, j = timeline.edges_of(everything)  # (E,) snapshot of each edge
    _, j_change = timeline.changes_of(everything)
    of_edge, of_change = j * 2 * n, j_change * 2 * n  # keys: snapshot, then object or not, then entity
    objects = torch.unique(of_edge + timeline.o)
    changed = torch.unique(of_change + timeline.change_o)
    only_changed = changed[~torch.isin(changed, objects)]
    keys = torch.cat([objects, only_changed + n]).sort().values  # (A,)

    def place(base: Tensor, entity: Tensor) -> Tensor:
        at = torch.searchsorted(keys, base + entity).clamp(max=max(len(keys) - 1, 0))
        found = keys.index_select(0, at) == base + entity
        return torch.where(found, at, torch.searchsorted(keys, base + n + entity))

    offset = torch.searchsorted(keys, torch.arange(len(timeline) + 1, device=j.device) * 2 * n)
    s, o = place(of_edge, timeline.s), place(of_edge, timeline.o)
    change_s, change_o = place(of_change, timeline.change_s), place(of_change, timeline.change_o)
    degree = torch.bincount(o, minlength=len(keys))
    change_degree = torch.bincount(change_o, minlength=len(keys))
    return ActiveRows(
        entity=keys % n,
        offset=offset,
        num_objects=torch.bincount(objects // (2 * n), minlength=len(timeline)),
        s=s - offset.index_select(0, j),
        o=o - offset.index_select(0, j),
        change_s=change_s - offset.index_select(0, j_change),
        change_o=change_o - offset.index_select(0, j_change),
        inverse_degree=1.0 / degree.double().index_select(0, o),
        change_weight=timeline.change_sign / change_degree.double().index_select(0, change_o),
    )


@dataclass(frozen=True, eq=False)
class Interval:
    """What acts during the i-th interval of every window: one graph over ``num_rows`` rows, W isolated ones at the end.

    The isolated row of a window shows what the solver does to an entity without edges.
    """

    rows: Tensor  # (A,) block rows that the graph touches; its own numbering is their order here
    num_objects: int  # the first of them are the objects of edges
    s: Tensor  # (E,) own numbering, as o, change_s, change_o
    o: Tensor
    r: Tensor  # (E,) edge labels, of 2R
    inverse_degree: Tensor  # (E,)
    change_s: Tensor  # (C,)
    change_o: Tensor
    change_r: Tensor
    change_weight: Tensor  # (C,)
    dt: Tensor  # (A + W,) length of the interval for each row, in the data's unit; 0 where a window has none

    @property
    def num_rows(self) -> int:
        return len(self.dt)


@dataclass(frozen=True, eq=False)
class Block:
    """Several windows as one: the touched entities of each, one after the other, and the graph of each interval."""

    entity: Tensor  # (M,) ascending within a window
    window: Tensor  # (M,) ascending
    offset: Tensor  # (W + 1,)
    key: Tensor  # (M,) window * N + entity, ascending: finds the row of an entity
    intervals: tuple[Interval, ...]
    num_entities: int

    def __len__(self) -> int:
        return len(self.offset) - 1

    def find(self, window: Tensor, entity: Tensor) -> tuple[Tensor, Tensor]:
        """``(row, touched)``: the row of each (window, entity), and whether there is one (else row is any)."""
        wanted = window * self.num_entities + entity
        row = torch.searchsorted(self.key, wanted).clamp(max=max(len(self.key) - 1, 0))
        return row, self.key.index_select(0, row) == wanted if len(self.key) else torch.zeros_like(wanted).bool()


def build_block(timeline: Timeline, windows: Windows, history: int, extra: Tensor | None = None) -> Block:
    """Join windows over their last ``history`` known snapshots; ``extra`` are keys of further rows that are wanted."""
    n, active = timeline.num_entities, timeline.active
    parts = [_part(timeline, active, windows, back) for back in range(min(history, len(timeline)), 0, -1)]
    parts = [part for part in parts if len(part.dt) > len(windows)]
    keys = [part.rows for part in parts] + ([] if extra is None else [extra])
    if not keys:
        keys = [windows.known.new_zeros(0)]
    key, inverse = torch.unique(torch.cat(keys), return_inverse=True)
    sizes = [len(k) for k in keys]
    rows = inverse.split(sizes)
    intervals = tuple(_renumbered(part, row) for part, row in zip(parts, rows, strict=False))
    borders = torch.arange(len(windows) + 1, device=key.device) * n
    return Block(
        entity=key % n,
        window=key // n,
        offset=torch.searchsorted(key, borders),
        key=key,
        intervals=intervals,
        num_entities=n,
    )


def _renumbered(part: Interval, rows: Tensor) -> Interval:
    columns = dict(part.__dict__)
    return Interval(**{**columns, "rows": rows})


def _part(timeline: Timeline, active: ActiveRows, windows: Windows, back: int) -> Interval:
    """The interval that begins ``back`` snapshots before the end of each window's history; rows are still keys."""
    snapshot = windows.known - back  # (W,); negative: this window has no such interval
    there = snapshot >= 0
    j = snapshot.clamp(min=0)

    def runs(offset: Tensor) -> tuple[Tensor, Tensor]:
        start = offset.index_select(0, j)
        return expand(start, torch.where(there, offset.index_select(0, j + 1), start))

    row, w = runs(active.offset)
    local = row - active.offset.index_select(0, j).index_select(0, w)
    objects_here = torch.where(there, active.num_objects.index_select(0, j), 0)
    is_object = local < objects_here.index_select(0, w)
    order = torch.cat([is_object.nonzero()[:, 0], (~is_object).nonzero()[:, 0]])  # objects of all windows first
    place = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))
    first = torch.searchsorted(w, torch.arange(len(windows), device=w.device))  # where each window's rows begin

    def number(position: Tensor, owner: Tensor) -> Tensor:
        return place.index_select(0, first.index_select(0, owner) + position)

    edge, of = runs(timeline.offset)
    change, of_change = runs(timeline.change_offset)
    end = windows.t if back == 1 else timeline.t.index_select(0, (j + 1).clamp(max=len(timeline) - 1))
    dt = torch.where(there, end - timeline.t.index_select(0, j), 0.0)  # (W,)
    key = (w * timeline.num_entities + active.entity.index_select(0, row)).index_select(0, order)
    return Interval(
        rows=key,
        num_objects=int(is_object.sum()),
        s=number(active.s.index_select(0, edge), of),
        o=number(active.o.index_select(0, edge), of),
        r=timeline.r.index_select(0, edge),
        inverse_degree=active.inverse_degree.index_select(0, edge),
        change_s=number(active.change_s.index_select(0, change), of_change),
        change_o=number(active.change_o.index_select(0, change), of_change),
        change_r=timeline.change_r.index_select(0, change),
        change_weight=active.change_weight.index_select(0, change),
        dt=torch.cat([dt.index_select(0, w).index_select(0, order), dt]),
    )
