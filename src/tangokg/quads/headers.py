"""Tables without a header line: detects them by the first cells, and guesses the columns by content."""

from __future__ import annotations

from collections.abc import Sequence

from tangokg.quads.clock import parse_date
from tangokg.quads.columns import FURTHER, ROLES, fold

HEADINGS = {name for names in (*ROLES.values(), *FURTHER.values()) for name in names}
GDELT = {"subject": 6, "relation": 26, "object": 16, "time": 1}  # the files of GDELT have no header
GDELT_WIDTHS = (57, 58, 61)


def has_header(cells: Sequence[str]) -> bool:
    """Whether the first line names columns: by its known headings, or because no cell is a number or a date.

    A name in the data may be a heading by chance, so one heading beside a date is not enough.
    """
    headings = sum(fold(cell) in HEADINGS for cell in cells)
    if headings == 1:
        return not any(_is_date(cell) for cell in cells)
    return headings > 1 or not any(_is_time(cell) for cell in cells)


def guess_roles(cells: Sequence[str], names: Sequence[str], relation: str | None) -> dict[str, str]:
    """Role -> column name, guessed by order and content; empty if the cells do not fit."""
    if len(cells) in GDELT_WIDTHS and _is_date(cells[GDELT["time"]]):
        return {role: names[i] for role, i in GDELT.items() if role != "relation" or relation is None}
    roles = ["subject", "object"] if relation is not None else ["subject", "relation", "object"]
    times = [i for i, cell in enumerate(cells) if _is_date(cell)]
    if not times:
        times = [len(roles)] if len(cells) > len(roles) and _is_time(cells[len(roles)]) else []
    rest = [i for i in range(len(cells)) if i not in times]
    if len(rest) < len(roles) or len(times) not in (1, 2):
        return {}
    exact = len(rest) == len(roles) or all(_is_time(cell) for cell in cells)  # numbers may follow, as in benchmarks
    when = ["time"] if len(times) == 1 else ["start", "end"]
    places = [*zip(roles, rest, strict=False), *zip(when, times, strict=True)] if exact else []
    return {role: names[i] for role, i in places}


def _is_date(cell: str) -> bool:
    text = cell.strip()
    try:
        return len(text) > 4 and bool(parse_date(text))
    except ValueError:
        return False


def _is_time(cell: str) -> bool:
    return cell.strip().lstrip("+-").isdecimal() or _is_date(cell)
