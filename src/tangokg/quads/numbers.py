"""Numbers that are dates: compact ones such as 20240101, and Unix time in seconds or less."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Bools = NDArray[np.bool_]
Dates = NDArray[np.datetime64]

UNIX = {"unix": 1, "unix-ms": 10**3, "unix-us": 10**6, "unix-ns": 10**9}  # how many make a second
EARLIEST, LATEST = 10**8, 42 * 10**8  # seconds: 1973 to 2103; what lies outside is taken for a plain number
NEVER = 99991231  # a compact date that stands for none


@dataclass(frozen=True)
class Kind:
    """A way to write dates as whole numbers."""

    name: str
    fits: Callable[[Numbers], Bools]
    read: Callable[[Numbers], Dates]
    aware: bool = False
    unit: str | None = None  # of the calendar, which the form itself states


def unix_moments(value: NDArray[np.int64] | NDArray[np.float64], per_second: int) -> Dates:
    """Unix time -> ``datetime64[us]`` in UTC."""
    if per_second > 10**6:
        micros = value // (per_second // 10**6)
    else:
        micros = np.rint(value * (10**6 // per_second)) if value.dtype.kind == "f" else value * (10**6 // per_second)
    return micros.astype(np.int64).view("datetime64[us]")


def _unix(name: str, per_second: int) -> Kind:
    def fits(value: Numbers) -> Bools:
        return (value >= EARLIEST * per_second) & (value < LATEST * per_second)

    return Kind(name, fits, lambda value: unix_moments(value, per_second), aware=True)


def _split(value: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    return value // 10_000, value // 100 % 100, value % 100


def _dates(value: Numbers) -> Dates:
    """The date of YYYYMMDD; any date for other numbers."""
    year, month, day = _split(value)
    months = (year - 1970) * 12 + np.clip(month, 1, 12) - 1
    first = months.astype("datetime64[M]").astype("datetime64[D]")
    dates: Dates = first + (np.clip(day, 1, 31) - 1).astype("timedelta64[D]")
    return dates


def _is_date(value: Numbers) -> Bools:
    year, month, day = _split(value)
    inside = (year >= 1000) & (year < 3000) & (month >= 1) & (month <= 12) & (day >= 1)
    exists = _dates(value).astype("datetime64[M]").astype(np.int64) == (year - 1970) * 12 + month - 1
    result: Bools = (inside & (day <= 31) & exists) | (value == NEVER)
    return result


def _stamp(clock: int) -> Kind:
    """YYYYMMDDHHMM or YYYYMMDDHHMMSS; ``clock`` is the factor of the day."""

    def hms(value: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        rest = value % clock
        return (
            (rest // 10_000, rest // 100 % 100, rest % 100) if clock == 10**6 else (rest // 100, rest % 100, rest * 0)
        )

    def fits(value: Numbers) -> Bools:
        hour, minute, second = hms(value)
        return _is_date(value // clock) & (hour < 24) & (minute < 60) & (second < 60)

    def read(value: Numbers) -> Dates:
        hour, minute, second = hms(value)
        seconds = (hour * 3600 + minute * 60 + second).astype("timedelta64[s]")
        moments: Dates = _dates(value // clock).astype("datetime64[s]") + seconds
        return moments

    return Kind("dates and times without separators", fits, read)


def _is_month(value: Numbers) -> Bools:
    return (value >= 180001) & (value < 210001) & (value % 100 >= 1) & (value % 100 <= 12)


def _is_year(value: Numbers) -> Bools:
    return (value >= 1000) & (value < 3000)


KINDS = (
    Kind("dates YYYYMMDD", _is_date, _dates),
    Kind("months YYYYMM", _is_month, lambda value: _dates(value * 100 + 1), unit="month"),
    _stamp(10**4),
    _stamp(10**6),
    _unix("Unix seconds", 1),
    _unix("Unix milliseconds", 10**3),
    _unix("Unix microseconds", 10**6),
    _unix("Unix nanoseconds", 10**9),
)
YEARS = Kind("years", _is_year, lambda value: _dates(value * 10_000 + 101), unit="year")


def recognise(value: Numbers, years: bool = False) -> Kind | None:
    """The date format of at least half of the numbers, or None for plain numbers; years only if they are expected."""
    for kind in (*KINDS, *([YEARS] if years else [])):
        if len(value) and 2 * int(kind.fits(value).sum()) >= len(value):
            return kind
    return None
