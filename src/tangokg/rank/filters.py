"""What is true besides the answer asked for: the candidates that a filter leaves out of a ranking."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from tangokg.quads.values import Ids
from tangokg.rank.ranks import Pairs
from tangokg.snapshots.ranges import expand
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Queries


@dataclass(frozen=True, eq=False)
class LeftOut:
    """The candidates that a filter leaves out of each of B rankings: of row b ``o[start[b]:stop[b]]``, each once.

    They depend on the data alone. The pairs are written out for a few rows at a time, as all of them can be many
    times the facts; how many there are is known on the host, so that this waits for no device.
    """

    o: Tensor  # (E,)
    start: Tensor  # (B,)
    stop: Tensor  # (B,)
    before: Ids  # (B + 1,) on the host: the pairs of all rows before

    def pairs(self, first: int = 0, last: int | None = None) -> Pairs:
        """``(row, object)`` of the rows ``first .. last``, counted from ``first``."""
        last = len(self.start) if last is None else last
        total = int(self.before[last] - self.before[first])
        place, row = expand(self.start[first:last], self.stop[first:last], total)
        return row, self.o.index_select(0, place)


def _left_out(o: Tensor, start: Tensor, stop: Tensor) -> LeftOut:
    zero = start.new_zeros(1)
    return LeftOut(o, start, stop, torch.cat([zero, (stop - start).cumsum(0)]).cpu().numpy())


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

    def at(self, s: Tensor, r: Tensor, t: Tensor) -> LeftOut:
        """The objects of the facts (s, r, object) at time ``t``, for each row; none at a time not observed."""
        j = torch.searchsorted(self.t, t)  # (B,)
        observed = torch.cat([self.t, self.t.new_full((1,), torch.inf)]).index_select(0, j) == t
        key = (j * self.num_entities + s) * self.num_labels + r
        return _find(self.at_key, self.at_o, torch.where(observed, key, -1))

    def ever(self, s: Tensor, r: Tensor) -> LeftOut:
        """The objects of the facts (s, r, object) at any time, each object once for a row."""
        return _find(self.ever_key, self.ever_o, s * self.num_labels + r)


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


def _find(keys: Tensor, values: Tensor, key: Tensor) -> LeftOut:
    """For each row the values of those entries of the ascending ``keys`` that equal ``key[row]``."""
    return _left_out(values, torch.searchsorted(keys, key), torch.searchsorted(keys, key, right=True))


Filter = Callable[[TrueFacts, Queries, Tensor], LeftOut]  # (facts, queries, t of each query) -> what is left out


def nothing(facts: TrueFacts, queries: Queries, t: Tensor) -> LeftOut:
    """Raw ranks: every other candidate counts, true or not."""
    none = torch.zeros_like(queries.s)
    return _left_out(facts.ever_o, none, none)


def true_now(facts: TrueFacts, queries: Queries, t: Tensor) -> LeftOut:
    """Time-aware ranks: what is true at the time of the query does not count."""
    return facts.at(queries.s, queries.r, t)


def true_ever(facts: TrueFacts, queries: Queries, t: Tensor) -> LeftOut:
    """Time-unaware ranks: what is true at any time, earlier or later, does not count."""
    return facts.ever(queries.s, queries.r)


FILTERS: dict[str, Filter] = {"raw": nothing, "time-aware": true_now, "time-unaware": true_ever}
