"""Tables of names for spreadsheets: a cell that a program would take for a formula is text there."""

from __future__ import annotations

import re
from typing import Any

FORMULA = re.compile(r"[=+\-@\t\r]")
NUMBER = re.compile(r"[+-]?\d[\d.,]*")  # a time such as -44 is no formula


def without_formulas(table: Any) -> Any:
    """An Arrow table whose texts begin with an apostrophe where they would begin with ``= + - @``."""
    import pyarrow as pa

    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            cells = [None if cell is None else plain_cell(cell) for cell in table.column(place).to_pylist()]
            table = table.set_column(place, field, pa.array(cells, field.type))
    return table


def plain_cell(text: str) -> str:
    """The text, with an apostrophe before what a spreadsheet would compute."""
    return f"'{text}" if FORMULA.match(text) and not NUMBER.fullmatch(text) else text
