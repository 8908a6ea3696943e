"""Steps and calendar: converts between the integer times of facts and dates."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import cached_property
from math import floor, isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tangokg.errors import DataError
from tangokg.quads.zones import find_zone, instant, to_local, to_utc

UNITS = ("step", "second", "minute", "hour", "day", "week", "month", "quarter", "year")

LENGTHS = {
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
}
MONTHS = {"month": 1, "quarter": 3, "year": 12}  # calendar units of unequal length
WHOLE_DAYS = ("day", "week", *MONTHS)  # units that begin at a midnight

FINE = 0.5  # microseconds between neighbouring floats up to which a time is told to a microsecond

EXPECTED = (
    "an ISO date or datetime such as 2014-11-26 or 2014-11-26T18:30, a quarter 2014-Q4, a month 2014-11 or a year 2014"
)

_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?")
_YEAR_OR_MONTH = re.compile(r"([0-9]{4})(?:-([0-9]{2}))?")
_QUARTER = re.compile(r"([0-9]{4})[ -]?Q([1-4])|Q([1-4])[ -]?([0-9]{4})", re.IGNORECASE)
YEARS = 1000, 2999  # whole numbers that are years where steps are years
UNIX_FROM = 10**9  # whole numbers from here on are Unix seconds, or milliseconds
_COMPACT = re.compile(r"[12][0-9]{3}(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])")


@dataclass(frozen=True)
class Clock:
    """``t`` counts steps of one ``unit`` since ``origin``; without an origin, times are plain numbers.

    A month, a quarter or a year is a calendar unit: t = 3.5 is the middle of the fourth month, however long that is.
    ``step`` is what a benchmark file counts for one step (ICEWS18: 24 for a day); its times are divided by it on
    reading. Dates are those of ``timezone``, whose midnight begins a day; hours and less are counted as they pass, so
    that none is lost or doubled where clocks are changed.
    """

    unit: str
    origin: str | None = None  # ISO date or datetime of step 0
    step: int = 1
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise DataError(f"unknown time unit {self.unit!r}: expected one of {', '.join(UNITS)}.")
        if self.step < 1:
            raise DataError(f"a step of {self.step} is impossible: files count 1 or more for each {self.unit}.")
        if self.origin is not None:
            if self.unit == "step":
                raise DataError("plain steps have no origin: with dates take a calendar unit, such as 'day'.")
            _ = self._start

    def to_dict(self) -> dict[str, Any]:
        """Plain values for TOML, without defaults."""
        zone = None if self.timezone == "UTC" else self.timezone
        return {"unit": self.unit, "origin": self.origin, "step": self.step, "timezone": zone}

    @cached_property
    def zone(self) -> tzinfo:
        return find_zone(self.timezone)

    @cached_property
    def _start(self) -> datetime:
        """The origin, floored to the unit, in local time of the zone."""
        origin = as_datetime(self.origin or "", self.zone)
        if self.unit in MONTHS:
            length = MONTHS[self.unit]
            return datetime(origin.year, (origin.month - 1) // length * length + 1, 1)
        if self.unit in WHOLE_DAYS:
            return datetime.combine(origin.date(), time())
        surplus = {"second": 0, "minute": origin.second, "hour": origin.minute * 60 + origin.second}[self.unit]
        return origin - timedelta(seconds=surplus, microseconds=origin.microsecond)

    @cached_property
    def _zero(self) -> datetime:
        """Step 0 as steps are counted: on the calendar of the zone, or for hours and less as an instant in UTC."""
        return self._start if self.unit in WHOLE_DAYS else instant(self._start, self.zone)

    def parse(self, value: str | int | float | date | datetime) -> float:
        """Steps since the origin, fractions included; with an origin, four or eight digits are a year or a date."""
        if type(value) is int and self.origin is not None:
            value = self._as_meant(value)
        if isinstance(value, str):
            text = value.strip()
            dated = self.origin is not None and (_YEAR_OR_MONTH.fullmatch(text) or _COMPACT.fullmatch(text))
            value = float(text) if not dated and _NUMBER.fullmatch(text) else text
            if isinstance(value, float) and self.origin is not None and text.isdecimal():
                self._as_meant(int(text))  # refused, where it is a Unix time
        if isinstance(value, int | float | np.integer | np.floating):
            return self._finite(value)
        if self.origin is None:
            raise DataError(
                f"time {str(value)!r}: the times of these facts are plain numbers, so a number is expected."
            )
        moment = as_datetime(value, self.zone)
        if self.unit in LENGTHS:
            base = moment if self.unit in WHOLE_DAYS else instant(moment, self.zone)
            return (base - self._zero) / LENGTHS[self.unit]
        months = 12 * (moment.year - self._start.year) + moment.month - self._start.month
        step = months // MONTHS[self.unit]
        begin = self._calendar(step)
        return step + (moment - begin) / timedelta(days=self._days(step))

    def _as_meant(self, value: int) -> int | str:
        """A whole number as text where it must be a date, such as 20240101; a Unix time is an error."""
        compact = self.unit in WHOLE_DAYS and _COMPACT.fullmatch(str(value))
        if compact or (self.unit == "year" and YEARS[0] <= value <= YEARS[1]):
            return str(value)
        if UNIX_FROM <= value < 10**4 * UNIX_FROM:
            seconds = value / 1000 if value >= 1000 * UNIX_FROM else value
            shown = datetime.fromtimestamp(min(seconds, 4e9), UTC).replace(tzinfo=None).isoformat(timespec="seconds")
            raise DataError(
                f"time {value}: these facts have dates, and a number counts {self.unit}s from {self.origin}. "
                f"For Unix seconds or milliseconds give the date, such as {shown!r}."
            )
        return value

    def format(self, t: float) -> str:
        """The date of ``t``: 2014-11-26, with a time of day where one is needed; 2014-Q4, 2014-11 or 2014."""
        is_whole = float(t).is_integer()
        if self.origin is None:
            return str(int(t)) if is_whole else str(float(t))
        moment = self._moment(float(t))
        if is_whole and self.unit == "quarter":
            return f"{moment.year:04}-Q{moment.month // 3 + 1}"
        if is_whole and self.unit in MONTHS:
            return moment.isoformat()[: 7 if self.unit == "month" else 4]
        if self.unit not in WHOLE_DAYS:
            shown = moment if self.zone is UTC else moment.replace(tzinfo=UTC).astimezone(self.zone)
            return shown.isoformat()
        return moment.date().isoformat() if moment.time() == time() else moment.isoformat()

    def steps(self, moments: NDArray[np.datetime64]) -> NDArray[np.int64]:
        """Whole steps since the origin, rounded down, for an array of instants in UTC (``datetime64``)."""
        local = self._in_unit_zone(moments)
        if self.unit in LENGTHS:
            since = (local.astype("datetime64[us]") - np.datetime64(self._zero, "us")).astype(np.int64)
            return since // round(LENGTHS[self.unit] / timedelta(microseconds=1))
        months = local.astype("datetime64[M]") - np.datetime64(self._start, "M")
        return months.astype(np.int64) // MONTHS[self.unit]

    def exact(self, moments: NDArray[np.datetime64]) -> NDArray[np.float64]:
        """Steps since the origin with their fractions, for an array of instants in UTC."""
        t = self.steps(moments)
        begin, local = self._edges(t), self._in_unit_zone(moments).astype("datetime64[us]")
        if np.array_equal(begin, local):
            return t.astype(np.float64)
        share = (local - begin) / (self._edges(t + 1) - begin)
        result: NDArray[np.float64] = np.minimum(t + share, np.nextafter(t + 1.0, t))
        return result

    def moments(self, t: NDArray[np.float64]) -> NDArray[np.datetime64]:
        """The instants in UTC of ``t``, as ``datetime64[us]``: the inverse of :meth:`exact`."""
        step = np.floor(t).astype(np.int64)
        begin = self._edges(step)
        length = (self._edges(step + 1) - begin).astype(np.int64)
        elapsed = (t - step) * length
        coarse = np.spacing(np.abs(t)) * length > FINE
        rounded = np.where(coarse, np.rint(elapsed / 1000) * 1000, np.rint(elapsed))
        local: NDArray[np.datetime64] = begin + rounded.astype("timedelta64[us]")
        return to_utc(local, self.zone) if self.unit in WHOLE_DAYS else local

    def _in_unit_zone(self, moments: NDArray[np.datetime64]) -> NDArray[np.datetime64]:
        """Instants in the time scale of the unit: local time for whole days, else UTC; see ``_zero``."""
        return to_local(moments, self.zone) if self.unit in WHOLE_DAYS else moments

    def _edges(self, step: NDArray[np.int64]) -> NDArray[np.datetime64]:
        """The first moment of each step, in the time scale of the unit."""
        edges: NDArray[np.datetime64]
        if self.unit in LENGTHS:
            edges = np.datetime64(self._zero, "us") + step * np.timedelta64(LENGTHS[self.unit], "us")
        else:
            edges = (np.datetime64(self._start, "M") + step * MONTHS[self.unit]).astype("datetime64[us]")
        return edges

    def _finite(self, value: float) -> float:
        try:
            t = float(value)
        except OverflowError:
            t = float("inf")
        if not isfinite(t):
            raise DataError(f"time {value!r:.40} is not a finite number of {self.unit}s.")
        return t

    def _calendar(self, step: int) -> datetime:
        """The midnight at which a month, quarter or year begins."""
        months = step * MONTHS[self.unit] + self._start.month - 1
        return datetime(self._start.year + months // 12, months % 12 + 1, 1)

    def _days(self, step: int) -> int:
        """The length of a month, quarter or year."""
        return int((self._edges(np.array([step + 1])) - self._edges(np.array([step])))[0] / np.timedelta64(1, "D"))

    def _moment(self, t: float) -> datetime:
        try:
            if self.unit in LENGTHS:
                return self._zero + _rounded(t, t, LENGTHS[self.unit])
            return self._calendar(floor(t)) + _rounded(t - floor(t), t, timedelta(days=self._days(floor(t))))
        except (OverflowError, ValueError):
            raise DataError(f"time {t} ({self.unit}s since {self.origin}) lies outside the years 1 to 9999.") from None


def _rounded(share: float, t: float, length: timedelta) -> timedelta:
    """``share`` steps of ``length``, to a millisecond where the float ``t`` resolves no microseconds."""
    elapsed = share * length
    if np.spacing(abs(t)) * (length / timedelta(microseconds=1)) <= FINE:
        return elapsed
    return timedelta(milliseconds=round(elapsed / timedelta(milliseconds=1)))


def as_datetime(value: str | date | datetime, zone: tzinfo = UTC) -> datetime:
    """A moment in local time of ``zone``, from a date, a datetime or text; a month or year means its first moment.

    A value with an offset is converted; a value without one is taken as local time of the zone.
    """
    try:
        if isinstance(value, str):
            value = parse_date(value.strip())
        if not isinstance(value, datetime):
            return datetime.combine(value, time())
        return value.astimezone(zone).replace(tzinfo=None) if value.tzinfo else value
    except (ValueError, TypeError, OverflowError):
        raise DataError(f"time {str(value)!r:.60} is no date: expected {EXPECTED}.") from None


def parse_date(text: str) -> datetime:
    """ISO text, a quarter, a month or a year; anything else is a ValueError."""
    if short := _YEAR_OR_MONTH.fullmatch(text):
        return datetime(int(short[1]), int(short[2] or 1), 1)
    if quarter := _QUARTER.fullmatch(text):
        return datetime(int(quarter[1] or quarter[4]), 3 * int(quarter[2] or quarter[3]) - 2, 1)
    return datetime.fromisoformat(text)
