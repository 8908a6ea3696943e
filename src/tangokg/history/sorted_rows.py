"""Rows sorted by group, then time; adding rows costs their number, not the number of all rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tangokg.quads.values import Ids

Column = NDArray[Any]
Time = float | Ids  # one for all, or (M,)
LARGEST = 2**62  # of a key that still fits


@dataclass(frozen=True, eq=False)
class SortedRows:
    """Rows sorted by group, time and their columns; those of one group before a time are found by a search."""

    groups: Ids  # (G,) distinct, ascending
    times: Ids  # (T,) distinct, ascending
    key: Ids  # (E,) place of the group * T + place of the time, ascending
    columns: tuple[Column, ...]  # (E,) each

    def __len__(self) -> int:
        return len(self.key)

    def spans(self, group: Ids, since: Time, before: Time) -> tuple[Ids, Ids]:
        """Where the rows of each group (M,) with ``since <= t < before`` begin and end."""
        if not len(self):
            return np.zeros_like(group), np.zeros_like(group)
        at = np.searchsorted(self.groups, group).clip(max=len(self.groups) - 1)
        base = at * len(self.times)
        low, high = np.searchsorted(self.times, since), np.searchsorted(self.times, before)
        start, end = np.searchsorted(self.key, base + low), np.searchsorted(self.key, base + high)
        return start, np.where(self.groups[at] == group, end, start)

    def read(self, rows: Ids | slice) -> tuple[Column, ...]:
        """Group, time and columns of some rows."""
        place, of_time = np.divmod(self.key[rows], max(len(self.times), 1))
        return (self.groups[place], self.times[of_time], *(column[rows] for column in self.columns))


Layers = tuple[SortedRows, ...]


def sort_rows(group: Ids, t: Ids, columns: tuple[Column, ...], distinct: bool) -> SortedRows:
    """Sort rows by group and time; with ``distinct`` also by their columns (no negative number), and each once."""
    groups, of_group = _number(group)
    times, of_time = _number(t)
    key = of_group * len(times) + of_time
    if not distinct:
        order = slice(None) if (key[1:] >= key[:-1]).all() else np.argsort(key, kind="stable")
        return SortedRows(groups, times, key[order], tuple(column[order] for column in columns))
    order = _order(key, max(len(groups) * len(times), 1), columns)
    ordered = [column[order] for column in (key, *columns)]
    new = np.ones(len(key), bool)
    new[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in ordered])
    key, *columns_once = ordered if new.all() else [column[new] for column in ordered]
    return SortedRows(groups, times, key, tuple(columns_once))


def _order(key: Ids, room: int, columns: tuple[Column, ...]) -> Ids:
    """The order of key and columns: of one number made from all of them, where there is room for it."""
    sizes = [int(column.max(initial=0)) + 1 for column in columns]
    if room * math.prod(sizes) > LARGEST:
        return np.lexsort((*columns[::-1], key))
    for column, size in zip(columns, sizes, strict=True):
        key = key * size + column
    return np.argsort(key)


def add_rows(layers: Layers, new: SortedRows, distinct: bool) -> Layers:
    """The layers with one more. Each is less than half of the one before it: smaller neighbours are joined.

    So a row is sorted again no more than log2(E) times, and a search looks at no more than log2(E) layers.
    """
    while layers and len(layers[-1]) <= 2 * len(new):
        parts = zip(layers[-1].read(slice(None)), new.read(slice(None)), strict=True)
        group, t, *columns = (np.concatenate(part) for part in parts)
        layers, new = layers[:-1], sort_rows(group, t, tuple(columns), distinct)
    return (*layers, new) if len(new) else layers


def count_before(layers: Layers, before: float, first: int = 0, end: int = LARGEST) -> tuple[Ids, Ids, Ids]:
    """The groups ``first .. end - 1`` with rows before a time, how many each has, and the last time of each."""
    parts = [(np.zeros(0, np.int64),) * 3]
    for layer in layers:
        groups = layer.groups[slice(*np.searchsorted(layer.groups, [first, end]))]
        start, stop = layer.spans(groups, -np.inf, before)
        nonempty = stop > start
        last = layer.times[layer.key[stop[nonempty] - 1] % max(len(layer.times), 1)]
        parts.append((groups[nonempty], (stop - start)[nonempty], last))
    group, count, last = (np.concatenate(part) for part in zip(*parts, strict=True))
    distinct, of = np.unique(group, return_inverse=True)
    total, latest = np.zeros_like(distinct), np.full_like(distinct, last.min(initial=LARGEST))
    np.add.at(total, of, count)
    np.maximum.at(latest, of, last)
    return distinct, total, latest


def first_rows(*columns: Ids) -> Ids:
    """The places of distinct rows, ascending; of equal ones the first."""
    order = np.lexsort(columns)  # keeps the order of equal ones
    new = np.ones(len(order), bool)
    new[1:] = np.logical_or.reduce([np.diff(column[order]) != 0 for column in columns])
    return np.sort(order[new])


def expand(start: Ids, end: Ids) -> tuple[Ids, Ids]:
    """All numbers from each start to its end, and the range that each belongs to."""
    size = end - start
    owner = np.repeat(np.arange(len(size)), size)
    return np.arange(len(owner)) + (start - np.cumsum(size) + size)[owner], owner


def _number(values: Ids) -> tuple[Ids, Ids]:
    """Distinct values in order, and the index of each value among them; by counting where that beats a sort."""
    low = int(values.min(initial=0))
    span = int(values.max(initial=0)) - low + 1
    if span > 4 * len(values) + 1000:
        return np.unique(values, return_inverse=True)
    present = np.zeros(span, bool)
    present[values - low] = True
    distinct = np.flatnonzero(present)
    number = np.cumsum(present) - 1
    return distinct + low, number[values - low]
