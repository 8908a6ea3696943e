"""Time zones: converts between local times and instants in UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

import numpy as np
from numpy.typing import NDArray

from tangokg.errors import DataError, UnknownName

_OFFSET = re.compile(r"([+-])([0-9]{2}):?([0-9]{2})")
FIRST, LAST = np.datetime64("0001-01-02"), np.datetime64("9999-12-30")  # within which Python can convert


@lru_cache
def find_zone(name: str) -> tzinfo:
    """The zone of an IANA name such as ``Europe/Berlin``, of ``UTC`` or of an offset ``+02:00``."""
    if name.strip().upper() in ("UTC", "Z"):
        return UTC
    if offset := _OFFSET.fullmatch(name.strip()):
        span = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
        if span < timedelta(hours=24):
            return timezone(span if offset[1] == "+" else -span)
    try:
        return ZoneInfo(name.strip())
    except (ZoneInfoNotFoundError, ValueError, OSError):
        known = available_timezones()
        hint = "Write it as Europe/Berlin, UTC or +02:00."
        missing = "" if known else " This system has no zone names: install the Python package tzdata."
        raise UnknownName("time zone", name, known, hint=hint + missing) from None


def to_local(moments: NDArray[np.datetime64], zone: tzinfo) -> NDArray[np.datetime64]:
    """Instants in UTC -> local times of ``zone``."""
    return moments if zone is UTC else moments + _offsets(moments, zone, "instants")


def to_utc(moments: NDArray[np.datetime64], zone: tzinfo) -> NDArray[np.datetime64]:
    """Local times of ``zone`` -> instants in UTC; the earlier one for an ambiguous hour."""
    return moments if zone is UTC else moments - _offsets(moments, zone, "local")


def _offsets(
    moments: NDArray[np.datetime64], zone: tzinfo, kind: Literal["instants", "local"]
) -> NDArray[np.timedelta64]:
    """The offset of the zone at each moment, looked up once for each distinct minute."""
    minutes, inverse = np.unique(np.clip(moments, FIRST, LAST).astype("datetime64[m]"), return_inverse=True)
    offsets = []
    for moment in minutes.astype("datetime64[us]").tolist():
        aware = moment.replace(tzinfo=UTC).astimezone(zone) if kind == "instants" else moment.replace(tzinfo=zone)
        offset = aware.utcoffset()
        assert offset is not None
        offsets.append(np.timedelta64(offset, "us"))
    result: NDArray[np.timedelta64] = np.array(offsets, "timedelta64[us]")[inverse.reshape(moments.shape)]
    return result


def instant(moment: datetime, zone: tzinfo) -> datetime:
    """A naive moment of ``zone`` as a naive moment in UTC."""
    if zone is UTC:
        return moment
    try:
        return moment.replace(tzinfo=zone).astimezone(UTC).replace(tzinfo=None)
    except OverflowError:
        raise DataError(f"time {moment}: it lies outside the years 1 to 9999.") from None
