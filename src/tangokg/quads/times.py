"""A column of numbers, dates or text -> whole steps of a clock; facts with a start and an end -> one for each step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tangokg.errors import DataError
from tangokg.quads.clock import EXPECTED, RESOLUTIONS, Clock, as_datetime

MOST_FACTS = 50_000_000  # an expansion beyond this is taken for a mistake
MOST_STEPS = 2**53  # times travel as float64, exact up to here

Locate = Callable[[int], str]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Moments:
    """A time column before its clock is known: whole numbers or ``datetime64[us]``, and where a cell is empty."""

    value: NDArray[Any]
    empty: Bools

    @property
    def dated(self) -> bool:
        return bool(np.issubdtype(self.value.dtype, np.datetime64))


def read_moments(column: pa.ChunkedArray, role: str, locate: Locate) -> Moments:
    """A full column of numbers, dates or datetimes of any Arrow type, or of text that holds them."""
    moments = _read_moments(column, role, locate)
    if moments.empty.any():
        row = int(np.argmax(moments.empty))
        raise DataError(f"{locate(row)}: the {role} is empty; expected a whole number or {EXPECTED}.")
    return moments


def read_ends(start: pa.ChunkedArray, end: pa.ChunkedArray, locate: Locate) -> tuple[Moments, Moments]:
    """Starts, which must be there, and ends, which may be empty."""
    if not (pa.types.is_large_string(start.type) and pa.types.is_large_string(end.type)):
        return read_moments(start, "start", locate), _read_moments(end, "end", locate)
    # Text is read as one column, so that the year 2003 is a date where other cells are dates.
    n = len(start)
    both = pa.chunked_array([*start.chunks, *end.chunks], start.type)
    moments = _read_moments(both, "start or end", lambda row: locate(row % n))
    begun, ended = (Moments(moments.value[rows], moments.empty[rows]) for rows in (slice(n), slice(n, None)))
    if begun.empty.any():
        raise DataError(f"{locate(int(np.argmax(begun.empty)))}: the start is empty; expected a time in each row.")
    return begun, ended


def _read_moments(column: pa.ChunkedArray, role: str, locate: Locate) -> Moments:
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _read_moments(column.cast(kind.value_type), role, locate)
    if pa.types.is_large_string(kind):
        column = pc.utf8_trim_whitespace(column)
        column = pc.if_else(pc.equal(column, ""), pa.scalar(None, kind), column)
    empty = np.asarray(column.is_null())
    if pa.types.is_null(kind) or empty.all():
        return Moments(np.zeros(len(column), np.int64), np.ones(len(column), bool))
    if pa.types.is_large_string(kind):
        value = _from_text(column, role, locate)
    elif pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        value = _from_dates(column, role, locate)
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        value = _from_numbers(column, role, locate)
    else:
        raise DataError(f"{locate(0)}: the {role} column is of type {kind}; expected whole numbers, dates or text.")
    _check_range(value, empty, role, locate)
    return Moments(value, empty)


def _filled(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """An integer column as numpy, with 0 in the empty cells."""
    return np.asarray(column.fill_null(0)).astype(np.int64)


def _from_numbers(column: pa.ChunkedArray, role: str, locate: Locate) -> NDArray[np.int64]:
    try:
        return _filled(column.cast(pa.int64()))
    except pa.ArrowInvalid:
        row, value = next((i, v) for i, v in enumerate(column.to_pylist()) if v is not None and not _is_step(v))
        raise DataError(f"{locate(row)}: {role} {value} found; expected a whole number of at most 64 bits.") from None


def _is_step(value: float) -> bool:
    return abs(value) < 2**63 and value == int(value)  # the first fails for nan and inf


def _from_dates(column: pa.ChunkedArray, role: str, locate: Locate) -> NDArray[np.datetime64]:
    zone = column.type.tz if pa.types.is_timestamp(column.type) else None
    try:
        # Through int64, for these count from 1970 in UTC whatever the zone.
        utc = column.cast(pa.timestamp("us", zone), safe=getattr(column.type, "unit", "") != "ns")
        return _filled(utc.cast(pa.int64())).view("datetime64[us]")
    except pa.ArrowInvalid as error:
        raise DataError(f"{locate(0)}: the {role} column holds a date out of range ({error}).") from None


def _from_text(column: pa.ChunkedArray, role: str, locate: Locate) -> NDArray[np.int64] | NDArray[np.datetime64]:
    for kind in (pa.int64(), pa.timestamp("us")):
        try:
            value = _filled(column.cast(kind).cast(pa.int64()))
            return value if kind == pa.int64() else value.view("datetime64[us]")
        except pa.ArrowInvalid:
            continue
    encoded = column.combine_chunks().dictionary_encode()  # months, years, zones: by way of the distinct values
    texts = encoded.dictionary.to_pylist()
    moments = [_moment_or_none(text) for text in texts]
    codes = _filled(encoded.indices)
    if None in moments:
        numeric = [text.lstrip("+-").isdecimal() for text in texts]
        number = 2 * sum(numeric) >= len(texts)
        good = [_is_int64(text) for text in texts] if number else [moment is not None for moment in moments]
        row = int(np.flatnonzero(~np.asarray(good)[codes] & np.asarray(column.is_valid()))[0])
        expected = "a whole number of at most 64 bits, as in the other rows" if number else EXPECTED
        raise DataError(f"{locate(row)}: {role} {texts[codes[row]][:60]!r} found; expected {expected}.")
    return np.array(moments, "datetime64[us]")[codes]


def _is_int64(text: str) -> bool:
    return text.lstrip("+-").isdecimal() and len(text) < 30 and -(2**63) <= int(text) < 2**63


def _moment_or_none(text: str) -> datetime | None:
    try:
        return as_datetime(text)
    except DataError:
        return None


def _check_range(value: NDArray[Any], empty: Bools, role: str, locate: Locate) -> None:
    low: Any
    high: Any
    if np.issubdtype(value.dtype, np.datetime64):
        low, high, expected = np.datetime64("0001-01-01"), np.datetime64("9999-12-31"), "a date of the years 1 to 9999"
    else:
        low, high, expected = -MOST_STEPS, MOST_STEPS, f"a whole number between {-MOST_STEPS} and {MOST_STEPS}"
    outside = ((value < low) | (value > high)) & ~empty
    if outside.any():
        row = int(np.argmax(outside))
        raise DataError(f"{locate(row)}: {role} {value[row]} found; expected {expected}.")


def clock_for(moments: Moments, unit: str | None) -> Clock:
    """Dates count from the first one, by default in days; numbers keep their values."""
    if not moments.dated:
        return Clock(unit or "step")
    unit = unit or "day"
    if unit not in RESOLUTIONS:
        return Clock(unit, origin="1970-01-01")  # raises: the unit does not fit dates
    first = moments.value[~moments.empty].min()
    return Clock(unit, origin=str(first.astype(f"datetime64[{RESOLUTIONS[unit]}]")))


def whole_steps(moments: Moments, clock: Clock) -> NDArray[np.int64]:
    """Steps of ``clock``, a moment inside a step counting to it."""
    return clock.steps(moments.value) if moments.dated else moments.value.astype(np.int64, copy=False)


def exact_steps(moments: Moments, clock: Clock) -> NDArray[np.float64]:
    """Steps of ``clock`` with their fractions."""
    return clock.exact(moments.value) if moments.dated else moments.value.astype(np.float64)


def expand_intervals(
    start: Moments, end: Moments, clock: Clock, locate: Locate
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """``(row, t)``: each row once for every step from its start to its end, both included; an empty end is open."""
    if start.dated != end.dated and not end.empty.all():
        row = int(np.argmin(end.empty))
        kinds = ("dates", "numbers") if start.dated else ("numbers", "dates")
        raise DataError(f"{locate(row)}: starts are {kinds[0]} but ends are {kinds[1]}: expected both of one kind.")
    first = whole_steps(start, clock)
    last = first.copy()
    given = ~end.empty
    if given.any():
        last[given] = whole_steps(end, clock)[given]
    last[end.empty] = max(first.max(), last[given].max(initial=first.max()))
    if (last < first).any():
        row = int(np.argmax(last < first))
        raise DataError(
            f"{locate(row)}: the end {clock.format(float(last[row]))} lies before the start "
            f"{clock.format(float(first[row]))}; expected the same or a later time."
        )
    length = last - first + 1
    if length.sum(dtype=np.float64) > MOST_FACTS:
        raise DataError(
            f"{locate(0)}: facts with a start and an end become one fact for each {clock.unit} they hold, here "
            f"{length.sum(dtype=np.float64):,.0f} and more than {MOST_FACTS:,}. Take a coarser unit, such as 'year'."
        )
    rows = np.repeat(np.arange(len(first)), length)
    return rows, np.arange(len(rows)) - np.repeat(np.cumsum(length) - length - first, length)
