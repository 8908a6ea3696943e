"""How active an entity was before a time, in all and in one role (docs/maths.md, row M57)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import torch
from torch import Tensor

from tangokg.history.occurrences import acts_of, past_of, uses_of
from tangokg.history.partners import Partners
from tangokg.history.statistics import NUM_STATISTICS, count, statistics
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Windows

# (windows, window (Y,), entity (Y,), label (Y,) or None for any, gap, dtype) -> (Y, F)
EventStatistics = Callable[[Windows, Tensor, Tensor, Tensor | None, float, torch.dtype], Tensor]


def event_statistics(timeline: Timeline) -> EventStatistics:
    """Statistics (row M50) of all events of an entity, or of those with one label; zeros where none happened."""
    return partial(_event_statistics, timeline)


def _event_statistics(
    timeline: Timeline,
    windows: Windows,
    window: Tensor,
    entity: Tensor,
    label: Tensor | None,
    gap: float,
    dtype: torch.dtype,
) -> Tensor:
    counted = timeline.derive(count, acts_of if label is None else uses_of, gap, dtype)
    group = entity if label is None else entity * (2 * timeline.num_relations) + label
    past = past_of(counted.occurrences, group, windows.known.index_select(0, window))
    t = windows.t.index_select(0, window).index_select(0, past.row)
    nothing = torch.zeros(len(group), NUM_STATISTICS, dtype=dtype, device=group.device)
    return nothing.index_copy(0, past.row, statistics(counted, past, t))


@dataclass(frozen=True, eq=False)
class Activity:
    """Statistics of all events of an entity, or of those with one label, before the time of a window."""

    partners: Partners
    gap: float
    dtype: torch.dtype

    def all_events(self, weight: Tensor, window: Tensor, entity: Tensor) -> Tensor:
        """(Y, H): the statistics of all events of some entities, times ``weight`` (F, H)."""
        return (self.table @ weight).index_select(0, window * self.partners.timeline.num_entities + entity)

    def events_with(self, window: Tensor, entity: Tensor, label: Tensor | None) -> Tensor:
        """(Y, F): the statistics of the events of some entities with one label each."""
        found = self.partners.timeline.derive(event_statistics)
        return found(self.partners.windows, window, entity, label, self.gap, self.dtype)

    @cached_property
    def table(self) -> Tensor:
        """(W N, F) the statistics of every entity at each window."""
        number, windows = self.partners.timeline.num_entities, len(self.partners.windows)
        row = torch.arange(windows * number, device=self.partners.s.device)
        return self.events_with(row // number, row % number, None)


def activity_of(partners: Partners, gap: float, dtype: torch.dtype) -> Activity:
    """The activity that the queries of ``partners`` may know of, found once for them."""
    kept: dict[str, Activity] = vars(partners)
    if "activity" not in kept:
        kept["activity"] = Activity(partners, gap, dtype)
    return kept["activity"]
