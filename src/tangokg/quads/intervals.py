"""Facts with a start and an end -> one fact for each step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tangokg.errors import DataError
from tangokg.quads.badrows import Bools, Problem
from tangokg.quads.clock import Clock
from tangokg.quads.times import Moments
from tangokg.quads.units import far_steps, lone

MOST_FACTS = 50_000_000  # an expansion beyond this is taken for a mistake


def whole_steps(moments: Moments, clock: Clock) -> NDArray[np.int64]:
    """Steps of ``clock``; a moment inside a step belongs to that step."""
    return clock.steps(moments.value) if moments.dated else moments.value.astype(np.int64, copy=False)


def exact_steps(moments: Moments, clock: Clock) -> NDArray[np.float64]:
    """Steps of ``clock`` with their fractions."""
    return clock.exact(moments.value) if moments.dated else moments.value.astype(np.float64)


def check_kinds(start: Moments, end: Moments) -> None:
    """Both columns hold dates, or both numbers."""
    if start.dated != end.dated and not end.missing.all():
        kinds = ("dates", "numbers") if start.dated else ("numbers", "dates")
        raise DataError(f"starts are {kinds[0]} but ends are {kinds[1]}: expected both of one kind.")


def backwards(start: Moments, end: Moments, clock: Clock) -> list[Problem]:
    """The rows whose end lies before their start."""
    present = ~end.missing & ~start.missing
    if not present.any():
        return []
    first, last = whole_steps(start, clock), whole_steps(end, clock)
    return Problem.where(
        present & (last < first),
        lambda row: (
            f"the end {clock.format(float(last[row]))} lies before the start {clock.format(float(first[row]))}; "
            f"expected the same or a later time."
        ),
    )


def far_ends(start: Moments, end: Moments, clock: Clock) -> Bools:
    """A mask of ends decades after the last start and all other ends: too far ahead to be known."""
    far = np.zeros(len(end.value), bool)
    if clock.origin is None or end.missing.all():
        return far
    first, last = whole_steps(start, clock), whole_steps(end, clock)
    times = np.unique(np.append(last[~end.missing], first[~lone(first, clock)].max()))
    times = times[times >= first[~lone(first, clock)].max()]
    gaps = np.flatnonzero(np.diff(times) >= far_steps(clock))
    return far if not len(gaps) else ~end.missing & (last > times[gaps[0]])


def expand_intervals(
    start: Moments, end: Moments, clock: Clock, final: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """``(row, t)``: each row once for every step from its start to its end, which if open is ``final``."""
    first = whole_steps(start, clock)
    last = np.maximum(first, final)
    present = ~end.missing
    if present.any():
        last[present] = whole_steps(end, clock)[present]
    length = last - first + 1
    if length.sum(dtype=np.float64) > MOST_FACTS:
        raise DataError(
            f"facts with a start and an end become one fact for each {clock.unit} they hold, here "
            f"{length.sum(dtype=np.float64):,.0f} and more than {MOST_FACTS:,}. Take a coarser unit, such as 'year'."
        )
    rows = np.repeat(np.arange(len(first)), length)
    return rows, np.arange(len(rows)) - np.repeat(np.cumsum(length) - length - first, length)
