"""Quadruples -> one graph for each observed time, and what changed between neighbours (docs/maths.md, rows M4, M5)."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from tangokg.quads.values import Ids, Quadruples
from tangokg.snapshots.ranges import expand

if TYPE_CHECKING:
    from tangokg.snapshots.blocks import ActiveRows


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The edges that hold at one time, reciprocal ones included: three id columns of length E."""

    s: Tensor
    r: Tensor
    o: Tensor
    t: float


@dataclass(frozen=True, eq=False)
class Timeline:
    r"""All snapshots of a set, one after the other in time, each a *set* of edges with its reciprocals.

    Edges of snapshot j are the rows ``offset[j] .. offset[j + 1]`` of ``s, r, o``; its transition tensor

    .. math:: T(t_j) = A(t_j) - A(t_{j-1}), \qquad T(t_0) = 0

    is the rows ``change_offset[j] .. change_offset[j + 1]`` of ``change_s, change_r, change_o, change_sign``
    (+1 formed, -1 dissolved). A relation id r stands for (s, r, o), r + R for the reciprocal (o, r + R, s).
    """

    t: Tensor  # (T,) float64, ascending
    s: Tensor  # (E,) int64, as r and o
    r: Tensor
    o: Tensor
    offset: Tensor  # (T + 1,)
    change_s: Tensor  # (C,) int64, as change_r and change_o
    change_r: Tensor
    change_o: Tensor
    change_sign: Tensor  # (C,) int64 of +1 and -1
    change_offset: Tensor  # (T + 1,)
    num_entities: int
    num_relations: int  # R, without reciprocals: edge labels run to 2R

    def __len__(self) -> int:
        return len(self.t)

    def __getitem__(self, j: int) -> Snapshot:
        rows = slice(int(self.offset[j]), int(self.offset[j + 1]))
        return Snapshot(self.s[rows], self.r[rows], self.o[rows], float(self.t[j]))

    def transition(self, j: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """``(s, r, o, sign)`` of the entries of T(t_j) that are not zero."""
        rows = slice(int(self.change_offset[j]), int(self.change_offset[j + 1]))
        return self.change_s[rows], self.change_r[rows], self.change_o[rows], self.change_sign[rows]

    def before(self, t: float) -> int:
        """How many snapshots lie strictly before ``t``: what may be known when ``t`` is forecast."""
        return int(torch.searchsorted(self.t, torch.tensor(t, dtype=self.t.dtype, device=self.t.device)))

    @cached_property
    def active(self) -> ActiveRows:
        """The entities that each snapshot touches, numbered; derived once."""
        from tangokg.snapshots.blocks import active_rows

        with torch.inference_mode(False):  # kept for training too, whoever asks first
            return active_rows(self)

    def to(self, device: torch.device) -> Timeline:
        columns = {f.name: getattr(self, f.name) for f in fields(self)}
        moved: dict[str, Any] = {name: v.to(device) for name, v in columns.items() if isinstance(v, Tensor)}
        return replace(self, **moved)

    def edges_of(self, snapshot: Tensor) -> tuple[Tensor, Tensor]:
        """Edge rows of several snapshots: ``(rows, owner)``, ``owner`` counting within ``snapshot``."""
        return expand(self.offset.index_select(0, snapshot), self.offset.index_select(0, snapshot + 1))

    def changes_of(self, snapshot: Tensor) -> tuple[Tensor, Tensor]:
        """Transition rows of several snapshots, as :meth:`edges_of`."""
        return expand(self.change_offset.index_select(0, snapshot), self.change_offset.index_select(0, snapshot + 1))


def build_timeline(facts: Quadruples, num_entities: int | None = None, num_relations: int | None = None) -> Timeline:
    """Sort facts into snapshots: repeats dropped, reciprocals added, transitions found by one sort of all edges."""
    n = facts.vocab.num_entities if num_entities is None else num_entities
    r_count = facts.vocab.num_relations if num_relations is None else num_relations
    times, j = np.unique(facts.t, return_inverse=True)
    s = np.concatenate([facts.s, facts.o])
    r = np.concatenate([facts.r, facts.r + r_count])
    o = np.concatenate([facts.o, facts.s])
    order, triple = _sorted_distinct(s, r, o, np.concatenate([j, j]), n, 2 * r_count)
    s, r, o, j = s[order], r[order], o[order], np.concatenate([j, j])[order]
    change = _changes(triple, j, len(times))  # rows into the sorted edges, their snapshot and sign
    by_time = np.argsort(j, kind="stable")  # keeps (s, r, o) order inside a snapshot
    change_by_time = np.argsort(change[1], kind="stable")
    rows, at, sign = (column[change_by_time] for column in change)
    steps = np.arange(len(times) + 1)
    return Timeline(
        t=torch.from_numpy(times.astype(np.float64)),
        s=torch.from_numpy(s[by_time]),
        r=torch.from_numpy(r[by_time]),
        o=torch.from_numpy(o[by_time]),
        offset=torch.from_numpy(np.searchsorted(j[by_time], steps)),
        change_s=torch.from_numpy(s[rows]),
        change_r=torch.from_numpy(r[rows]),
        change_o=torch.from_numpy(o[rows]),
        change_sign=torch.from_numpy(sign),
        change_offset=torch.from_numpy(np.searchsorted(at, steps)),
        num_entities=n,
        num_relations=r_count,
    )


def _sorted_distinct(s: Ids, r: Ids, o: Ids, j: Ids, num_entities: int, num_labels: int) -> tuple[Ids, Ids]:
    """Rows in (s, r, o, j) order with repeats left out, and a number for each triple, ascending along them."""
    pair = s * num_labels + r
    if num_entities * num_labels * num_entities < 2**62:
        key = pair * num_entities + o
        order = np.lexsort((j, key))
        key_sorted = key[order]
        new_triple = key_sorted[1:] != key_sorted[:-1]
    else:
        order = np.lexsort((j, o, pair))
        new_triple = (pair[order][1:] != pair[order][:-1]) | (o[order][1:] != o[order][:-1])
    j_sorted = j[order]
    fresh = np.concatenate([np.ones(min(len(order), 1), bool), new_triple | (j_sorted[1:] != j_sorted[:-1])])
    triple = np.concatenate([np.zeros(min(len(order), 1), np.int64), np.cumsum(new_triple)])
    return order[fresh], triple[fresh]


def _changes(triple: Ids, j: Ids, num_snapshots: int) -> tuple[Ids, Ids, Ids]:
    """Rows where an edge forms at its snapshot j, or dissolves at j + 1: ``(row, snapshot, sign)``.

    Rows are sorted by (triple, j): an edge forms where the row before is not the same triple at j - 1, and dissolves
    where the row after is not the same triple at j + 1. Nothing forms at the first snapshot of all.
    """
    goes_on = (triple[1:] == triple[:-1]) & (j[1:] == j[:-1] + 1)  # row i + 1 continues row i
    edge = np.zeros(min(len(j), 1), bool)
    formed = np.flatnonzero(~np.concatenate([edge, goes_on]) & (j > 0))
    dissolved = np.flatnonzero(~np.concatenate([goes_on, edge]) & (j + 1 < num_snapshots))
    rows = np.concatenate([formed, dissolved])
    at = np.concatenate([j[formed], j[dissolved] + 1])
    sign = np.concatenate([np.ones(len(formed), np.int64), -np.ones(len(dissolved), np.int64)])
    return rows, at, sign
