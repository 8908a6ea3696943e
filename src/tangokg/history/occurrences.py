"""The edges of a timeline sorted by fact: what happened before any time is found by binary search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import torch
from torch import Tensor

from tangokg.snapshots.ranges import expand
from tangokg.snapshots.timeline import Timeline


@dataclass(frozen=True, eq=False)
class Occurrences:
    """The edges of a timeline sorted by a group, such as (s, r), then o, then time: a fact's past is one run of rows.

    Fact f is a distinct (group, o); facts of one group are neighbours.
    """

    pair: Tensor  # (F,) the group of each fact, ascending: s * 2R + r, or another number (see :func:`sort_by`)
    o: Tensor  # (F,)
    first: Tensor  # (F,) the row of its first occurrence
    key: Tensor  # (E,) (fact, j) as one ascending number
    j: Tensor  # (E,) the snapshot of each occurrence
    edge: Tensor  # (E,) its row in the timeline
    t: Tensor  # (T,)
    num_entities: int
    num_labels: int  # 2R

    @cached_property
    def fact(self) -> Tensor:
        """(E,) the fact of each occurrence."""
        return torch.zeros_like(self.j).index_fill_(0, self.first, 1).cumsum(0) - 1

    @cached_property
    def times(self) -> Tensor:
        """(E,) the time of each occurrence."""
        return self.t.index_select(0, self.j)


@dataclass(frozen=True, eq=False)
class Past:
    """The facts of a row's group that occur in the snapshots known to the row, each once."""

    row: Tensor  # (P,)
    fact: Tensor  # (P,)
    o: Tensor  # (P,)
    count: Tensor  # (P,) occurrences in the known snapshots
    last: Tensor  # (P,) the index of the latest of these snapshots
    at: Tensor  # (P,) the row of the latest occurrence


def sort_by(timeline: Timeline, group: Tensor, whole: bool = False, rows: Tensor | None = None) -> Occurrences:
    """Sort the edges of a timeline by ``group`` (E,), then by object, then by time.

    ``whole``: objects are all one. ``rows``: these edges alone, in the order of time.
    """
    objects = torch.zeros_like(timeline.o) if whole else timeline.o
    number = group * max(timeline.num_entities, 1) + objects
    number, order = torch.sort(number if rows is None else number[rows], stable=True)  # which keeps the order of time
    order = order if rows is None else rows[order]
    j = torch.repeat_interleave(timeline.offset.diff())[order]
    fresh = torch.ones_like(number, dtype=torch.bool)
    fresh[1:] = number[1:] != number[:-1]
    key = (fresh.cumsum(0) - 1) * len(timeline) + j
    first = fresh.nonzero()[:, 0]
    pair, o, labels = group[order[first]], objects[order[first]], 2 * timeline.num_relations
    return Occurrences(pair, o, first, key, j, order, timeline.t, timeline.num_entities, labels)


def sort_occurrences(timeline: Timeline) -> Occurrences:
    """All edges by (s, r), then o; once for a timeline, see :func:`occurrences_of`."""
    return sort_by(timeline, timeline.s * (2 * timeline.num_relations) + timeline.r)


def sort_meetings(timeline: Timeline) -> Occurrences:
    """All edges by s, then o, whatever the relation."""
    return sort_by(timeline, timeline.s)


def sort_acts(timeline: Timeline) -> Occurrences:
    """All edges by s alone."""
    return sort_by(timeline, timeline.s, whole=True)


def sort_uses(timeline: Timeline) -> Occurrences:
    """All edges by (s, r) alone."""
    return sort_by(timeline, timeline.s * (2 * timeline.num_relations) + timeline.r, whole=True)


def past_of(occurrences: Occurrences, pair: Tensor, known: Tensor) -> Past:
    """The past of each row: of the group ``pair`` (U,) in the snapshots ``0 .. known - 1`` (U,)."""
    start = torch.searchsorted(occurrences.pair, pair)
    fact, row = expand(start, torch.searchsorted(occurrences.pair, pair, right=True))
    end = torch.searchsorted(occurrences.key, fact * len(occurrences.t) + known.index_select(0, row))
    count = end - occurrences.first.index_select(0, fact)
    seen = (count > 0).nonzero()[:, 0]  # the others occur only later, which must look the same as never
    row, fact, count, at = (x.index_select(0, seen) for x in (row, fact, count, end - 1))
    last = occurrences.j.index_select(0, at)
    return Past(row, fact, occurrences.o.index_select(0, fact), count, last, at)


def occurrences_of(timeline: Timeline) -> Occurrences:
    """The edges of a timeline by (s, r) and o, sorted once."""
    return timeline.derive(sort_occurrences)


def meetings_of(timeline: Timeline) -> Occurrences:
    """The edges of a timeline by s and o, sorted once."""
    return timeline.derive(sort_meetings)


def acts_of(timeline: Timeline) -> Occurrences:
    """The edges of a timeline by s, sorted once."""
    return timeline.derive(sort_acts)


def uses_of(timeline: Timeline) -> Occurrences:
    """The edges of a timeline by (s, r), sorted once."""
    return timeline.derive(sort_uses)


def past_of_label(timeline: Timeline) -> Callable[[Tensor, Tensor], Past]:
    """The past of each (label, known): the objects of the label with any subject; to be derived once."""
    return partial(past_of, sort_by(timeline, timeline.r))


def count_unseen(timeline: Timeline) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """For ``known`` (W,) and ``seen`` (N,) bool: the edges of each label of each unseen object until then.

    They are numbers (w N + o) 2R + r, ascending, and how many edges there are of each.
    """
    return partial(_count_unseen, timeline)


def _count_unseen(timeline: Timeline, known: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
    edges = (~seen.index_select(0, timeline.o)).nonzero()[:, 0]  # in time order
    stop = torch.searchsorted(edges, timeline.offset.index_select(0, known))
    position, window = expand(torch.zeros_like(stop), stop)
    edge = edges.index_select(0, position)
    place = window * timeline.num_entities + timeline.o.index_select(0, edge)
    number, count = torch.unique(
        place * (2 * timeline.num_relations) + timeline.r.index_select(0, edge), return_counts=True
    )
    return number, count
