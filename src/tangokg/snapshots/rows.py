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
    n, last = timeline.num_entities, len(timeline)
    sizes = torch.stack([timeline.offset.diff(), timeline.change_offset.diff()])  # (2, T)
    group = torch.repeat_interleave(sizes.flatten())  # (E + C,) snapshot of each edge, then T + that of each change
    j, is_change = group % max(last, 1), group >= last
    ends = torch.stack([torch.cat([timeline.s, timeline.change_s]), torch.cat([timeline.o, timeline.change_o])])
    ends += j * 2 * n  # keys: snapshot, then object or not, then entity
    objects = torch.unique(ends[1, ~is_change])
    only_changed = torch.unique(ends[1, is_change])
    only_changed = only_changed[~torch.isin(only_changed, objects)]
    keys = torch.cat([objects, only_changed + n]).sort().values  # (A,)
    offset = torch.searchsorted(keys, torch.arange(last + 1, device=j.device) * 2 * n)
    at = torch.searchsorted(keys, ends).clamp(max=max(len(keys) - 1, 0))
    is_object = keys[at] == ends
    at = torch.where(is_object, at, torch.searchsorted(keys, ends + n))  # (2, E + C) rows of s and of o
    row = at[1] + is_change * len(keys)
    degree = torch.bincount(row, minlength=2 * len(keys)).double()
    sign = torch.cat([torch.ones_like(timeline.s), timeline.change_sign])
    weight = sign / degree.index_select(0, row)
    s, o = at - offset.index_select(0, j)
    edges = pad(torch.stack([s, o, torch.cat([timeline.r, timeline.change_r]), weight.view(torch.int64)]), (0, 1))
    by = orders_of(edges, group) if edges.is_cuda else edges.new_zeros(4, 0, edges.shape[1], dtype=torch.int32)
    num_objects = torch.bincount(objects // (2 * n), minlength=last)
    of_snapshot = torch.stack([offset.diff(), num_objects, *sizes], 1)
    on_host = (x.cpu().numpy() for x in (of_snapshot, of_snapshot.cumsum(0) - of_snapshot))
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
    n, active, last = timeline.num_entities, timeline.derive(active_rows), len(timeline)
    j = torch.repeat_interleave(active.offset.diff(), output_size=len(active.entity))  # (A,) snapshot of each row
    keys = [(j + b) * n + active.entity for b in range(1, history + 1)] or [j]
    key, inverse = torch.unique(torch.cat(keys), return_inverse=True)
    offset = torch.searchsorted(key, torch.arange(last + 2, device=key.device) * n)
    ends = torch.searchsorted(key, torch.arange(last + history + 1, device=key.device) * n)
    back = torch.arange(1, history + 1, device=key.device)[:, None]
    place = inverse[: history * len(j)].view(history, len(j)) - ends[j + back]  # (k, A)
    on_host = offset.diff().cpu().numpy(), offset[:-1].cpu().numpy()
    return WindowRows(key % n, offset, pad(place.flatten(), (0, 1)), *on_host)
