"""Steps and calendar: how the integer times of facts correspond to dates that people write."""

from __future__ import annotations

import re
from calendar import isleap, monthrange
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property
from math import floor, isfinite

import numpy as np
from numpy.typing import NDArray

from tangokg.errors import DataError

UNITS = ("step", "second", "minute", "hour", "day", "week", "month", "year")

LENGTHS = {
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
}  # months and years are calendar units of unequal length

# A week is floored from days: numpy's own weeks begin on Thursdays.
RESOLUTIONS = {"second": "s", "minute": "m", "hour": "h", "day": "D", "week": "D", "month": "M", "year": "Y"}

FINE = 0.5  # microseconds between neighbouring floats up to which a time is told to a microsecond

EXPECTED = "an ISO date or datetime such as 2014-11-26 or 2014-11-26T18:30, a month 2014-11 or a year 2014"

_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?")
_YEAR_OR_MONTH = re.compile(r"([0-9]{4})(?:-([0-9]{2}))?")


@dataclass(frozen=True)
class Clock:
    """``t`` counts steps of one ``unit`` since ``origin``; without an origin, times are plain numbers.

    A month or a year is a calendar unit: t = 3.5 is the middle of the fourth month, however long that is. ``step`` is
    what a benchmark file counts for one step (ICEWS18: 24 for a day); its times are divided by it on reading.
    """

    unit: str
    origin: str | None = None  # ISO date or datetime of step 0
    step: int = 1

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise DataError(f"unknown time unit {self.unit!r}: expected one of {', '.join(UNITS)}.")
        if self.step < 1:
            raise DataError(f"a step of {self.step} is impossible: files count 1 or more for each {self.unit}.")
        if self.origin is not None:
            if self.unit == "step":
                raise DataError("plain steps have no origin: with dates take a calendar unit, such as 'day'.")
            _ = self._start

    @cached_property
    def _start(self) -> datetime:
        """The origin, floored to the unit."""
        origin = as_datetime(self.origin or "")
        if self.unit in ("month", "year"):
            return datetime(origin.year, 1 if self.unit == "year" else origin.month, 1)
        if self.unit in ("day", "week"):
            return datetime.combine(origin.date(), time())
        kept = {"second": 0, "minute": origin.second, "hour": origin.minute * 60 + origin.second}[self.unit]
        return origin - timedelta(seconds=kept, microseconds=origin.microsecond)

    def parse(self, value: str | int | float | date | datetime) -> float:
        """Steps since the origin, fractions included; with an origin, four digits given as text are a year."""
        if isinstance(value, str):
            text = value.strip()
            year = self.origin is not None and _YEAR_OR_MONTH.fullmatch(text)
            value = float(text) if not year and _NUMBER.fullmatch(text) else text
        if isinstance(value, int | float | np.integer | np.floating):
            return self._finite(value)
        if self.origin is None:
            raise DataError(
                f"time {str(value)!r}: the times of these facts are plain numbers, so a number is expected."
            )
        moment = as_datetime(value)
        if self.unit in LENGTHS:
            return (moment - self._start) / LENGTHS[self.unit]
        midnight = datetime(moment.year, 1 if self.unit == "year" else moment.month, 1)
        elapsed = (moment - midnight) / timedelta(days=self._days(midnight))
        return self._whole_steps(midnight) + elapsed

    def format(self, t: float) -> str:
        """The date of step ``t``: 2014-11-26, with a time of day where one is needed; a month 2014-11, a year 2014."""
        whole = float(t).is_integer()
        if self.origin is None:
            return str(int(t)) if whole else str(float(t))
        moment = self._moment(float(t))
        if whole and self.unit in ("month", "year"):
            return moment.isoformat()[: 7 if self.unit == "month" else 4]
        if self.unit in ("day", "week", "month", "year") and moment.time() == time():
            return moment.date().isoformat()
        return moment.isoformat()

    def steps(self, moments: NDArray[np.datetime64]) -> NDArray[np.int64]:
        """Whole steps since the origin, rounded down, for an array of ``datetime64``."""
        resolution = f"datetime64[{RESOLUTIONS[self.unit]}]"
        count: NDArray[np.int64] = (moments.astype(resolution) - np.datetime64(self._start).astype(resolution)).astype(
            np.int64
        )
        return count // 7 if self.unit == "week" else count

    def exact(self, moments: NDArray[np.datetime64]) -> NDArray[np.float64]:
        """Steps since the origin with their fractions, for an array of ``datetime64``."""
        t = self.steps(moments)
        begin = self._edges(t)
        share = (moments.astype("datetime64[us]") - begin) / (self._edges(t + 1) - begin)
        result: NDArray[np.float64] = np.minimum(t + share, np.nextafter(t + 1.0, t))
        return result

    def moments(self, t: NDArray[np.float64]) -> NDArray[np.datetime64]:
        """The moments of ``t`` in an array of ``datetime64[us]``: what :meth:`exact` undoes."""
        step = np.floor(t).astype(np.int64)
        begin = self._edges(step)
        length = (self._edges(step + 1) - begin).astype(np.int64)
        elapsed = (t - step) * length
        coarse = np.spacing(np.abs(t)) * length > FINE
        result: NDArray[np.datetime64] = begin + np.where(
            coarse, np.rint(elapsed / 1000) * 1000, np.rint(elapsed)
        ).astype("timedelta64[us]")
        return result

    def _edges(self, step: NDArray[np.int64]) -> NDArray[np.datetime64]:
        """The first moment of each step, as ``datetime64[us]``."""
        resolution = RESOLUTIONS[self.unit]
        start = np.datetime64(self._start).astype(f"datetime64[{resolution}]")
        edges: NDArray[np.datetime64] = (start + step * (7 if self.unit == "week" else 1)).astype("datetime64[us]")
        return edges

    def _finite(self, value: float) -> float:
        try:
            t = float(value)
        except OverflowError:
            t = float("inf")
        if not isfinite(t):
            raise DataError(f"time {value!r:.40} is not a finite number of {self.unit}s.")
        return t

    def _whole_steps(self, moment: datetime) -> int:
        """Whole months or years from the origin to ``moment``."""
        years = moment.year - self._start.year
        return years if self.unit == "year" else 12 * years + moment.month - self._start.month

    def _days(self, midnight: datetime) -> int:
        """The length of the month or year that begins at ``midnight``."""
        if self.unit == "year":
            return 366 if isleap(midnight.year) else 365
        return monthrange(midnight.year, midnight.month)[1]

    def _moment(self, t: float) -> datetime:
        try:
            if self.unit in LENGTHS:
                return self._start + _rounded(t, t, LENGTHS[self.unit])
            months = floor(t) * (12 if self.unit == "year" else 1) + self._start.month - 1
            midnight = datetime(self._start.year + months // 12, months % 12 + 1, 1)
            return midnight + _rounded(t - floor(t), t, timedelta(days=self._days(midnight)))
        except (OverflowError, ValueError):
            raise DataError(f"time {t} ({self.unit}s since {self.origin}) lies outside the years 1 to 9999.") from None


def _rounded(share: float, t: float, length: timedelta) -> timedelta:
    """``share`` steps of ``length``, to a millisecond where the float ``t`` resolves no microseconds."""
    elapsed = share * length
    if np.spacing(abs(t)) * (length / timedelta(microseconds=1)) <= FINE:
        return elapsed
    return timedelta(milliseconds=round(elapsed / timedelta(milliseconds=1)))


def as_datetime(value: str | date | datetime) -> datetime:
    """A moment in UTC without a time zone, from a date, a datetime or ISO text; a year or month is its first moment."""
    try:
        if isinstance(value, str):
            short = _YEAR_OR_MONTH.fullmatch(value.strip())
            value = datetime(int(short[1]), int(short[2] or 1), 1) if short else datetime.fromisoformat(value.strip())
        if not isinstance(value, datetime):
            return datetime.combine(value, time())
        return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    except (ValueError, TypeError, OverflowError):
        raise DataError(f"time {str(value)!r:.60} is no date: expected {EXPECTED}.") from None
