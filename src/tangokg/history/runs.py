"""Runs of a fact that lasts: when it began, and what began since for its subject and its object (maths.md, row M60)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tangokg.history.occurrences import Occurrences, occurrences_of, sort_by
from tangokg.history.sorted_rows import Column
from tangokg.snapshots.timeline import Timeline

LONGEST_GAP = 1.5  # median gaps between two occurrences of one run


@dataclass(frozen=True, eq=False)
class Runs:
    """The run of each occurrence, in the order of :func:`occurrences_of`."""

    start: Tensor  # (E,) the time at which the run began
    number: Tensor  # (E,) runs of the fact so far
    starts: Tensor  # rows of the timeline that begin a run, ascending


def find_runs(timeline: Timeline, gap: float) -> Runs:
    """A fact that recurs within :data:`LONGEST_GAP` continues its run; after a longer gap a new run begins."""
    occurrences = occurrences_of(timeline)
    t = occurrences.times
    fresh = t.diff(prepend=t[:1]) > LONGEST_GAP * gap
    fresh[occurrences.first] = True
    begin = torch.where(fresh, torch.arange(len(t), device=t.device), 0).cummax(0).values
    total = fresh.long().cumsum(0)
    before = (total - fresh.long()).index_select(0, occurrences.first.index_select(0, occurrences.fact))
    return Runs(t.index_select(0, begin), total - before, occurrences.edge[fresh].sort().values)


def starts_of(timeline: Timeline, labelled: bool, gap: float) -> Occurrences:
    """The edges that begin a run, by s or by (s, r)."""
    group = timeline.s * (2 * timeline.num_relations) + timeline.r if labelled else timeline.s
    return sort_by(timeline, group, whole=True, rows=timeline.derive(find_runs, gap).starts)


def starts_among(edges: tuple[Column, ...], gap: float) -> NDArray[np.bool_]:
    """(E,) which of the edges s, t, back, r, o begin a run."""
    s, t, back, r, o = edges
    order = np.lexsort((t, o, r, back, s))
    fact = [column[order] for column in (s, back, r, o)]
    fresh = np.ones(len(order), dtype=bool)
    fresh[1:] = np.logical_or.reduce([np.diff(column) != 0 for column in fact])
    fresh[1:] |= np.diff(t[order]) > LONGEST_GAP * gap
    mask = np.empty_like(fresh)
    mask[order] = fresh
    return mask
