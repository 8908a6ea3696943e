"""A column of numbers, dates or text -> moments: instants in UTC, or plain numbers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tangokg.quads.badrows import Bools, Problem
from tangokg.quads.cells import Style, parse_cells
from tangokg.quads.clock import EXPECTED
from tangokg.quads.zones import to_utc

MOST_STEPS = 2**53  # times travel as float64, exact up to here
NEVER = np.datetime64("9999-01-01")  # from here on a date stands for none


@dataclass(frozen=True, eq=False)
class Moments:
    """A time column before its clock is known; ``missing`` are cells that are empty or cannot be read."""

    value: NDArray[Any]  # whole numbers, or instants in UTC as ``datetime64[us]``
    missing: Bools
    problems: list[Problem] = field(default_factory=list)
    notes: tuple[str, ...] = ()
    unit: str | None = None  # that the form of all cells states

    @property
    def dated(self) -> bool:
        return bool(np.issubdtype(self.value.dtype, np.datetime64))

    def select(self, rows: Bools | slice) -> Moments:
        """Some of the cells, without their problems."""
        return replace(self, value=self.value[rows], missing=self.missing[rows], problems=[])


def read_moments(column: pa.ChunkedArray, role: str, style: Style) -> Moments:
    """A column of numbers, dates or text that holds them, of any Arrow type; an empty cell is a fault."""
    return _faults(_read(column, role, style), role)


def read_ends(start: pa.ChunkedArray, end: pa.ChunkedArray, style: Style) -> tuple[Moments, Moments]:
    """Starts, which are required, and ends, which are open if empty or in the year 9999."""
    if start.type != end.type:
        return read_moments(start, "start", style), _opened(_read(end, "end", style))
    # As one column, so that the year 2003 is a date where other cells are dates.
    n = len(start)
    joined = _read(pa.chunked_array([*start.chunks, *end.chunks], start.type), "start or end", style)
    problems = [[Problem(p.rows[p.rows < n], p.describe) for p in joined.problems if (p.rows < n).any()]]
    problems.append([_shifted(p, n) for p in joined.problems if (p.rows >= n).any()])
    begun, ended = (
        replace(joined.select(rows), problems=part_problems)
        for rows, part_problems in zip((slice(n), slice(n, None)), problems, strict=True)
    )
    return _faults(begun, "start"), replace(_opened(ended), notes=())


def _shifted(problem: Problem, n: int) -> Problem:
    """The problems of the second half of a column, with rows counted from its start."""
    return Problem(problem.rows[problem.rows >= n] - n, lambda row: problem.describe(row + n))


def _faults(moments: Moments, role: str) -> Moments:
    """Add problems for empty cells, placeholder dates and numbers out of range."""
    known = np.zeros(len(moments.value), bool)
    for problem in moments.problems:
        known[problem.rows] = True
    empty = Problem.where(
        moments.missing & ~known, lambda row: f"the {role} is empty; expected a whole number or {EXPECTED}."
    )
    value = moments.value
    if moments.dated:
        outside = value >= NEVER
        expected = "a date before the year 9999, which stands for no date at all"
    else:
        outside = np.abs(value) > MOST_STEPS
        expected = f"a whole number between {-MOST_STEPS} and {MOST_STEPS}"
    outside = outside & ~moments.missing
    far = Problem.where(outside, lambda row: f"{role} {_shown(value[row])} found; expected {expected}.")
    return replace(moments, problems=[*moments.problems, *empty, *far], missing=moments.missing | outside)


def _shown(value: Any) -> str:
    return str(value).removesuffix("T00:00:00.000000")


def _opened(moments: Moments) -> Moments:
    """Read ends in the year 9999 as open ends."""
    if not moments.dated:
        return moments
    return replace(moments, missing=moments.missing | (moments.value >= NEVER))


def _read(column: pa.ChunkedArray, role: str, style: Style) -> Moments:
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _read(column.cast(kind.value_type), role, style)
    if pa.types.is_large_string(kind):
        column = pc.utf8_trim_whitespace(column)
        column = pc.if_else(pc.equal(column, ""), pa.scalar(None, kind), column)
    empty = np.asarray(column.is_null())
    if pa.types.is_null(kind) or empty.all():
        return Moments(np.zeros(len(column), np.int64), np.ones(len(column), bool))
    parsed = parse_cells(column, role, style)
    value, wrong = parsed.value, parsed.wrong & ~empty
    notes = parsed.notes
    if np.issubdtype(value.dtype, np.datetime64):
        value = value.astype("datetime64[us]")
        timed = (value != value.astype("datetime64[D]"))[~empty & ~wrong].any()
        if parsed.aware:
            notes = (*notes, f"times with an offset, and Unix times, are converted to {_name(style.zone)}")
        elif timed:
            notes = (*notes, f"times without an offset are read as those of {_name(style.zone)}")
        value = value if parsed.aware else to_utc(value, style.zone)
    return Moments(value, empty | wrong, Problem.where(wrong, parsed.describe), notes, parsed.unit)


def _name(zone: tzinfo) -> str:
    return f"{'UTC' if zone is UTC else zone} (--timezone)"
