"""First states for entities that training never saw, computed from the facts known at the time of the question."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tangokg.history.occurrences import count_unseen
from tangokg.models.names import NameStates
from tangokg.shards import WHOLE, Shard
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Windows

FRESH = "prior", "prototype", "names.words", "names.states"  # state entries that are made after training


def prototypes(timeline: Timeline, table: Tensor, seen: Tensor, shard: Shard = WHOLE) -> tuple[Tensor, Tensor]:
    r"""What the objects of each relation look like: ``(prior (D,), prototype (2R, D))`` (docs/maths.md, row M14).

    .. math:: c_r = \frac{1}{|E_r|} \sum_{(s, r, o) \in E_r} e_o, \qquad c = \frac{1}{|E|} \sum_{(s, r, o) \in E} e_o

    over the edges whose object is ``seen`` ((N,) bool), that is: has a trained embedding. A relation without edges
    has the prior c. Processes that divide the table add up their sums.
    """
    n, labels = len(table), 2 * timeline.num_relations
    trained = seen.index_select(0, timeline.o)
    r, o = timeline.r[trained], timeline.o[trained]
    size = torch.bincount(r, minlength=labels).to(table.dtype)[:, None]  # (2R, 1)
    r, o = shard.own(r, o)
    key, count = torch.unique(r * n + o, return_counts=True)
    counts = torch.sparse_coo_tensor(
        torch.stack([key // n, key % n]), count.to(table.dtype), (labels, n), is_coalesced=True, check_invariants=False
    )
    total = shard.total(torch.sparse.mm(counts, table))  # (2R, D)
    prior = total.sum(0) / size.sum().clamp(min=1)  # (D,)
    return prior, torch.where(size > 0, total / size.clamp(min=1), prior)


@dataclass(frozen=True, eq=False)
class Newcomers:
    """Entities unseen in training that have an edge among a window's known snapshots: their keys and first states."""

    key: Tensor  # (M,) window * N + entity, ascending
    state: Tensor  # (M, D)


def find_newcomers(
    timeline: Timeline,
    windows: Windows,
    seen: Tensor,
    prior: Tensor,
    prototype: Tensor,
    names: NameStates | None = None,
) -> Newcomers:
    r"""First states of newcomers, from all their edges before the window's end, and from their names (x W) if given.

    .. math:: h_o = \frac{c + \sum_{(s, r) \in N(o)} c_r}{1 + |N(o)|} + x_o W
    """
    labels = len(prototype)
    pair, count = timeline.derive(count_unseen)(windows.known, seen)
    key, row = torch.unique_consecutive(pair // labels, return_inverse=True)
    weight = count.to(prior.dtype)[:, None]
    total = prior.repeat(len(key), 1).index_add_(0, row, prototype.index_select(0, pair % labels) * weight)  # (M, D)
    size = torch.ones_like(total[:, :1]).index_add_(0, row, weight)  # (M, 1)
    state = total / size
    return Newcomers(key, state if names is None else state + names(timeline, key % timeline.num_entities))


def start_unseen(
    timeline: Timeline, table: Tensor, seen: Tensor, prior: Tensor, names: NameStates | None, shard: Shard
) -> Tensor:
    """The table with :math:`c`, and :math:`c + x_o W` where names are given, in the rows that are not ``seen``."""
    trained = seen if shard.whole else seen[shard.rows]
    table = torch.where(trained[:, None], table, prior)
    if names is None:
        return table
    entity = (~seen).nonzero()[:, 0]
    entity, row = shard.own(entity, entity)
    return table.index_add(0, row, names(timeline, entity))
