"""Chronological parts, half open in time, and thinning to irregular times."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import date, datetime

import numpy as np
from numpy.typing import NDArray

from tangokg.errors import DataError
from tangokg.quads.units import distinct_counts, lone
from tangokg.quads.values import Dataset, Ids, Quadruples


def split(facts: Quadruples, train: float = 0.8, valid: float = 0.1, *, name: str = "events") -> Dataset:
    """Cut at the times nearest to the shares of facts; the rest is the test part, and no time stands in two parts.

    A part with a positive share gets at least one time where there are enough of them, ``train`` first, then ``test``.
    """
    if not (0 < train <= 1 and 0 <= valid <= 1 and train + valid <= 1 + 1e-9):
        raise DataError(
            f"shares train={train}, valid={valid} found; expected 0 < train, 0 <= valid and train + valid <= 1."
        )
    if len(facts) == 0:
        raise DataError("there are no facts to split: the training part would be empty.")
    times, counts = distinct_counts(facts.usual.t)
    share = np.concatenate([[0.0], np.cumsum(counts) / counts.sum()])  # of the facts before each border
    testing = int(train + valid < 1 - 1e-9)
    first = min(max(_nearest(share, train), 1), max(1, len(times) - testing - int(valid > 0)))
    second = min(max(_nearest(share, train + valid), first + int(valid > 0)), max(first, len(times) - testing))
    borders = np.concatenate([times, [times[-1] + 1]])
    return _cut(facts, float(borders[first]), float(borders[second]), name)


def split_at(
    facts: Quadruples,
    valid_from: str | float | date | datetime,
    test_from: str | float | date | datetime,
    *,
    name: str = "events",
) -> Dataset:
    """Train before ``valid_from``, test from ``test_from`` on, validation between; each a date or a number of steps.

    A step is whole: the one that holds a date, such as the week of a Wednesday, is the first of the later part.
    """
    first, second = (float(math.floor(facts.clock.parse(cut))) for cut in (valid_from, test_from))
    if second < first:
        raise DataError(f"the test part would begin at {test_from}, before the validation part at {valid_from}.")
    if not (facts.usual.t < first).any():
        raise DataError(f"no fact lies before {valid_from}: the training part would be empty. Take a later date.")
    return _cut(facts, first, second, name)


def split_tgb(facts: Quadruples, valid: float = 0.15, test: float = 0.15, *, name: str = "events") -> Dataset:
    """The parts of the Temporal Graph Benchmark: cut at quantiles of the times of all facts, each in both directions.

    A quantile belongs to the earlier part. Facts decades away from the rest are in the parts too, unlike in
    :func:`split`. tkgl-yago has 0.1 and 0.1, all other sets 0.15 and 0.15.
    """
    if not (valid >= 0 and test >= 0 and valid + test < 1):
        raise DataError(f"shares valid={valid}, test={test} found; expected two from 0 on that add up to less than 1.")
    if len(facts) == 0:
        raise DataError("there are no facts to split: the training part would be empty.")
    first, second = np.quantile(np.concatenate([facts.t, facts.t]), [1 - valid - test, 1 - test])
    early, late = facts.t <= first, facts.t > second
    empty = [part for part, rows in (("validation", ~early & ~late), ("test", late)) if not rows.any()]
    notes = facts.notes + tuple(f"the {part} part is empty by the split of TGB: too few times" for part in empty)
    if facts.exact is not None and len(np.unique(facts.exact)) > len(np.unique(facts.t)):
        notes += ("several times of TGB fall into one step: a smaller --unit keeps them apart",)
    train, middle, last = (facts.select(rows) for rows in (early, ~early & ~late, late))
    return Dataset(train, middle, last, name, notes, files=facts.files)


def thin(facts: Quadruples, seed: int, longest: int = 4) -> Quadruples:
    """Keep the facts of some observed times, their gaps drawn uniformly from 1 to ``longest`` observed steps."""
    return facts.select(np.isin(facts.t, _thinned_times(facts.t, seed, longest)))


def thin_dataset(dataset: Dataset, seed: int, longest: int = 4) -> Dataset:
    """The three parts thinned as one timeline; each keeps its range of time."""
    kept = _thinned_times(dataset.facts.t, seed, longest)
    train, valid, test = (p.select(np.isin(p.t, kept)) for p in (dataset.train, dataset.valid, dataset.test))
    return replace(dataset, train=train, valid=valid, test=test, name=f"{dataset.name}-thinned")


def _nearest(share: NDArray[np.float64], target: float) -> int:
    return int(np.argmin(np.abs(share - target)))


def _cut(facts: Quadruples, first: float, second: float, name: str) -> Dataset:
    """The three parts; facts that stand alone, decades away, are known before or after them and belong to none."""
    alone = lone(facts.t, facts.clock)
    near = facts.select(~alone)
    t = near.t
    train, valid, test = (near.select(rows) for rows in (t < first, (first <= t) & (t < second), t >= second))
    outer = (facts.select(alone & (facts.t < t.min())), facts.select(alone & (facts.t > t.max())))
    before, after = (part if len(part) else None for part in outer)
    return Dataset(train, valid, test, name, facts.notes, before, after, facts.files)


def _thinned_times(t: Ids, seed: int, longest: int) -> Ids:
    if longest < 1:
        raise DataError(f"a longest gap of {longest} found; expected 1 or more observed steps.")
    times = np.unique(t)
    gaps = np.random.default_rng(seed).integers(1, longest, size=len(times), endpoint=True)
    position = np.cumsum(gaps) - gaps[:1]  # the first observed time is always kept
    kept: Ids = times[position[position < len(times)]]
    return kept
