"""Finds the role of each table column (subject, time, ...), by heading or as the user says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tangokg.errors import DataError, UnknownName

# The first name of a role wins over the others; else two columns that fit one role are an error.
ROLES: dict[str, tuple[str, ...]] = {
    role: tuple(names.split(", "))
    for role, names in {
        "subject": "subject, s, sub, subj, head, source, src, actor1, actor 1, source name, subject name, from",
        "relation": "relation, r, rel, predicate, p, event, event text, event type, type, action, label, relation name",
        "object": "object, o, obj, tail, target, dst, actor2, actor 2, target name, object name, to",
        "time": "time, t, date, datetime, timestamp, event date, event time, day, year, ts",
        "start": "start, begin, since, valid from, start date, start time, start year, start day, begin date",
        "end": "end, until, valid to, end date, end time, end year, end day, valid until",
    }.items()
}
# Looked for only where none of the above is found.
FURTHER: dict[str, tuple[str, ...]] = {
    role: tuple(names.split(", "))
    for role, names in {
        "subject": "actor1name, actor 1 name, actor name, actor, side a",
        "relation": "eventcode, event code, type of violence",
        "object": "actor2name, actor 2 name, recipient name, recipient, side b",
        "time": "when, sqldate, month, week, quarter",
        "start": "date start",
        "end": "date end",
    }.items()
}
YEARS = ("year", "start year", "end year")  # headings that say that numbers are years

# Published tables with more columns that would fit: these are the ones to use.
RECOGNISED: dict[str, dict[str, str]] = {
    "ICEWS": {"subject": "source name", "relation": "event text", "object": "target name", "time": "event date"},
    "POLECAT": {"subject": "actor name", "relation": "event type", "object": "recipient name", "time": "event date"},
    "GDELT": {"subject": "actor1name", "relation": "eventcode", "object": "actor2name", "time": "sqldate"},
    "ACLED": {"subject": "actor1", "relation": "event type", "object": "actor2", "time": "event date"},
    "UCDP GED": {
        "subject": "side a",
        "relation": "type of violence",
        "object": "side b",
        "start": "date start",
        "end": "date end",
    },
}


def find_columns(
    columns: Sequence[str], explicit: Mapping[str, str] | None, place: str, relation: str | None = None
) -> dict[str, str]:
    """Role -> column name: ``subject, relation, object`` and either ``time`` or ``start, end``.

    If ``relation`` names the relation of all rows, it needs no column.
    """
    chosen = dict(explicit or {})
    _check_explicit(columns, chosen, tuple(ROLES), place)
    if relation is not None and "relation" in chosen:
        raise DataError(f"{place}: give one relation for all rows (--relation) or a column for it, not both.")
    timed = {"time", "start", "end"} & set(chosen)
    for role, name in format_of(columns).items():
        if not (timed and role in ("time", "start", "end")) and name not in chosen.values():
            chosen.setdefault(role, name)
    roles = [role for role in ("subject", "relation", "object") if role != "relation" or relation is None]
    for role in roles:
        if role not in chosen:
            chosen[role] = _only(role, columns, chosen, place)
    if relation is not None:
        chosen.pop("relation", None)
    return chosen | _time_columns(columns, chosen, place)


def format_of(columns: Sequence[str]) -> dict[str, str]:
    """Role -> column name of a published format that has all its columns here; nothing else."""
    plain = {fold(name): name for name in columns}
    for roles in RECOGNISED.values():
        if len(plain) == len(columns) and all(heading in plain for heading in roles.values()):
            return {role: plain[heading] for role, heading in roles.items()}
    return {}


def find_some_columns(
    columns: Sequence[str], explicit: Mapping[str, str] | None, roles: Sequence[str], place: str
) -> dict[str, str]:
    """Role -> column name for those of ``roles`` with a column, found as in :func:`find_columns`; at least one name."""
    chosen = dict(explicit or {})
    _check_explicit(columns, chosen, roles, place)
    for role in roles:
        if role not in chosen and _fitting(role, columns, chosen):
            chosen[role] = _only(role, columns, chosen, place)
    if not {"subject", "relation", "object"} & set(chosen):
        raise DataError(
            f"{place}: columns {_listed(columns)} found; expected some of {', '.join(roles)}. "
            f"Rename the columns or name them: --column subject=NAME."
        )
    return chosen


def _check_explicit(columns: Sequence[str], explicit: Mapping[str, str], roles: Sequence[str], place: str) -> None:
    """Check that column names are distinct and that the explicit ones exist."""
    for name, count in Counter(columns).items():
        if count > 1:
            raise DataError(f"{place}: {count} columns are called {name[:40]!r}: each column needs a name of its own.")
    for role, name in explicit.items():
        if role not in roles:
            raise UnknownName("column role", str(role), roles, hint=f"The roles are {', '.join(roles)}.")
        if name not in columns:
            raise UnknownName("column", str(name), columns, hint=f"{place} has {_listed(columns)}.")


def _time_columns(columns: Sequence[str], chosen: Mapping[str, str], place: str) -> dict[str, str]:
    if "time" in chosen:
        if "start" in chosen or "end" in chosen:
            raise DataError(f"{place}: give either a time column or a start and an end column, not both.")
        return {}
    if "start" in chosen or "end" in chosen:
        return {role: chosen.get(role) or _only(role, columns, chosen, place) for role in ("start", "end")}
    starts, ends = _fitting("start", columns, chosen), _fitting("end", columns, chosen)
    if not (starts and ends):
        return {"time": _only("time", columns, chosen, place)}
    if times := _fitting("time", columns, chosen):
        raise DataError(
            f"{place}: both {times[0]!r} and {starts[0]!r} may be the time of a fact. Say which: "
            f"columns={{'time': {times[0]!r}}} or columns={{'start': {starts[0]!r}, 'end': {ends[0]!r}}}."
        )
    return {role: _only(role, columns, chosen, place) for role in ("start", "end")}


def fold(name: str) -> str:
    """A heading without case, underscores and hyphens."""
    return " ".join(name.casefold().replace("_", " ").replace("-", " ").split())


def _fitting(role: str, columns: Sequence[str], chosen: Mapping[str, str]) -> list[str]:
    """The unused columns whose name fits the role; an exact match wins."""
    free = {name: fold(name) for name in columns if name not in chosen.values()}
    exact, usual, further = (
        [name for name, plain in free.items() if plain in headings]
        for headings in ((role,), ROLES[role], FURTHER[role])
    )
    return exact or usual or further


def _only(role: str, columns: Sequence[str], chosen: Mapping[str, str], place: str) -> str:
    fits = _fitting(role, columns, chosen)
    if len(fits) == 1:
        return fits[0]
    problem = f"columns {_listed(fits)} may each be the {role}" if fits else f"no column for the {role}"
    constant = " If all rows have one relation, name it: --relation NAME." if role == "relation" else ""
    raise DataError(
        f"{place}: {problem}. Found {_listed(columns)}; expected one called {', '.join(ROLES[role][:6])} or the like. "
        f"Rename the column or name it: columns={{{role!r}: '...'}}, on the command line --column {role}=NAME."
        f"{constant}"
    )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name[:40]) for name in names[:20])
    return f"{shown} and {len(names) - 20} more" if len(names) > 20 else shown or "no columns"
