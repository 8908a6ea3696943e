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
class TouchedRows:
    """The entities that each snapshot j touches, by its graph or its transition, and those of each possible window.

    A row is one entity of one snapshot; those of a snapshot stand together, objects of G(t_j) first. Edges, and after
    them transitions, stand side by side in one table of bits, so that some are picked in one go; the last column, all
    0, is padding. An end is its place among its snapshot's rows, a weight 1 / |N(o)| or T / |N_T(o)|.

    A window that knows n snapshots has the entities ``offset[n] .. offset[n + 1]`` of its last ``history`` ones,
    ascending. Row a, of snapshot j, stands at ``place[(b - 1) A + a]`` among those of the window that knows j + b; the
    last place, 0, is that of padding.
    """

    edges: Tensor  # (4, 1, E + C + 1) int64: s, o, r, weight (float64)
    by: Tensor  # (4, 3, E + C + 1) int32: the same in the three orders of Edges, weight float32; no orders on a CPU
    sizes: Ids  # (T, 4) on the host: rows, objects, edges and changes of each snapshot
    starts: Ids  # (T, 4) how many there are before it
    entity: Tensor  # (U,) of all windows, concatenated
    offset: Tensor  # (T + 2,) where each window begins
    place: Tensor  # (k A + 1,)
    borders: Ids  # (T + 2,) the offset on the host


def touched_rows(timeline: Timeline, history: int) -> TouchedRows:
    """Number the touched entities of every snapshot, and of ``history`` neighbouring ones, by sorting."""
    n, last = timeline.num_entities, len(timeline)
    sizes = torch.stack([timeline.offset.diff(), timeline.change_offset.diff()])  # (2, T)
    group = torch.repeat_interleave(sizes.flatten())  # (E + C,) snapshot of each edge, then T + that of each change
    j, is_change = group % max(last, 1), group >= last
    ends = torch.stack([torch.cat([timeline.s, timeline.change_s]), torch.cat([timeline.o, timeline.change_o])])
    ends += j * 2 * n  # (2, E + C) keys: snapshot, then object or not, then entity
    objects, changed = torch.unique(ends[1, ~is_change]), torch.unique(ends[1, is_change])
    keys = torch.cat([objects, changed[~torch.isin(changed, objects)] + n]).sort().values  # (A,)
    rows = torch.bincount(keys // (2 * n), minlength=last)  # (T,)
    at = torch.searchsorted(keys, ends).clamp(max=max(len(keys) - 1, 0))
    at = torch.where(keys[at] == ends, at, torch.searchsorted(keys, ends + n))  # (2, E + C) rows of s and of o
    receiver = at[1] + is_change * len(keys)
    degree = torch.bincount(receiver, minlength=2 * len(keys)).double()
    weight = torch.cat([torch.ones_like(timeline.s), timeline.change_sign]) / degree.index_select(0, receiver)
    s, o = at - (rows.cumsum(0) - rows).index_select(0, j)
    edges = pad(torch.stack([s, o, torch.cat([timeline.r, timeline.change_r]), weight.view(torch.int64)]), (0, 1))
    by = orders_of(edges, group) if edges.is_cuda else edges.new_zeros(4, 0, edges.shape[1], dtype=torch.int32)
    counts = torch.stack([rows, torch.bincount(objects // (2 * n), minlength=last), *sizes], 1).cpu().numpy()
    starts = counts.cumsum(0) - counts  # (T, 4)
    j, back = keys // (2 * n), torch.arange(1, history + 1, device=keys.device)[:, None]  # windows that know j + back
    key, place = torch.unique((j + back) * n + keys % n, return_inverse=True)  # (U,), (k, A)
    offset = torch.searchsorted(key, torch.arange(last + max(history, 1) + 1, device=key.device) * n)
    place, offset = pad((place - offset[j + back]).flatten(), (0, 1)), offset[: last + 2]
    return TouchedRows(edges[:, None], by, counts, starts, key % n, offset, place, offset.cpu().numpy())


def orders_of(edges: Tensor, group: Tensor) -> Tensor:
    """``by`` of :class:`TouchedRows`: edges (4, E + C + 1) with equal s, r or o together in each group (E + C,)."""
    by = torch.zeros(4, 3, edges.shape[1], dtype=torch.int32, device=edges.device)
    for i, end in enumerate((0, 2, 1)):
        order = torch.argsort(group * (edges[end].max() + 1) + edges[end, :-1], stable=True)
        by[:3, i, :-1] = edges[:3, order]
        by[3, i, :-1] = edges[3, order].view(torch.float64).float().view(torch.int32)
    return by


def few(rows: Tensor, size: int) -> bool:
    """Whether some answers need fewer rows than a table of ``size`` has: then these alone are computed.

    Training computes the whole table: most of its rows are used, and each once.
    """
    return not torch.is_grad_enabled() and rows.numel() < size
