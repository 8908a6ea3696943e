"""All events of each group in a few numbers; adding events costs only their number."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from tangokg.history.runs import starts_among
from tangokg.history.sorted_rows import Column
from tangokg.history.statistics import describe, scales
from tangokg.quads.values import Floats, Ids

LABELS = 2**32  # more than there are relations


@dataclass(frozen=True, eq=False)
class EventTotals:
    """The events of every entity, or of every entity with every label, until the end of a history that grows."""

    labelled: bool
    gap: float
    layers: tuple[Totals, ...] = ()

    @cached_property
    def scale(self) -> Floats:
        return scales(self.gap, torch.device("cpu")).numpy()

    def add(self, edges: tuple[Column, ...]) -> EventTotals:
        """With further edges s, t, back, r, o."""
        s, t, back, r, _ = edges
        group = _role(s, back.astype(np.int64), r.astype(np.int64)) if self.labelled else s
        return replace(self, layers=add_totals(self.layers, total(group, t, self.scale), self.scale))

    def statistics(
        self, entity: Tensor, label: Tensor | None, t: Tensor, num_relations: int, dtype: torch.dtype
    ) -> Tensor:
        """(Y, F) at time ``t`` (Y,); zeros where nothing happened."""
        group = entity.cpu().numpy()
        if label is not None:
            group = _role(group, *np.divmod(label.cpu().numpy(), num_relations))
        totals = look_up(self.layers, group, self.scale)
        columns = (totals.left, totals.count, totals.first, totals.last, self.scale)
        left, count, first, last, scale = (torch.from_numpy(column).to(t.device) for column in columns)
        features = describe(left.to(dtype), count, first, last, t, scale, self.gap)
        return torch.where((count > 0)[:, None], features, 0.0)


def total_events(edges: tuple[Column, ...], labelled: bool, starts: bool, gap: float) -> EventTotals:
    """The totals of edges s, t, back, r, o, or of those alone that begin a run."""
    if starts:
        begin = starts_among(edges, gap)
        edges = tuple(column[begin] for column in edges)
    return EventTotals(labelled, gap).add(edges)


def _role(entity: Ids, back: Ids, r: Ids) -> Ids:
    """Entity and label as one number, which does not change when relations are added."""
    return (2 * entity + back) * LABELS + r


@dataclass(frozen=True, eq=False)
class Totals:
    """For each group of events: their count, first and last time, and decayed sums at the last time."""

    group: Ids  # (G,) distinct, ascending
    count: Ids  # (G,)
    first: Floats  # (G,)
    last: Floats  # (G,)
    left: Floats  # (G, K), each event 1 at its own time, decayed with K scales

    def __len__(self) -> int:
        return len(self.group)


def total(group: Ids, t: Ids, scale: Floats) -> Totals:
    """The totals of events; ``scale`` (K,) in the unit of ``t``."""
    ones = Totals(group, np.ones_like(group), t.astype(float), t.astype(float), np.ones((len(group), len(scale))))
    return _sum(ones, scale)


def add_totals(layers: tuple[Totals, ...], new: Totals, scale: Floats) -> tuple[Totals, ...]:
    """The layers with one more; each is less than half of the one before it: smaller neighbours are joined."""
    while layers and len(layers[-1]) <= 2 * len(new):
        layers, new = layers[:-1], _sum(_concatenate((layers[-1], new)), scale)
    return (*layers, new) if len(new) else layers


def look_up(layers: tuple[Totals, ...], group: Ids, scale: Floats) -> Totals:
    """The totals of some groups (Y,), which may repeat; a count of 0 where nothing happened."""
    size = len(group)
    totals = Totals(group, np.zeros(size, np.int64), np.zeros(size), np.zeros(size), np.zeros((size, len(scale))))
    for layer in layers:
        at = np.searchsorted(layer.group, group).clip(max=len(layer) - 1)
        rows = np.flatnonzero(layer.group[at] == group)
        at, known = at[rows], totals.count[rows] > 0
        first, last = layer.first[at], layer.last[at]
        latest = np.where(known, np.maximum(totals.last[rows], last), last)
        left = layer.left[at]
        if known.any():
            age, other = (latest - np.where(known, x, latest) for x in (last, totals.last[rows]))
            left = left * np.exp(-age[:, None] / scale) + totals.left[rows] * np.exp(-other[:, None] / scale)
        totals.left[rows] = left
        totals.first[rows] = np.where(known, np.minimum(totals.first[rows], first), first)
        totals.last[rows] = latest
        totals.count[rows] += layer.count[at]
    return totals


def _concatenate(parts: tuple[Totals, ...]) -> Totals:
    columns = zip(*((x.group, x.count, x.first, x.last, x.left) for x in parts), strict=True)
    return Totals(*(np.concatenate(part) for part in columns))


def _sum(rows: Totals, scale: Floats) -> Totals:
    """Rows of equal groups joined."""
    if not len(rows):
        return rows
    step = np.diff(rows.group)
    if (step > 0).all():
        return rows
    order = slice(None) if (step >= 0).all() else np.argsort(rows.group, kind="stable")
    group, last = rows.group[order], rows.last[order]
    fresh = np.ones(len(group), bool)
    fresh[1:] = group[1:] != group[:-1]
    start = np.flatnonzero(fresh)
    latest = np.maximum.reduceat(last, start)
    age = latest[np.cumsum(fresh) - 1] - last
    left = rows.left[order] * np.exp(-age[:, None] / scale)
    return Totals(
        group[start],
        np.add.reduceat(rows.count[order], start),
        np.minimum.reduceat(rows.first[order], start),
        latest,
        np.add.reduceat(left, start, axis=0),
    )
