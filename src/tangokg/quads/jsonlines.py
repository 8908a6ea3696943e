"""JSON lines -> a table: one object on each line."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from tangokg.errors import DataError


def read_json_lines(text: str, place: str) -> tuple[pa.Table, list[int], list[str]]:
    """The table, the line of each row, and reports of the lines that are not objects."""
    rows: list[dict[str, Any]] = []
    lines: list[int] = []
    bad: list[str] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        record = _object(line)
        if isinstance(record, str):
            bad.append(f"{place}:{number}: {record}")
        else:
            rows.append(record)
            lines.append(number)
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pa.table({name: _column([row.get(name) for row in rows]) for name in names}), lines, bad


def is_json_lines(text: str, place: str) -> bool:
    """Whether a text begins as JSON lines do; one JSON array is told apart."""
    first = text.lstrip()[:1]
    if first == "[" and place.casefold().removesuffix(".gz").endswith("json"):
        raise DataError(f"{place}: this is one JSON array; expected JSON lines: one object on each line.")
    return first == "{"


def _object(line: str) -> dict[str, Any] | str:
    """The object of a line, or a report of the fault."""
    try:
        value = json.loads(line)
        line.encode()
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        return f"no JSON ({error}); expected one object."
    return value if isinstance(value, dict) else f"{line.strip()[:40]!r} found; expected one JSON object."


def _column(cells: list[Any]) -> pa.Array:
    """Whole numbers as such, everything else as text; null is an empty cell."""
    values = [cell for cell in cells if cell is not None]
    if values and all(type(cell) is int and abs(cell) < 2**63 for cell in values):
        return pa.array(cells, pa.int64())
    if values and all(type(cell) in (int, float) for cell in values):
        return pa.array([None if cell is None else float(cell) for cell in cells], pa.float64())
    return pa.array(
        [cell if cell is None or isinstance(cell, str) else json.dumps(cell) for cell in cells], pa.large_string()
    )
