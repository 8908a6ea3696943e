"""Tables of answers as files: CSV, TSV and Parquet."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from tangokg.errors import DataError
from tangokg.train.checkpoint import write_atomically

SUFFIXES = (".csv", ".tsv", ".parquet")
FORMULA = re.compile(r"[=+\-@\t\r]")
NUMBER = re.compile(r"[+-]?\d[\d.,]*")  # a time such as -44 is not a formula


def check_answers_file(path: Path) -> None:
    """An error if answers cannot be written to a file of this name."""
    if path.suffix.casefold() not in SUFFIXES:
        raise DataError(f"{path}: cannot tell the format from {path.suffix!r}; expected one of {', '.join(SUFFIXES)}.")


def write_answers(answers: pa.Table, path: Path) -> None:
    """Write the table of :meth:`Forecaster.forecast_table` to a file, all of it or nothing."""
    check_answers_file(path)
    if path.suffix.casefold() == ".parquet":
        sink = pa.BufferOutputStream()
        pa.parquet.write_table(answers, sink)
        content = sink.getvalue().to_pybytes()
    else:
        content = to_csv(answers, "\t" if path.suffix.casefold() == ".tsv" else ",")
    write_atomically(path, content)


def to_csv(answers: pa.Table, delimiter: str = ",") -> bytes:
    """The table as CSV that is safe to open in a spreadsheet."""
    sink = pa.BufferOutputStream()
    pa.csv.write_csv(without_formulas(answers), sink, pa.csv.WriteOptions(delimiter=delimiter))
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def without_formulas(table: pa.Table) -> pa.Table:
    """The table with an apostrophe before each text that a spreadsheet would compute: ``= + - @`` begin a formula."""
    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            cells = [None if cell is None else _plain_cell(cell) for cell in table.column(place).to_pylist()]
            table = table.set_column(place, field, pa.array(cells, field.type))
    return table


def _plain_cell(text: str) -> str:
    return f"'{text}" if FORMULA.match(text) and not NUMBER.fullmatch(text) else text
