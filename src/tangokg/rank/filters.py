"""What is true besides the answer asked for: the candidates that a filter leaves out of a ranking."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from tangokg.rank.listed import Listed, dated_key, find, listed
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Queries


@dataclass(frozen=True, eq=False)
class TrueFacts:
    """All true facts of a set, every part of it, found by (s, r) at one time or at any time."""

    t: Tensor  # (T,) observed times, ascending
    at_key: Tensor  # (E,) (j, s, r) as one ascending number; below 2**63 for any set that fits in memory
    at_o: Tensor  # (E,)
    ever_key: Tensor  # (E',) (s, r) as one ascending number, distinct facts whatever their time
    ever_o: Tensor  # (E',)
    num_entities: int
    num_labels: int  # 2R

    def at(self, s: Tensor, r: Tensor, t: Tensor) -> Listed:
        """The objects of the facts (s, r, object) at time ``t``, for each row; none at a time not observed."""
        return find(self.at_key, self.at_o, dated_key(self.t, t, s, r, self.num_entities, self.num_labels))

    def ever(self, s: Tensor, r: Tensor) -> Listed:
        """The objects of the facts (s, r, object) at any time, each object once for a row."""
        return find(self.ever_key, self.ever_o, s * self.num_labels + r)


def true_facts(timeline: Timeline) -> TrueFacts:
    """Sort the edges of a timeline, which holds every part of the set, for :class:`TrueFacts`."""
    n, labels = timeline.num_entities, 2 * timeline.num_relations
    j = torch.repeat_interleave(timeline.offset.diff())  # (E,)
    pair = timeline.s * labels + timeline.r
    at_key, order = torch.sort(j * (n * labels) + pair)
    by_o = torch.argsort(timeline.o, stable=True)  # two stable sorts: s, r and o in one number could pass 2**63
    by_fact = by_o[torch.argsort(pair[by_o], stable=True)]
    key, o = pair[by_fact], timeline.o[by_fact]
    fresh = torch.ones_like(key, dtype=torch.bool)
    fresh[1:] = (key[1:] != key[:-1]) | (o[1:] != o[:-1])
    return TrueFacts(timeline.t, at_key, timeline.o[order], key[fresh], o[fresh], n, labels)


Filter = Callable[[TrueFacts, Queries, Tensor], Listed]  # (facts, queries, t of each query) -> what is left out


def nothing(facts: TrueFacts, queries: Queries, t: Tensor) -> Listed:
    """Raw ranks: every other candidate counts, true or not."""
    none = torch.zeros_like(queries.s)
    return listed(facts.ever_o, none, none)


def true_now(facts: TrueFacts, queries: Queries, t: Tensor) -> Listed:
    """Time-aware ranks: what is true at the time of the query does not count."""
    return facts.at(queries.s, queries.r, t)


def true_ever(facts: TrueFacts, queries: Queries, t: Tensor) -> Listed:
    """Time-unaware ranks: what is true at any time, earlier or later, does not count."""
    return facts.ever(queries.s, queries.r)


FILTERS: dict[str, Filter] = {"raw": nothing, "time-aware": true_now, "time-unaware": true_ever}
