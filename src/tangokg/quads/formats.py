"""Dates in other forms than ISO: read by an explicit pattern, or guessed for a suggestion."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

NAMED = ("%d %B %Y", "%d %b %Y", "%B %d, %Y", "%b %d, %Y", "%d-%b-%Y")  # ACLED writes 01 January 2024
PATTERNS = tuple(
    day + clock
    for day in (
        "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y", "%d %B %Y", "%d %b %Y", "%d-%b-%Y",
        "%B %d, %Y", "%b %d, %Y", "%d.%m.%y", "%m/%d/%y", "%d/%m/%y",
    )
    for clock in ("", " %H:%M", " %H:%M:%S", " %I:%M:%S %p")
)  # fmt: skip
LOOK = 200  # distinct texts by which a pattern is guessed


def parse_format(text: str, pattern: str) -> datetime | None:
    """The moment of ``text`` by a pattern of ``strptime``; None if it does not fit."""
    try:
        return datetime.strptime(text.strip(), pattern)
    except (ValueError, OverflowError):
        return None


def named_month(texts: Sequence[str]) -> str | None:
    """The pattern with the name of a month that most texts follow, the first one included; None: there is none."""
    for pattern in NAMED:
        if texts and parse_format(texts[0], pattern):
            return pattern if sum(bool(parse_format(t, pattern)) for t in texts) > 0.5 * len(texts) else None
    return None


def format_hint(texts: Sequence[str]) -> str:
    """`` Read it with --date-format '%d.%m.%Y'.``, with all the usual patterns that fit; else nothing."""
    sample = texts[:LOOK]
    fitting = [p for p in PATTERNS if sample and all(parse_format(text, p) for text in sample)]
    quoted = " or ".join(repr(pattern) for pattern in fitting)
    return f" It can be read with --date-format {quoted}." if fitting else ""
