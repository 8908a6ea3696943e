"""How active an entity was before a time, in all and in one role (docs/maths.md, row M57)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from tangokg.history.occurrences import Occurrences, acts_of, past_of, uses_of
from tangokg.history.partners import Partners
from tangokg.history.statistics import NUM_STATISTICS, count, statistics


@dataclass(frozen=True, eq=False)
class Activity:
    """Statistics of all events of an entity, and of those in which it has one label, before the time of a window."""

    partners: Partners
    gap: float
    dtype: torch.dtype

    def acts(self, weight: Tensor, window: Tensor, entity: Tensor) -> Tensor:
        """(Y, H): the statistics of all events of some entities, times ``weight`` (F, H)."""
        return (self.table @ weight).index_select(0, window * self.partners.timeline.num_entities + entity)

    def uses(self, window: Tensor, entity: Tensor, label: Tensor) -> Tensor:
        """(Y, F): the statistics of the events of some entities with one label each."""
        occurrences = uses_of(self.partners.timeline)
        return self._statistics(occurrences, entity * occurrences.num_labels + label, window, uses_of)

    @cached_property
    def table(self) -> Tensor:
        """(W N, F) the statistics of every entity at each window."""
        number, windows = self.partners.timeline.num_entities, len(self.partners.windows)
        device = self.partners.timeline.s.device
        entity = torch.arange(number, device=device).repeat(windows)
        window = torch.arange(windows, device=device).repeat_interleave(number)
        return self._statistics(acts_of(self.partners.timeline), entity, window, acts_of)

    def _statistics(self, occurrences: Occurrences, pair: Tensor, window: Tensor, of: object) -> Tensor:
        counted = self.partners.timeline.derive(count, of, self.gap, self.dtype)
        windows = self.partners.windows
        past = past_of(occurrences, pair, windows.known.index_select(0, window))
        t = windows.t.index_select(0, window).index_select(0, past.row)
        empty = torch.zeros(len(pair), NUM_STATISTICS, dtype=self.dtype, device=pair.device)
        return empty.index_copy(0, past.row, statistics(counted, past, t))


def activity_of(partners: Partners, gap: float, dtype: torch.dtype) -> Activity:
    """The activity of these queries' entities, found once."""
    kept: dict[str, Activity] = vars(partners)
    if "activity" not in kept:
        kept["activity"] = Activity(partners, gap, dtype)
    return kept["activity"]
