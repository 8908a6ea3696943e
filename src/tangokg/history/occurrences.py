"""The edges of a timeline sorted by fact: what happened before any time is found by a search, never by a pass."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tangokg.snapshots.ranges import expand
from tangokg.snapshots.timeline import Timeline


@dataclass(frozen=True, eq=False)
class Occurrences:
    """The edges of a timeline sorted by (s, r), then o, then time: a fact's past is one run of rows.

    Fact f is a distinct (s, r, o); facts with the same (s, r) are neighbours.
    """

    pair: Tensor  # (F,) s * 2R + r of each fact, ascending
    o: Tensor  # (F,)
    first: Tensor  # (F,) the row of its first occurrence
    key: Tensor  # (E,) (fact, j) as one ascending number
    j: Tensor  # (E,) the snapshot of each occurrence
    t: Tensor  # (T,)
    num_entities: int
    num_labels: int  # 2R


@dataclass(frozen=True, eq=False)
class Past:
    """Objects that stood with the (s, r) of a row in the snapshots known to it, each once for a row."""

    row: Tensor  # (P,)
    o: Tensor  # (P,)
    count: Tensor  # (P,) in how many known snapshots
    last: Tensor  # (P,) the index of the latest of them
    at: Tensor  # (P,) the row of the latest occurrence


def sort_occurrences(timeline: Timeline) -> Occurrences:
    """Sort all edges of a timeline; once for a timeline, see :func:`occurrences_of`."""
    labels = 2 * timeline.num_relations
    order = torch.argsort(timeline.o, stable=True)  # edges come in the order of time, and stable sorts keep it
    pair = timeline.s * labels + timeline.r
    order = order[torch.argsort(pair[order], stable=True)]
    pair, o = pair[order], timeline.o[order]
    j = torch.repeat_interleave(timeline.offset.diff())[order]
    fresh = torch.ones_like(o, dtype=torch.bool)
    fresh[1:] = (pair[1:] != pair[:-1]) | (o[1:] != o[:-1])
    fact = fresh.cumsum(0) - 1  # (E,)
    key = fact * len(timeline) + j
    first = fresh.nonzero()[:, 0]
    return Occurrences(pair[first], o[first], first, key, j, timeline.t, timeline.num_entities, labels)


def past_of(occurrences: Occurrences, pair: Tensor, known: Tensor) -> Past:
    """The past of each row: of ``pair`` (U,) in the snapshots ``0 .. known - 1`` (U,)."""
    start = torch.searchsorted(occurrences.pair, pair)
    fact, row = expand(start, torch.searchsorted(occurrences.pair, pair, right=True))
    end = torch.searchsorted(occurrences.key, fact * len(occurrences.t) + known.index_select(0, row))
    count = end - occurrences.first.index_select(0, fact)
    seen = count > 0  # the others occur only later: they must not be told from those that never do
    at = end[seen] - 1
    last = occurrences.j.index_select(0, at)
    return Past(row[seen], occurrences.o.index_select(0, fact[seen]), count[seen], last, at)


def occurrences_of(timeline: Timeline) -> Occurrences:
    """The sorted edges of a timeline, derived once."""
    return timeline.derive(sort_occurrences)
