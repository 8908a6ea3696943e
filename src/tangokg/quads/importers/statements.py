"""Statements of Wikidata: the items that they join, their time span, and why some are unusable."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Mapping
from typing import Any, NamedTuple

START, END, POINT = "P580", "P582", "P585"  # start time, end time, point in time
YEAR, MONTH, DAY = 9, 10, 11  # precision of a time; smaller: decades and longer, greater: hours and less

_TIME = re.compile(r"([+-])(\d{4,16})-(\d\d)-(\d\d)T")

UNKNOWN = "statements whose time is not known"
EARLY = "statements with a time before the year 1"
LATE = "statements with a time after the year 9998"
COARSE = "statements with a time that is given by decades or longer"
BACKWARDS = "statements that end before they start"
UNREAD = "statements with a time that cannot be read"
PROBLEMS = (EARLY, LATE, COARSE, UNREAD)


class Span(NamedTuple):
    """The first and the last day of a time as exact as it is given."""

    first: str
    last: str


class Held(NamedTuple):
    """When a statement held: two days, the last one None where it still holds."""

    start: str
    end: str | None


def item_of(snak: Mapping[str, Any]) -> str | None:
    """The item that a statement points to; None where its value is something else, or unknown."""
    value = snak.get("datavalue") or {}
    if snak.get("snaktype") != "value" or value.get("type") != "wikibase-entityid":
        return None
    entity = value.get("value") or {}
    if entity.get("entity-type", "item") != "item":
        return None
    name = entity.get("id") or f"Q{entity['numeric-id']}"  # older dumps have the number alone
    return str(name)


def held(qualifiers: Mapping[str, Any]) -> list[Held] | str | None:
    """The spans in which a statement held, or the reason why they are unusable; None for a static statement."""
    starts, ends, points = ([_span(snak) for snak in qualifiers.get(key, ())] for key in (START, END, POINT))
    if starts or ends:
        return _interval(starts, ends)
    if not points:
        return None
    known = [span for span in points if isinstance(span, Span)]
    if known:
        return [Held(span.first, span.first) for span in known]
    return next((problem for problem in PROBLEMS if problem in points), UNKNOWN)


def _interval(starts: list[Span | str], ends: list[Span | str]) -> list[Held] | str:
    """From the first start to the last end. An end without a known start, and the reverse, is one moment of its own.

    An end that is stated to be none, like one that is not given, leaves the statement open.
    """
    for problem in PROBLEMS:
        if problem in starts or problem in ends:
            return problem
    start = min((span.first for span in starts if isinstance(span, Span)), default=None)
    end = max((span.last for span in ends if isinstance(span, Span)), default=None)
    if start is None:
        return UNKNOWN if end is None else [Held(end, end)]
    if end is None:
        return [Held(start, start if UNKNOWN in ends else None)]
    return [Held(start, end)] if start <= end else BACKWARDS


def _span(snak: Mapping[str, Any]) -> Span | str:
    """The days of a time value; a word for an unknown, missing ("novalue") or unusable one."""
    if snak.get("snaktype") != "value":
        return "none" if snak.get("snaktype") == "novalue" else UNKNOWN
    value = (snak.get("datavalue") or {}).get("value") or {}
    match = _TIME.match(str(value.get("time")))
    if match is None:
        return UNREAD
    year, month, day, precision = int(match[2]), int(match[3]), int(match[4]), value.get("precision", DAY)
    if match[1] == "-" or year == 0:
        return EARLY
    if year > 9998:
        return LATE
    if precision < YEAR:
        return COARSE
    if precision == YEAR or month == 0:
        return Span(f"{year:04}-01-01", f"{year:04}-12-31")
    if not 1 <= month <= 12:
        return UNREAD
    days = monthrange(year, month)[1]
    if precision == MONTH or day == 0:
        return Span(f"{year:04}-{month:02}-01", f"{year:04}-{month:02}-{days:02}")
    date = f"{year:04}-{month:02}-{day:02}"
    return Span(date, date) if day <= days else UNREAD
