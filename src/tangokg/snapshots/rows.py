"""What each snapshot and each window touches, numbered once by sorting.

Reciprocal edges make every endpoint an object too, so the objects of G(t_j) and of T(t_j) are all that is touched.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from tangokg.quads.values import Ids
from tangokg.snapshots.timeline import Timeline


@dataclass(frozen=True, eq=False)
class Edges:
    """Labelled, weighted edges, their ends as row numbers."""

    s: Tensor  # (E,)
    r: Tensor  # (E,) of 2R
    o: Tensor  # (E,)
    weight: Tensor  # (E,)
    by: tuple[Edges, ...] = ()  # for a GPU: the same edges in orders that bring equal s, equal r, equal o together

    def __len__(self) -> int:
        return len(self.s)

    @classmethod
    def in_orders(cls, s: Tensor, r: Tensor, o: Tensor, weight: Tensor) -> Edges:
        """The edges; on a GPU also in the orders, and the bits, that its kernels take."""
        orders = [torch.argsort(end, stable=True) for end in (s, r, o)] if s.is_cuda else []
        by = [cls(s[order].int(), r[order].int(), o[order].int(), weight[order].float()) for order in orders]
        return cls(s, r, o, weight, tuple(by))


@dataclass(frozen=True, eq=False)
class ActiveRows:
    """For each snapshot j of a timeline the entities that its graph or its transition touches, made once by sorting.

    Those of snapshot j are the rows ``offset[j] .. offset[j + 1]`` of ``entity``, objects of G(t_j) first. Edges, and
    after them transitions, stand side by side in one table of bits, so that some are picked in one go; the last
    column, all 0, is padding. An end is its place among its snapshot's rows, a weight 1 / |N(o)| or T / |N_T(o)|.
    """

    entity: Tensor  # (A,)
    offset: Tensor  # (T + 1,)
    edges: Tensor  # (4, 1, E + C + 1) int64: s, o, r, weight (float64)
    by: Tensor  # (4, 3, E + C + 1) int32: the same in the three orders of Edges, weight float32; no orders on a CPU
    sizes: Ids  # (T, 4) on the host: rows, objects, edges and changes of each snapshot
    starts: Ids  # (T, 4) how many there are before it


def active_rows(timeline: Timeline) -> ActiveRows:
    """Number the touched entities of every snapshot."""
    n, everything = timeline.num_entities, torch.arange(len(timeline), device=timeline.t.device)
    _, j = timeline.edges_of(everything)  # (E,) snapshot of each edge
    _, j_change = timeline.changes_of(everything)
    of_edge, of_change = j * 2 * n, j_change * 2 * n  # keys: snapshot, then object or not, then entity
    objects = torch.unique(of_edge + timeline.o)
    changed = torch.unique(of_change + timeline.change_o)
    only_changed = changed[~torch.isin(changed, objects)]
    keys = torch.cat([objects, only_changed + n]).sort().values  # (A,)
    offset = torch.searchsorted(keys, torch.arange(len(timeline) + 1, device=j.device) * 2 * n)

    def place(base: Tensor, entity: Tensor) -> Tensor:
        at = torch.searchsorted(keys, base + entity).clamp(max=max(len(keys) - 1, 0))
        is_object = keys.index_select(0, at) == base + entity
        return torch.where(is_object, at, torch.searchsorted(keys, base + n + entity))

    def fill(table: Tensor, j: Tensor, base: Tensor, s: Tensor, r: Tensor, o: Tensor, sign: Tensor | float) -> None:
        first, row = offset.index_select(0, j), place(base, o)
        degree = torch.bincount(row, minlength=len(keys)).double()
        table[0], table[1], table[2] = place(base, s) - first, row - first, r
        table[3] = (sign / degree.index_select(0, row)).view(torch.int64)

    edges = j.new_zeros(4, len(j) + len(j_change) + 1)
    fill(edges[:, : len(j)], j, of_edge, timeline.s, timeline.r, timeline.o, 1.0)
    changes = timeline.change_s, timeline.change_r, timeline.change_o, timeline.change_sign
    fill(edges[:, len(j) : -1], j_change, of_change, *changes)
    num_objects = torch.bincount(objects // (2 * n), minlength=len(timeline))
    sizes = torch.stack([offset.diff(), num_objects, timeline.offset.diff(), timeline.change_offset.diff()], 1)
    by = (
        orders_of(edges, torch.cat([j, j_change + len(timeline)]))
        if j.is_cuda
        else edges.new_zeros(4, 0, edges.shape[1], dtype=torch.int32)
    )
    on_host = (x.cpu().numpy() for x in (sizes, sizes.cumsum(0) - sizes))
    return ActiveRows(keys % n, offset, edges[:, None], by, *on_host)


def orders_of(edges: Tensor, group: Tensor) -> Tensor:
    """``by`` of :class:`ActiveRows`: edges (4, E + C + 1) with equal s, r or o together in each group (E + C,)."""
    by = torch.zeros(4, 3, edges.shape[1], dtype=torch.int32, device=edges.device)
    for i, end in enumerate((0, 2, 1)):
        order = torch.argsort(group * (edges[end].max() + 1) + edges[end, :-1], stable=True)
        by[:3, i, :-1] = edges[:3, order]
        by[3, i, :-1] = edges[3, order].view(torch.float64).float().view(torch.int32)
    return by


@dataclass(frozen=True, eq=False)
class WindowRows:
    """The entities touched in the last k snapshots before each possible end of a history, made once by sorting.

    A window that knows n snapshots has the rows ``offset[n] .. offset[n + 1]`` of ``entity``, ascending. Row a of
    :class:`ActiveRows`, of snapshot j, stands at ``place[(b - 1) A + a]`` among the rows of the window that knows
    j + b; the last place, 0, is that of padding.
    """

    entity: Tensor  # (U,)
    offset: Tensor  # (T + 2,)
    place: Tensor  # (k A + 1,)
    sizes: Ids  # (T + 1,) on the host: rows of each window
    starts: Ids  # (T + 1,) where they begin


def window_rows(timeline: Timeline, history: int) -> WindowRows:
    """Join the touched entities of ``history`` neighbouring snapshots, for every end that a window can have."""
    n, active, last = timeline.num_entities, timeline.active, len(timeline)
    j = torch.repeat_interleave(active.offset.diff(), output_size=len(active.entity))  # (A,) snapshot of each row
    keys = [(j + b) * n + active.entity for b in range(1, history + 1)] or [j]
    key, inverse = torch.unique(torch.cat(keys), return_inverse=True)
    offset = torch.searchsorted(key, torch.arange(last + 2, device=key.device) * n)
    ends = torch.searchsorted(key, torch.arange(last + history + 1, device=key.device) * n)
    back = torch.arange(1, history + 1, device=key.device)[:, None]
    place = inverse[: history * len(j)].view(history, len(j)) - ends[j + back]  # (k, A)
    on_host = offset.diff().cpu().numpy(), offset[:-1].cpu().numpy()
    return WindowRows(key % n, offset, pad(place.flatten(), (0, 1)), *on_host)
