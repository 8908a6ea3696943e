"""Edges as 64-bit keys, which sort as (snapshot, s, r, o) do: one sort finds all snapshots and transitions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tangokg.quads.values import Ids, Quadruples

PIECE = 2**15  # facts sorted at a time, about: their keys stay in the cache

Columns = Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]


def steps_of(t: Ids) -> tuple[Ids, Ids]:
    """The distinct times, ascending, and which of them each fact has."""
    if (t[1:] < t[:-1]).any():
        return np.unique(t, return_inverse=True)
    new = _differs(t)
    return t[new], np.cumsum(new) - 1


def _differs(column: Ids) -> NDArray[np.bool_]:
    """Where a value is not the one before it; the first is new."""
    new = np.ones(len(column), bool)
    np.not_equal(column[1:], column[:-1], out=new[1:])
    return new


def number_edges(facts: Quadruples, n: int, r_count: int, most: int) -> tuple[Ids, int, Columns]:
    """Numbers (facts, 2) of each fact and its reciprocal, how many there are, and the way back to s, r, o.

    They count all the (s, r, o) that there may be, where these are no more than ``most``; else those that occur.
    The way back uses up what it is given.
    """
    labels = 2 * r_count
    pairs = facts.s * labels + facts.r, facts.o * labels + (facts.r + r_count)
    if (span := max(n * labels * n, 1)) <= most:
        number = np.empty((len(facts), 2), np.int64)
        for way, (pair, o) in enumerate(zip(pairs, (facts.o, facts.s), strict=True)):
            np.add(pair * n, o, out=number[:, way])
        return number, span, partial(_unpack, n=max(n, 1), labels=max(labels, 1))
    pair, o = np.stack(pairs, axis=1).ravel(), np.stack([facts.o, facts.s], axis=1).ravel()
    order = np.lexsort((o, pair))
    pair, o = pair[order], o[order]
    new = _differs(pair) | _differs(o)
    number = np.empty_like(order)
    number[order] = np.cumsum(new) - 1
    tables = torch.from_numpy(pair[new]), torch.from_numpy(o[new])
    return number.reshape(-1, 2), max(len(tables[0]), 1), partial(_look_up, *tables, labels=max(labels, 1))


def _unpack(number: Tensor, n: int, labels: int) -> tuple[Tensor, Tensor, Tensor]:
    """s, r, o of ``(s labels + r) n + o``, by torch for its threads; the argument becomes s."""
    o = number.remainder(n)
    r = number.floor_divide_(n).remainder(labels)
    return number.floor_divide_(labels), r, o


def _look_up(pair: Tensor, o: Tensor, number: Tensor, labels: int) -> tuple[Tensor, Tensor, Tensor]:
    """s, r, o by tables of (s labels + r) and o."""
    pairs = pair[number]
    return pairs // labels, pairs % labels, o[number]


def sorted_distinct(keys: Ids, j: Ids) -> Ids:
    """All keys (facts, 2), ascending, each once; ``j`` is the snapshot of each fact."""
    ends = [len(j)]
    if not (j[1:] < j[:-1]).any():  # then some snapshots after the others, which stays in the cache
        ends = [*np.searchsorted(j, j[PIECE::PIECE]), *ends]
    for first, end in pairwise([0, *ends]):
        keys[first:end].ravel().sort()
    key = keys.ravel()
    return key[_differs(key)]


def change_keys(key: Ids, span: int, num_snapshots: int) -> Ids:
    """Keys of the transitions' entries, ascending. Nothing forms at the first snapshot or dissolves after the last."""
    forms = key >= 2 * span
    dissolves = key < (num_snapshots - 1) * 2 * span
    for first in range(0, len(key), PIECE):
        piece = slice(first, first + PIECE)
        later = key[piece] + 2 * span
        place = np.searchsorted(key, later).clip(max=len(key) - 1)
        goes_on = key[place] == later
        forms[place[goes_on]] = False
        dissolves[piece] &= ~goes_on
    change = np.concatenate([key[forms], key[dissolves] + 3 * span])
    change.sort(kind="stable")  # two sorted runs, which this merges
    return change
