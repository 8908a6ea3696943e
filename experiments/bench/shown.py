"""Readable figures for the terminal and the page: units by the name of the figure, tables as text cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

LEFT_OUT = ("_low", "_high")  # quartiles: in the JSON, and as bars in the plots


def cell(name: str, value: Any) -> str:
    """``0.0123`` of ``step_seconds`` -> ``12.3 ms``."""
    if value is None:
        return "-"
    if isinstance(value, str | bool):
        return str(value)
    if isinstance(value, list | tuple):
        return ", ".join(str(item) for item in value) or "-"
    if name.endswith("seconds"):
        return duration(value)
    if name.endswith("bytes"):
        return amount(value)
    if "ratio" in name or name.startswith("of_"):
        return f"{value:.3g} ×" if value < 1000 else f"{value:,.0f} ×"
    if "error" in name or "difference" in name:
        return f"{value:.1e}"
    if isinstance(value, int) or name.endswith("a_second") or value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def duration(seconds: float) -> str:
    """Three digits, in the unit that needs no zeros in front of them."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds:,.0f} {unit}" if seconds >= 1000 * size else f"{_digits(seconds / size)} {unit}"
    return f"{_digits(seconds / 1e-6)} µs"


def amount(size: float) -> str:
    """Bytes in MB or GB, of a thousand each."""
    return f"{_digits(size / 1e9)} GB" if size >= 1e9 else f"{_digits(size / 1e6)} MB"


def _digits(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def words(name: str) -> str:
    """``fast_seconds`` -> ``fast``: the cells show the units."""
    plain = name.removesuffix("_seconds").removesuffix("_bytes") if name not in ("seconds", "bytes") else "time"
    return plain.replace("_", " ")


def table(rows: Sequence[Mapping[str, Any]], names: Sequence[str] = ()) -> tuple[list[str], list[list[str]]]:
    """Headings and cells of these columns; without ``names`` of all but the quartiles."""
    columns = dict.fromkeys(key for row in rows for key in row if not key.endswith(LEFT_OUT))
    chosen = list(names or columns)
    return [words(name) for name in chosen], [[cell(name, row.get(name)) for name in chosen] for row in rows]


def markdown(headings: Sequence[str], cells: Sequence[Sequence[str]], left: int = 1) -> str:
    """A table of a page; the first ``left`` columns hold text, the others numbers."""
    rule = ["---" if place < left else "---:" for place in range(len(headings))]
    return "\n".join("| " + " | ".join(line) + " |" for line in (headings, rule, *cells))
