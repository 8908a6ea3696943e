"""All earlier partners of the subjects of some queries, found once for each (window, subject)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import embedding

from tangokg.history.growth import grow_by_mean
from tangokg.history.occurrences import Past, meetings_of, past_of
from tangokg.history.statistics import time_code
from tangokg.snapshots.ranges import expand
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Queries, Windows

OFTEN = 64  # times that a row of a table is taken, on average


@dataclass(frozen=True, eq=False)
class Partners:
    """The distinct (window, subject) of some queries, and the past of each with every partner, in the order of o."""

    timeline: Timeline
    meetings: Timeline  # of all partners of the subjects: of part of a history their edges alone
    windows: Windows
    queries: Queries
    of: Tensor  # (B,) which of the U subjects a query asks about
    window: Tensor  # (U,)
    s: Tensor  # (U,)
    start: Tensor  # (U + 1,) where the partners of each begin
    past: Past  # (Z,) its rows are the subjects, its facts meetings (s, any, o)
    t: Tensor  # (Z,) the time that ages are counted to
    ahead: Tensor  # (W,) how far the time asked for lies behind the last known snapshot, in median gaps

    @property
    def key(self) -> Tensor:
        """(Z,) subject and partner as one ascending number."""
        return self.past.row * self.timeline.num_entities + self.past.o

    @cached_property
    def facts(self) -> Timeline:
        """The facts (s, r, o) of the queries; of part of a history their edges alone."""
        if not self.timeline.is_part:
            return self.timeline
        labels, meetings = 2 * self.timeline.num_relations, self.meetings
        wanted = self.queries.s * labels + self.queries.r
        return meetings.only(torch.isin(meetings.s * labels + meetings.r, wanted).nonzero()[:, 0])

    def look_up(self, table: Tensor, r: Tensor) -> Tensor:
        """Rows of a (2R, ..) table for labels of any shape; a relation that training never saw has the mean row.

        The gradient of ``embedding`` sorts the labels, which pays off if each row is used very often.
        """
        if len(table) < 2 * self.timeline.num_relations:
            table = grow_by_mean(table, self.timeline.num_relations)
        if r.numel() > OFTEN * len(table):
            return embedding(r, table)
        return table.index_select(0, r.flatten()).view(*r.shape, *table.shape[1:])

    def inverse(self, r: Tensor) -> Tensor:
        """The label of the same facts seen from the other side."""
        return (r + self.timeline.num_relations) % (2 * self.timeline.num_relations)

    def ahead_code(self, dtype: torch.dtype) -> Tensor:
        """(W, 8) how far ahead each window asks."""
        return time_code(self.ahead.to(dtype))

    def pairs(self) -> tuple[Tensor, Tensor, Tensor]:
        """Each query with each partner of its subject: ``(query, partner row z, where a query's pairs begin)``."""
        start, stop = self.start.index_select(0, self.of), self.start.index_select(0, self.of + 1)
        z, query = expand(start, stop)
        return query, z, (stop - start).cumsum(0) - (stop - start)


def next_step(timeline: Timeline, windows: Windows, gap: float) -> tuple[Windows, Tensor]:
    """The windows moved to one median gap after what they know, and how far ahead (W,) they ask, in median gaps.

    So the history of a question is the same however far ahead it asks; the distance is a separate input.
    """
    if not len(timeline):
        return windows, torch.ones_like(windows.t)
    last = timeline.t.index_select(0, (windows.known - 1).clamp(min=0))
    last = torch.where(windows.known > 0, last, windows.t - gap)
    moved = Windows(windows.known, last + gap)
    vars(moved).update({name: value for name, value in vars(windows).items() if name == "known_on_host"})
    return moved, (windows.t - last) / gap


def find_partners(timeline: Timeline, windows: Windows, queries: Queries, gap: float) -> Partners:
    """The partners of every subject asked about, from the snapshots its window knows."""
    windows, ahead = next_step(timeline, windows, gap)
    n = timeline.num_entities
    key, of = torch.unique(queries.window * n + queries.s, return_inverse=True)
    window, s = key // n, key % n
    meetings = timeline
    if timeline.is_part:  # it holds edges further away, too
        meetings = timeline.only(torch.isin(timeline.s, s).nonzero()[:, 0])
    past = past_of(meetings_of(meetings), s, windows.known.index_select(0, window))
    start = torch.searchsorted(past.row, torch.arange(len(key) + 1, device=key.device))
    t = windows.t.index_select(0, window).index_select(0, past.row)
    return Partners(timeline, meetings, windows, queries, of, window, s, start, past, t, ahead)
