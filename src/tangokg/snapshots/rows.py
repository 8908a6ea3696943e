"""What each snapshot and each window touches, numbered once by sorting (DESIGN section 5).

Reciprocal edges make every endpoint an object too, so the objects of G(t_j) and of T(t_j) are all that is touched.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tangokg.quads.values import Ids
from tangokg.snapshots.timeline import Timeline


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
    sizes: Ids  # (T, 4) on the host: rows, objects, edges and changes of each snapshot


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
    num_objects = torch.bincount(objects // (2 * n), minlength=len(timeline))
    sizes = torch.stack([offset.diff(), num_objects, timeline.offset.diff(), timeline.change_offset.diff()], 1)
    return ActiveRows(
        entity=keys % n,
        offset=offset,
        num_objects=num_objects,
        s=s - offset.index_select(0, j),
        o=o - offset.index_select(0, j),
        change_s=change_s - offset.index_select(0, j_change),
        change_o=change_o - offset.index_select(0, j_change),
        inverse_degree=1.0 / degree.double().index_select(0, o),
        change_weight=timeline.change_sign / change_degree.double().index_select(0, change_o),
        sizes=sizes.cpu().numpy(),
    )


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


def graph_edges(timeline: Timeline) -> tuple[Edges, Edges]:
    """All edges, weight 1 / |N(o)|, and all transitions, weight T / |N_T(o)|, by the rows of :class:`ActiveRows`.

    On a GPU they come in all four orders, sorted within each snapshot; those for its kernels in half the bits.
    """
    active, everything = timeline.active, torch.arange(len(timeline), device=timeline.t.device)
    whole = (
        (timeline.edges_of(everything)[1], active.s, timeline.r, active.o, active.inverse_degree),
        (timeline.changes_of(everything)[1], active.change_s, timeline.change_r, active.change_o, active.change_weight),
    )
    most = max(timeline.num_entities, 2 * timeline.num_relations)

    def in_orders(j: Tensor, s: Tensor, r: Tensor, o: Tensor, weight: Tensor) -> Edges:
        by = []
        for end in (s, r, o) if j.is_cuda else ():
            order = torch.argsort(j * most + end, stable=True)
            by.append(Edges(s[order].int(), r[order].int(), o[order].int(), weight[order].float()))
        return Edges(s, r, o, weight, tuple(by))

    edges, changes = (in_orders(*columns) for columns in whole)
    return edges, changes


@dataclass(frozen=True, eq=False)
class WindowRows:
    """The entities touched in the last k snapshots before each possible end of a history, made once by sorting.

    A window that knows n snapshots has the rows ``offset[n] .. offset[n + 1]`` of ``entity``, ascending. Row a of
    :class:`ActiveRows`, of snapshot j, stands at ``place[b - 1, a]`` among the rows of the window that knows j + b.
    """

    entity: Tensor  # (U,)
    offset: Tensor  # (T + 2,)
    place: Tensor  # (k, A)
    sizes: Ids  # (T + 1,) on the host: rows of each window


def window_rows(timeline: Timeline, history: int) -> WindowRows:
    """Join the touched entities of ``history`` neighbouring snapshots, for every end that a window can have."""
    n, active, last = timeline.num_entities, timeline.active, len(timeline)
    j = torch.repeat_interleave(active.offset.diff(), output_size=len(active.entity))  # (A,) snapshot of each row
    keys = [(j + b) * n + active.entity for b in range(1, history + 1)] or [j]
    key, inverse = torch.unique(torch.cat(keys), return_inverse=True)
    offset = torch.searchsorted(key, torch.arange(last + 2, device=key.device) * n)
    ends = torch.searchsorted(key, torch.arange(last + history + 1, device=key.device) * n)
    back = torch.arange(1, history + 1, device=key.device)[:, None]
    return WindowRows(
        entity=key % n,
        offset=offset,
        place=inverse[: history * len(j)].view(history, len(j)) - ends[j + back],
        sizes=offset.diff().cpu().numpy(),
    )
