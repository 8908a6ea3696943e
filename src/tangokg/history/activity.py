"""How active an entity was before a time, in all and in one role (docs/maths.md, row M57)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import torch
from torch import Tensor

from tangokg.history.occurrences import acts_of, uses_of
from tangokg.history.partners import Partners
from tangokg.history.statistics import count, count_starts, last_statistics
from tangokg.snapshots.rows import few
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Windows

# (windows, window (Y,), entity (Y,), label (Y,) or None for any, gap, dtype, starts of runs alone) -> (Y, F)
EventStatistics = Callable[[Windows, Tensor, Tensor, Tensor | None, float, torch.dtype, bool], Tensor]


def event_statistics(timeline: Timeline) -> EventStatistics:
    """Statistics (row M50) of an entity's events, or of those with one label; zeros where there are none.

    The events are all edges, or only those that begin a run.
    """
    return partial(_event_statistics, timeline)


def _event_statistics(
    timeline: Timeline,
    windows: Windows,
    window: Tensor,
    entity: Tensor,
    label: Tensor | None,
    gap: float,
    dtype: torch.dtype,
    starts: bool,
) -> Tensor:
    if starts:
        counted = timeline.derive(count_starts, label is not None, gap, dtype)
    else:
        counted = timeline.derive(count, acts_of if label is None else uses_of, gap, dtype)
    group = entity if label is None else entity * (2 * timeline.num_relations) + label
    return last_statistics(counted, group, windows.known.index_select(0, window), windows.t.index_select(0, window))


@dataclass(frozen=True, eq=False)
class Activity:
    """Statistics of an entity's events, or of those with one label, before the time of a window.

    The events are all edges; with ``starts``, only those that begin a run.
    """

    partners: Partners
    gap: float
    dtype: torch.dtype
    starts: bool = False

    def all_events(self, weight: Tensor, window: Tensor, entity: Tensor) -> Tensor:
        """(Y, H): the statistics of all events of some entities, times ``weight`` (F, H)."""
        if few(entity, self.partners.timeline.num_entities):
            return self.events_with(window, entity, None) @ weight
        return (self.table @ weight).index_select(0, self.place(window, entity))

    def place(self, window: Tensor, entity: Tensor) -> Tensor:
        """(Y,) the rows of some entities in the table."""
        return window * self.partners.timeline.num_entities + entity

    def events_with(self, window: Tensor, entity: Tensor, label: Tensor | None) -> Tensor:
        """(Y, F): the statistics of the events of some entities with one label each."""
        lookup = self.partners.timeline.derive(event_statistics)
        return lookup(self.partners.windows, window, entity, label, self.gap, self.dtype, self.starts)

    @cached_property
    def table(self) -> Tensor:
        """(W N, F) the statistics of every entity at each window."""
        number, windows = self.partners.timeline.num_entities, len(self.partners.windows)
        row = torch.arange(windows * number, device=self.partners.s.device)
        return self.events_with(row // number, row % number, None)


def activity_of(partners: Partners, gap: float, dtype: torch.dtype, starts: bool = False) -> Activity:
    """The activity that the queries of ``partners`` may see, computed once for all of them."""
    kept: dict[str, Activity] = vars(partners)
    name = "starts" if starts else "activity"
    if name not in kept:
        kept[name] = Activity(partners, gap, dtype, starts)
    return kept[name]
