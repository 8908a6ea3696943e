"""CSV, TSV, JSON lines and Parquet files, and objects with the Arrow stream interface -> quadruples."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from tangokg.errors import DataError
from tangokg.quads.addresses import is_address
from tangokg.quads.badrows import Bools, Problem, first_reports, good_rows, in_line_order, omission, refusal
from tangokg.quads.cells import Style
from tangokg.quads.clock import Clock
from tangokg.quads.columns import YEARS, find_columns, fold
from tangokg.quads.files import Source, decode_text, open_table, read_bytes
from tangokg.quads.headers import guess_roles
from tangokg.quads.intervals import backwards, check_kinds, exact_steps, expand_intervals, far_ends, whole_steps
from tangokg.quads.names import Names, as_text, number_names, read_names
from tangokg.quads.reading import TableKeywords, TableOptions
from tangokg.quads.sums import file_sums
from tangokg.quads.times import Moments, read_ends, read_moments
from tangokg.quads.units import choose_clock, lone
from tangokg.quads.values import Floats, Ids, Quadruples, exact_or_none, in_time_order
from tangokg.quads.vocabulary import Vocabulary
from tangokg.quads.zones import find_zone

__all__ = ["Source", "decode_text", "open_table", "read_bytes", "read_table"]

TIMES = {"time", "start", "end"}  # roles
COARSER = {"second": "hour", "minute": "hour", "hour": "day", "day": "month", "week": "month", "month": "year"}


@dataclass(frozen=True, eq=False)
class Times:
    """The time columns of a table, their clock, and the reason for its unit."""

    clock: Clock
    start: Moments
    end: Moments | None
    notes: tuple[str, ...]

    @property
    def problems(self) -> list[Problem]:
        if self.end is None:
            return self.start.problems
        return [*self.start.problems, *self.end.problems, *backwards(self.start, self.end, self.clock)]


def read_table(source: Any, **keywords: Unpack[TableKeywords]) -> Quadruples:
    """Dated facts of a file (a path) or a table object, sorted by time; names get ids by first appearance.

    The keywords are those of :class:`TableOptions`: ``columns`` maps the roles subject, relation, object and time (or
    start and end) to column names where these do not speak for themselves; ``unit`` is what one step of time is.
    """
    options = TableOptions(**keywords)
    with closing(open_table(source, (options.columns or {}).values())) as unread:
        chosen, notes = _choose(unread, options)
        opened = unread.read(chosen.values())
    total = len(opened.table) + len(opened.bad)
    if total == 0:
        raise DataError(f"{opened.place}: the table holds column names but no facts; expected at least one row.")
    named = _read_names(opened, chosen)
    problems = _empty_names(named)
    times = _read_times(opened, chosen, options)
    problems += times.problems
    good = good_rows(problems, len(opened.table))
    if not good.all() or opened.bad:
        reports = in_line_order([*opened.bad, *first_reports(problems, opened.locate)])
        count = total - int(good.sum())
        if not options.skip_bad or count == total:
            raise refusal(reports, count, total)
        notes += (omission(reports, count, total),)
        opened = opened.keep(good)
        named, times = _read_names(opened, chosen), _read_times(opened, chosen, options)
    files = file_sums(Path(source)) if isinstance(source, str | Path) and not is_address(source) else {}
    return replace(_facts(opened, named, times, notes, options), files=files)


def _choose(opened: Source, options: TableOptions) -> tuple[dict[str, str], tuple[str, ...]]:
    """Role -> column name; without a header line it is a guess, with a note."""
    names, explicit = opened.table.column_names, dict(options.columns or {})
    if opened.header or not len(opened.table):
        return find_columns(names, explicit, opened.place, options.relation), ()
    first = [str(column[0]).strip() for column in opened.table.columns]
    guessed = guess_roles(first, names, options.relation)
    timed = TIMES & set(explicit)
    free = {
        role: name for role, name in guessed.items() if name not in explicit.values() and not (timed and role in TIMES)
    }
    explicit = free | explicit
    if not {"subject", "object"} <= set(explicit):
        raise DataError(
            f"{opened.place}: the first line, {', '.join(map(repr, first[:6]))}, holds a number or date and no known "
            f"heading, so there seems to be no header line, and the {len(first)} columns cannot be guessed. Add a "
            f"header line, or say which they are: --column subject='column 1', and so on."
        )
    chosen = find_columns(names, explicit, opened.place, options.relation)
    roles = ", ".join(f"{name} is the {role}" for role, name in chosen.items())
    return chosen, (f"there is no header line: {roles} (--column ROLE='column N' says otherwise)",)


def _read_times(opened: Source, chosen: Mapping[str, str], options: TableOptions) -> Times:
    """The time columns; errors about a whole column name the table."""
    roles = [role for role in ("time", "start", "end") if role in chosen]
    years = all(fold(chosen[role]) in YEARS for role in roles)
    style = Style(find_zone(options.zone), options.date_format, options.unit, years)
    columns = [as_text(opened.table.column(chosen[role])) for role in roles]
    try:
        if len(columns) == 1:
            start, end = read_moments(columns[0], "time", style), None
        else:
            start, end = read_ends(columns[0], columns[1], style)
            check_kinds(start, end)
    except DataError as error:
        raise DataError(f"{opened.place}: {error}") from None
    notes = tuple(dict.fromkeys([*start.notes, *(end.notes if end else ())]))
    if start.missing.all():
        return Times(Clock(options.unit if options.unit == "step" else "step"), start, end, notes)
    clock, reason = choose_clock(_pooled(start, end), options.unit, options.zone)
    return Times(clock, start, end, notes if reason is None else (*notes, reason))


def _pooled(start: Moments, end: Moments | None) -> Moments:
    """Starts and ends as one column."""
    if end is None or end.missing.all():
        return start
    value, missing = (np.concatenate([getattr(m, name) for m in (start, end)]) for name in ("value", "missing"))
    return replace(
        start, value=value, missing=missing, problems=[], unit=start.unit if start.unit == end.unit else None
    )


def _facts(
    opened: Source, named: Mapping[str, Names], times: Times, notes: tuple[str, ...], options: TableOptions
) -> Quadruples:
    (s, o), entities = number_names([named["subject"], named["object"]])
    relations: tuple[str, ...]
    if options.relation is not None:
        r, relations = np.zeros(len(s), np.int64), (options.relation.strip(),)
    else:
        (r,), relations = number_names([named["relation"]])
    clock, start, end = times.clock, times.start, times.end
    t, exact = whole_steps(start, clock), exact_steps(start, clock)
    notes += (*times.notes, *_lone_note(opened, exact, clock))
    if end is not None:
        far = far_ends(start, end, clock)
        notes += _far_note(opened, far)
        row, t = _expand(opened, start, replace(end, missing=end.missing | far), clock)
        s, r, o = s[row], r[row], o[row]
        exact = np.maximum(t, exact[row])  # an interval begins inside its first step
        notes += _expansion_note(len(opened.table), len(t), clock)
    vocab = Vocabulary(entities, relations)
    return in_time_order(Quadruples(s, r, o, t, vocab, clock, exact_or_none(exact, t), notes))


def _expand(opened: Source, start: Moments, end: Moments, clock: Clock) -> tuple[Ids, Ids]:
    """One row for each step that a fact holds; open ends go to the last time that does not stand alone."""
    pooled = whole_steps(_pooled(start, end), clock)[~_pooled(start, end).missing]
    try:
        return expand_intervals(start, end, clock, int(pooled[~lone(pooled, clock)].max()))
    except DataError as error:
        raise DataError(f"{opened.place}: {error}") from None


def _far_note(opened: Source, far: Bools) -> tuple[str, ...]:
    """The rows whose end lies decades after all other times."""
    rows = np.flatnonzero(far)
    if not len(rows):
        return ()
    places = ", ".join(opened.locate(int(row)) for row in rows[:3]) + (", ..." if len(rows) > 3 else "")
    return (f"{len(rows):,} ends lie decades after everything else ({places}): they are taken as open",)


def _expansion_note(rows: int, facts: int, clock: Clock) -> tuple[str, ...]:
    if rows == facts:
        return ()
    fewer = COARSER.get(clock.unit)
    of = f"{rows:,} row{'' if rows == 1 else 's'}"
    note = f"{of} with a start and an end became {facts:,} facts, one for each {clock.unit}"
    return (note + (f"; a coarser unit makes fewer: --unit {fewer}" if fewer else ""),)


def _lone_note(opened: Source, exact: Floats, clock: Clock) -> tuple[str, ...]:
    """The rows that stand alone, decades from the rest, with their lines."""
    rows = np.flatnonzero(lone(np.floor(exact).astype(np.int64), clock))
    if not len(rows):
        return ()
    places = ", ".join(f"{opened.locate(int(row))} ({clock.format(float(exact[row]))})" for row in rows[:3])
    more = f" and {len(rows) - 3:,} more" if len(rows) > 3 else ""
    stands, is_kept = ("row stands", "it is") if len(rows) == 1 else ("rows stand", "they are")
    return (
        f"{len(rows):,} {stands} alone, decades from the rest: {places}{more}; {is_kept} kept, and ignored for the "
        f"unit, the parts and the time asked for by default",
    )


def _read_names(opened: Source, chosen: Mapping[str, str]) -> dict[str, Names]:
    roles = [role for role in ("subject", "relation", "object") if role in chosen]
    return {role: read_names(opened.table.column(chosen[role]), role, chosen[role], opened.place) for role in roles}


def _empty_names(named: Mapping[str, Names]) -> list[Problem]:
    """The rows without a subject, relation or object."""
    problems: list[Problem] = []
    for role, names in named.items():
        report = f"the {role} is empty; expected a name. Fill it in or take the row out."
        problems += Problem.where(names.code < 0, lambda row, report=report: report)  # type: ignore[misc]
    return problems
