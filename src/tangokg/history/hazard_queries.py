"""Pairs (s, r) with what is known and when they are asked about: the rows that a hazard is fitted on and predicts."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tangokg.history.series import Pasts, recent_pairs
from tangokg.snapshots.timeline import Timeline

RECENT = 30  # usual gaps: a pair with a fact in the last so many is recently active


@dataclass(frozen=True, eq=False)
class HazardQueries:
    """Pairs with known snapshots and a time; each asks for a fact in the snapshots ``begin .. end - 1``."""

    pair: Tensor  # (M,) s * 2R + r
    known: Tensor  # (M,) snapshots
    t: Tensor  # (M,) the step, or the last step of a span, in usual gaps
    begin: Tensor  # (M,) as far as there are snapshots
    end: Tensor  # (M,)

    def __len__(self) -> int:
        return len(self.pair)

    def select(self, rows: Tensor | slice) -> HazardQueries:
        return HazardQueries(self.pair[rows], self.known[rows], self.t[rows], self.begin[rows], self.end[rows])

    def sample(self, most: int, generator: torch.Generator) -> HazardQueries:
        """All rows, or ``most`` of them drawn at random, in their order."""
        if len(self) <= most:
            return self
        return self.select(torch.randperm(len(self), generator=generator)[:most].sort().values)

    def happened(self, pasts: Pasts) -> Tensor:
        """(M,) of 0 and 1: whether each pair has a fact when it is asked for."""
        return pasts.pair.within(pasts.pair.find(self.pair), self.begin, self.end)


def ask_steps(timeline: Timeline, pasts: Pasts, target: Tensor, known: Tensor, recent: float = RECENT) -> HazardQueries:
    """The pairs recently active before the ``known`` (W,) snapshots end, at each ``target`` (W,)."""
    window, pair = recent_pairs(timeline, known, timeline.t[target], recent * pasts.gap)
    known, target = known[window], target[window]
    return HazardQueries(pair, known, pasts.times[target], target, target + 1)


def ask_spans(timeline: Timeline, pasts: Pasts, known: Tensor, length: Tensor, end: int) -> HazardQueries:
    """The pairs recently active, for spans of ``length`` (W,) usual gaps after what is known; they end by ``end``."""
    last = pasts.times[(known - 1).clamp(min=0)]
    complete = (known > 0) & (last + length <= (pasts.times[end - 1] if 0 < end <= len(pasts.times) else -1.0))
    known, t = known[complete], (last + length)[complete]
    window, pair = recent_pairs(timeline, known, timeline.t[(known - 1).clamp(min=0)] + pasts.gap, RECENT * pasts.gap)
    stop = torch.searchsorted(pasts.times, t + 1e-9, right=True)
    return HazardQueries(pair, known[window], t[window], known[window], stop[window])


def log_reach(pasts: Pasts, queries: HazardQueries) -> Tensor:
    """(M,) the logarithm of how far the time asked for lies after what is known, in usual gaps."""
    times = torch.cat([pasts.times, pasts.times.new_zeros(1)])
    reach: Tensor = (queries.t - times[(queries.known - 1).clamp(min=0)]).clamp(min=0.25)
    return torch.log(reach)


def evenly(begin: int, end: int, most: int) -> Tensor:
    """At most ``most`` whole numbers from ``begin`` to ``end - 1``."""
    if end <= begin:
        return torch.zeros(0, dtype=torch.int64)
    spread: Tensor = torch.linspace(begin, end - 1, min(most, end - begin)).round().long()
    distinct: Tensor = torch.unique(spread)
    return distinct
