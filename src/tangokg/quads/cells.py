"""The cells of a time column -> dates or plain numbers, in any supported notation."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tangokg.errors import DataError
from tangokg.quads.badrows import Bools
from tangokg.quads.clock import EXPECTED, parse_date
from tangokg.quads.formats import format_hint, named_month, parse_format
from tangokg.quads.numbers import EARLIEST, LATEST, UNIX, Kind, recognise, unix_moments

# The unit that a text states by its form.
FORMS = {
    "year": re.compile(r"[0-9]{4}"),
    "quarter": re.compile(r"[0-9]{4}[ -]?Q[1-4]|Q[1-4][ -]?[0-9]{4}", re.IGNORECASE),
    "month": re.compile(r"[0-9]{4}-[0-9]{2}"),
    "week": re.compile(r"[0-9]{4}-?W[0-9]{2}"),
}


@dataclass(frozen=True)
class Style:
    """How times are written: the zone of those without an offset, a format, the given unit, whether years."""

    zone: tzinfo = UTC
    date_format: str | None = None
    unit: str | None = None
    years: bool = False


@dataclass(frozen=True, eq=False)
class Parsed:
    """The result of reading cells: values, a mask and reasons of wrong cells, and the notation."""

    value: NDArray[Any]
    wrong: Bools
    describe: Callable[[int], str]
    aware: bool = False
    unit: str | None = None
    notes: tuple[str, ...] = ()


def parse_cells(column: pa.ChunkedArray, role: str, style: Style) -> Parsed:
    """Read the non-empty cells, as the style says or else by their form."""
    kind = column.type
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if style.date_format in UNIX:
        return _from_unix(column, role, style.date_format)
    if style.date_format and (numeric or pa.types.is_large_string(kind)):
        return _by_format(column, role, style.date_format)
    if pa.types.is_large_string(kind):
        return _from_text(column, role, style)
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return _from_dates(column, role)
    if numeric:
        return _from_numbers(column, role, style)
    raise DataError(f"the {role} column is of type {kind}; expected whole numbers, dates or text.")


def _filled(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """An integer column as numpy, with 0 in the empty cells."""
    return np.asarray(column.fill_null(0)).astype(np.int64)


def _from_unix(column: pa.ChunkedArray, role: str, name: str) -> Parsed:
    """Read numbers that the user declared as Unix time."""
    try:
        number = np.asarray(column.cast(pa.float64() if name == "unix" else pa.int64()).fill_null(0))
    except pa.ArrowInvalid as error:
        raise DataError(f"the {role} column holds no Unix time ({error}); expected numbers.") from None
    wrong = ~(np.abs(number) < 250 * 10**9 * UNIX[name])  # years -6000 to 9900
    value = unix_moments(np.where(wrong, 0, number), UNIX[name])
    return Parsed(value, wrong, lambda row: f"{role} {number[row]} found; expected Unix time.", aware=True)


def _by_format(column: pa.ChunkedArray, role: str, text: str) -> Parsed:
    encoded = column.cast(pa.large_string()).combine_chunks().dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    moments = [parse_format(cell, text) for cell in texts]
    describe = f"found; expected a time written as {text!r}."
    return _of_distinct(texts, moments, _filled(encoded.indices), lambda cell: f"{role} {cell[:60]!r} {describe}")


def _from_dates(column: pa.ChunkedArray, role: str) -> Parsed:
    zone = column.type.tz if pa.types.is_timestamp(column.type) else None
    try:
        # Through int64, for these count from 1970 in UTC whatever the zone.
        utc = column.cast(pa.timestamp("us", zone), safe=getattr(column.type, "unit", "") != "ns")
        value = _filled(utc.cast(pa.int64())).view("datetime64[us]")
    except pa.ArrowInvalid as error:
        raise DataError(f"the {role} column holds a date out of range ({error}).") from None
    wrong = (value < np.datetime64("0001-01-01")) | (value >= np.datetime64("10000-01-01"))
    value = np.where(wrong, np.datetime64("1970-01-01", "us"), value)
    describe = f"{role} out of range found; expected a date of the years 1 to 9999."
    return Parsed(value, wrong, lambda row: describe, aware=zone is not None)


def _from_numbers(column: pa.ChunkedArray, role: str, style: Style) -> Parsed:
    valid = np.asarray(column.is_valid())
    try:
        value, integral = _filled(column.cast(pa.int64())), valid
    except pa.ArrowInvalid:
        number = np.asarray(column.cast(pa.float64()).fill_null(0.0))
        with np.errstate(invalid="ignore"):
            fits = (number >= EARLIEST) & (number < LATEST)
            integral = valid & (np.abs(number) < 2**63) & (number == np.trunc(number))
        if style.unit != "step" and 2 * int((fits & valid).sum()) >= int(valid.sum()):
            seconds = unix_moments(np.where(fits, number, 0.0), 1)
            notes = ("the numbers are read as Unix seconds",)
            return Parsed(seconds, ~fits, lambda row: _expected(role, number[row], "Unix seconds"), True, None, notes)
        value = np.where(integral, number, 0).astype(np.int64)
        return _as_dates(value, integral, role, style, lambda row: number[row])
    return _as_dates(value, integral, role, style, lambda row: value[row])


def _expected(role: str, value: Any, kind: str) -> str:
    return f"{role} {value} found; expected {kind}, as in the other rows."


def _as_dates(value: NDArray[np.int64], integral: Bools, role: str, style: Style, cell: Callable[[int], Any]) -> Parsed:
    """Read whole numbers as dates where they fit a date format, else as plain numbers."""
    as_years = style.years or style.unit == "year"
    kind: Kind | None = None if style.unit == "step" else recognise(value[integral], as_years)
    if kind is None:
        if style.unit not in (None, "step"):
            raise DataError(
                f"the {role} column holds plain numbers, such as {cell(int(np.argmax(integral)))}, which a unit of "
                f"{style.unit}s does not make dates. Leave the unit out to count in them as they are, write dates in "
                f"the column, or say how they are written: --date-format unix, or a pattern such as '%Y%m%d'."
            )
        expected = "a whole number of at most 64 bits"
        return Parsed(value, ~integral, lambda row: f"{role} {cell(row)} found; expected {expected}, as in other rows.")
    wrong = ~(integral & kind.fits(value))
    moments = kind.read(np.where(wrong, value[~wrong][0], value))
    notes = (f"the numbers are read as {kind.name}; --unit step takes them as plain numbers",)
    return Parsed(moments, wrong, lambda row: _expected(role, cell(row), kind.name), kind.aware, kind.unit, notes)


def _from_text(column: pa.ChunkedArray, role: str, style: Style) -> Parsed:
    for kind in (pa.int64(), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.float64()):
        try:
            cast = column.cast(kind)
        except pa.ArrowInvalid:
            continue
        if pa.types.is_integer(kind):
            return _from_numbers(cast, role, style)
        if pa.types.is_timestamp(kind):
            value = _filled(cast.cast(pa.int64())).view("datetime64[us]")
            no = np.zeros(len(value), bool)
            return Parsed(value, no, lambda row: "", kind.tz is not None, _stated(column))
        number = np.asarray(cast.fill_null(0.0))
        if 2 * int(((number >= EARLIEST) & (number < LATEST)).sum()) >= len(number):
            return _from_numbers(cast, role, style)
    encoded = column.combine_chunks().dictionary_encode()  # months, years, zones: by way of the distinct values
    texts = encoded.dictionary.to_pylist()
    if pattern := named_month(texts):
        return replace(_by_format(column, role, pattern), notes=(f"dates are read as {pattern!r}",))
    return _from_distinct(texts, _filled(encoded.indices), column, role, style)


def _from_distinct(
    texts: list[str], codes: NDArray[np.int64], column: pa.ChunkedArray, role: str, style: Style
) -> Parsed:
    moments = [_moment_or_none(text) for text in texts]
    if None in moments:
        numeric = np.array([_is_int64(text) for text in texts])
        digits = np.array([text.lstrip("+-").isdecimal() for text in texts])
        valid = np.asarray(column.is_valid())
        if 2 * int(digits[codes][valid].sum()) >= int(valid.sum()):
            number = np.array([int(text) if ok else 0 for text, ok in zip(texts, numeric, strict=True)], np.int64)
            return _as_dates(
                number[codes], numeric[codes] & valid, role, style, lambda row: repr(texts[codes[row]][:60])
            )
    hint = format_hint([text for text, moment in zip(texts, moments, strict=True) if moment is None])
    return _of_distinct(
        texts, moments, codes, lambda text: f"{role} {text[:60]!r} found; expected {EXPECTED}.{hint}", _stated(column)
    )


def _of_distinct(
    texts: list[str],
    moments: list[datetime | None],
    codes: NDArray[np.int64],
    describe: Callable[[str], str],
    unit: str | None = None,
) -> Parsed:
    """The moments of distinct texts in the order of the rows; those with an offset and those without do not mix."""
    aware = [moment.tzinfo is not None for moment in moments if moment]
    if len(set(aware)) > 1:
        examples = {kind: next(t for t, m in zip(texts, moments, strict=True) if m and (m.tzinfo is not None) is kind)
                 for kind in (True, False)}  # fmt: skip
        raise DataError(
            f"times with an offset ({examples[True]!r}) and without one ({examples[False]!r}) stand in one column; "
            f"expected all with, or all without, which are then those of --timezone."
        )
    plain = [_in_utc(moment) for moment in moments]
    wrong = np.array([moment is None for moment in plain])
    value = np.array([datetime(1970, 1, 1) if moment is None else moment for moment in plain], "datetime64[us]")
    return Parsed(value[codes], wrong[codes], lambda row: describe(texts[codes[row]]), any(aware), unit)


def _in_utc(moment: datetime | None) -> datetime | None:
    """The moment in UTC without its zone; None if it leaves the years 1 to 9999."""
    try:
        return moment.astimezone(UTC).replace(tzinfo=None) if moment and moment.tzinfo else moment
    except OverflowError:
        return None


def _stated(column: pa.ChunkedArray) -> str | None:
    """The unit that all texts state by their form: 2014-11 is a month."""
    first = next((text for text in column.slice(0, 1).to_pylist() if text), "")
    unit = next((unit for unit, form in FORMS.items() if form.fullmatch(first)), None)
    if unit is None:
        return None
    distinct = column.unique().to_pylist()
    return unit if all(text is None or FORMS[unit].fullmatch(text) for text in distinct) else None


def _is_int64(text: str) -> bool:
    return text[text[:1] in ("+", "-") :].isdecimal() and len(text) < 30 and -(2**63) <= int(text) < 2**63


def _moment_or_none(text: str) -> datetime | None:
    try:
        return parse_date(text)
    except ValueError:
        return None
