"""How active every entity was lately, with anyone and under the relation asked for (docs/maths.md, row M49)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tangokg.history.occurrences import Occurrences, past_of, sort_by
from tangokg.history.partners import Partners
from tangokg.history.statistics import NUM_STATISTICS, count, statistics
from tangokg.snapshots.timeline import Timeline


def sort_entities(timeline: Timeline) -> Occurrences:
    """All edges by object alone; reciprocal edges make every entity of a fact one."""
    return sort_by(timeline, torch.zeros_like(timeline.r))


def sort_labels(timeline: Timeline) -> Occurrences:
    """All edges by label, then object."""
    return sort_by(timeline, timeline.r)


@dataclass(frozen=True, eq=False)
class Activity:
    """Statistics (W, N, F) of every entity at every window, 0 for those that never acted."""

    table: Tensor

    def project(self, weight: Tensor, window: Tensor, entity: Tensor) -> Tensor:
        """The statistics of some entities times ``weight`` (F, H)."""
        table = (self.table @ weight).flatten(0, 1)  # (W N, H)
        return table.index_select(0, window * self.table.shape[1] + entity)


def activity_of(partners: Partners, gap: float, dtype: torch.dtype) -> Activity:
    """How active every entity was before the time of each window."""
    timeline, windows = partners.timeline, partners.windows
    counted = timeline.derive(count, sort_entities, gap, dtype)
    past = past_of(counted.occurrences, torch.zeros_like(windows.known), windows.known)
    values = statistics(counted, past, windows.t.index_select(0, past.row))
    table = values.new_zeros(len(windows) * timeline.num_entities, NUM_STATISTICS)
    table.index_copy_(0, past.row * timeline.num_entities + past.o, values)
    return Activity(table.view(len(windows), timeline.num_entities, -1))


class Popularity(nn.Module):
    r"""What is added to the scores of all candidates (docs/maths.md, row M49).

    .. math:: w_r \cdot x_o + w'_r \cdot x_{ro}

    with the statistics of the entity and of (any, r, o).
    """

    def __init__(self, num_labels: int) -> None:
        super().__init__()
        self.entity = nn.Parameter(torch.zeros(num_labels, NUM_STATISTICS))
        self.label = nn.Parameter(torch.zeros(num_labels, NUM_STATISTICS))
        self.entity_shared = nn.Parameter(torch.zeros(NUM_STATISTICS))
        self.label_shared = nn.Parameter(torch.zeros(NUM_STATISTICS))

    def forward(self, partners: Partners, activity: Activity, sizes: Sequence[int], gap: float) -> Tensor:
        """(B, N)"""
        queries = partners.queries
        weight = partners.look_up(self.entity, queries.r) + self.entity_shared  # (B, F)
        parts = [part @ table.T for part, table in zip(weight.split(list(sizes)), activity.table, strict=False)]
        return torch.cat(parts) + self.by_label(partners, gap)

    def by_label(self, partners: Partners, gap: float) -> Tensor:
        """(B, N) from the statistics of (any, r, o), computed once for each (window, r)."""
        timeline, windows, queries = partners.timeline, partners.windows, partners.queries
        labels, n = 2 * timeline.num_relations, timeline.num_entities
        counted = timeline.derive(count, sort_labels, gap, self.label.dtype)
        asked, of = torch.unique(queries.window * labels + queries.r, return_inverse=True)
        window, r = asked // labels, asked % labels
        past = past_of(counted.occurrences, r, windows.known.index_select(0, window))
        t = windows.t.index_select(0, window).index_select(0, past.row)
        weight = (partners.look_up(self.label, r) + self.label_shared).index_select(0, past.row)
        value = (statistics(counted, past, t) * weight).sum(1)
        scores = value.new_zeros(len(asked) * n).index_add(0, past.row * n + past.o, value).view(-1, n)
        return scores.index_select(0, of)
