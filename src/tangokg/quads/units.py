"""Finds the unit of time from the spacing of dates, and the isolated rows far from all others."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from tangokg.quads.badrows import Bools
from tangokg.quads.clock import LENGTHS, MONTHS, Clock
from tangokg.quads.times import Moments
from tangokg.quads.zones import find_zone, to_local

FEW = 4  # distinct dates below which their spacing tells nothing
MOSTLY = 0.9  # of the dates that have a spacing, one date a period: a holiday moves some
YEARS = 1000, 2200  # numbers that may be years
FAR = 20  # years between lone rows and the rest
MANY = 5  # rows at least, of which some can be lone
LONE = 1000  # at most one in so many rows is lone, or a single one
WEEKDAYS = ("Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays", "Sundays")


def choose_clock(moments: Moments, unit: str | None, timezone: str) -> tuple[Clock, str | None]:
    """The clock of a column, and the reason for its unit if none was given; dates count from the first one."""
    if not moments.dated:
        values = moments.value[~moments.missing]
        like_years = unit is None and len(values) and YEARS[0] <= values.min() and values.max() <= YEARS[1]
        return Clock(unit or "step"), "times are plain numbers; --unit year reads them as years" if like_years else None
    reason = None
    local = to_local(moments.value[~moments.missing], find_zone(timezone))
    if unit is None:
        near = local[~lone_times(local.astype("datetime64[D]").astype(np.int64), FAR * 365.25)]
        unit, why = (moments.unit, "as the times are written") if moments.unit else spacing(near)
        reason = f"one step is a {unit}: {why}; another unit is taken with --unit"
    if unit not in LENGTHS and unit not in MONTHS:
        return Clock(unit, origin="1970-01-01", timezone=timezone), reason  # raises: the unit does not fit dates
    first = local.min()
    if unit == "week":
        day = first.astype("datetime64[D]")
        first = day - (day.astype(np.int64) + 3) % 7  # a Monday
    resolution = {"week": "D", "day": "D", "hour": "h", "minute": "m", "second": "s", "year": "Y"}.get(unit, "M")
    return Clock(unit, origin=str(first.astype(f"datetime64[{resolution}]")), timezone=timezone), reason


def spacing(local: NDArray[np.datetime64]) -> tuple[str, str]:
    """The unit of the spacing of dates, and the reason."""
    days = local.astype("datetime64[D]")
    if ((local - days) != (local[0] - days[0])).any():
        return "day", "there are times of day"
    dates = distinct_counts(days.astype(np.int64))[0].astype("datetime64[D]")
    if len(dates) < FEW:
        return "day", f"{len(dates)} distinct dates show no spacing"
    number = len(dates)
    months = dates.astype("datetime64[M]")
    day, last = dates - months.astype("datetime64[D]"), (months + 1).astype("datetime64[D]") - 1
    usual, times = _usual(day.astype(np.int64))
    ends = int((dates == last).sum())
    if max(times, ends) >= MOSTLY * number and len(np.unique(months)) == number:
        which = f"day {usual + 1} of a month" if times > ends else "the last of a month"
        first = months.astype(np.int64)
        unit = next((unit for unit in ("year", "quarter") if (np.diff(first) % MONTHS[unit] == 0).all()), "month")
        suffix = "" if unit == "month" else f", whole {unit}s apart"
        count = "each" if max(times, ends) == number else f"{max(times, ends):,}"
        return unit, f"{count} of the {number:,} dates is {which}{suffix}"
    since_monday = dates.astype(np.int64) + 3
    weekday, times = _usual(since_monday % 7)
    if times >= MOSTLY * number and len(np.unique(since_monday // 7)) == number:
        count = f"all {number:,}" if times == number else f"{times:,} of the {number:,}"
        return "week", f"{count} dates are {WEEKDAYS[weekday]}"
    return "day", "the dates have no other spacing"


def _usual(values: NDArray[np.int64]) -> tuple[int, int]:
    """The most frequent value, and its count."""
    distinct, counts = np.unique(values, return_counts=True)
    return int(distinct[counts.argmax()]), int(counts.max())


def distinct_counts(t: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Distinct times in order, with their counts; by counting where that is faster than a sort."""
    low, span = int(t.min()), int(t.max()) - int(t.min())
    if span > 4 * len(t) + 1000:
        return np.unique(t, return_counts=True)
    counts = np.bincount(t - low)
    filled = np.flatnonzero(counts)
    return filled + low, counts[filled]


def lone_times(t: NDArray[np.int64], far: float) -> Bools:
    """A mask of the isolated times at either end: few, and ``far`` from the rest."""
    if len(t) < MANY or int(t.max()) - int(t.min()) < far:
        return np.zeros(len(t), bool)
    low, high = usual_bounds(*distinct_counts(t), far)
    alone: Bools = (t < low) | (t > high)
    return alone


def usual_bounds(times: NDArray[np.int64], counts: NDArray[np.int64], far: float) -> tuple[int, int]:
    """The first and the last of the distinct times that are not isolated; ``counts`` are the rows of each."""
    total = int(counts.sum())
    if total < MANY or int(times[-1]) - int(times[0]) < far:
        return (int(times[0]), int(times[-1])) if len(times) else (0, 0)
    most = max(1, total // LONE)
    gap = np.diff(times) >= far
    before = np.cumsum(counts)[:-1]
    early, late = np.flatnonzero(gap & (before <= most)), np.flatnonzero(gap & (total - before <= most))
    low = times[early[-1] + 1] if len(early) else times[0]
    high = times[late[0]] if len(late) else times[-1]
    return int(low), int(high)


def lone(t: NDArray[np.int64], clock: Clock) -> Bools:
    """A mask of the isolated facts, decades away from the rest; none if times are plain numbers."""
    if clock.origin is None:
        return np.zeros(len(t), bool)
    return lone_times(t, far_steps(clock))


def far_steps(clock: Clock) -> float:
    """The distance of lone rows, in steps."""
    if clock.unit in MONTHS:
        return FAR * 12 / MONTHS[clock.unit]
    return FAR * timedelta(days=365.25) / LENGTHS[clock.unit]
