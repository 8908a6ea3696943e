"""Tables of answers as files, CSV, TSV and Parquet, or as tables of a database."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from tangokg.errors import DataError
from tangokg.quads.addresses import is_address
from tangokg.train.checkpoint import write_atomically

SUFFIXES = (".csv", ".tsv", ".parquet")
FORMULA = re.compile(r"[=+\-@\t\r]")
NUMBER = re.compile(r"[+-]?\d[\d.,]*")  # a time such as -44 is not a formula


def check_answers_place(place: str | Path) -> None:
    """Raise an error if answers cannot be written to a file of this name, or to this table of a database."""
    if is_address(place):
        from tangokg.quads.sql import check_sink

        check_sink(str(place))
    elif Path(place).suffix.casefold() not in SUFFIXES:
        raise DataError(
            f"{place}: cannot tell the format from {Path(place).suffix!r}; expected one of {', '.join(SUFFIXES)}, or a "
            f"table of a database, such as sqlite:///answers.db?table=answers."
        )


def write_answers(answers: pa.Table, place: str | Path) -> str:
    """Write the table of :meth:`Forecaster.forecast_table`, all of it or nothing; returns its place, in words."""
    if is_address(place):
        from tangokg.quads.sql import check_sink, write_table

        address = check_sink(str(place))
        write_table(answers, address)
        return f"the table {address.table} of {address}"
    check_answers_place(place)
    path = Path(place)
    if path.suffix.casefold() == ".parquet":
        sink = pa.BufferOutputStream()
        pa.parquet.write_table(answers, sink)
        content = sink.getvalue().to_pybytes()
    else:
        content = to_csv(answers, "\t" if path.suffix.casefold() == ".tsv" else ",")
    write_atomically(path, content)
    return str(path)


@contextmanager
def writing_answers(path: Path) -> Iterator[Callable[[pa.Table], None]]:
    """A file to which tables of answers are added; it appears when complete, and not at all after an error."""
    check_answers_place(path)
    partial = path.with_name(f".{path.name}.{platform.node()}-{os.getpid()}.part")
    try:
        with partial.open("wb") as file, ExitStack() as stack:
            writer: Any = None

            def add(answers: pa.Table) -> None:
                nonlocal writer
                if writer is None:
                    writer = stack.enter_context(_writer(path, file, answers.schema))
                writer.write_table(answers if path.suffix.casefold() == ".parquet" else without_formulas(answers))

            yield add
            stack.close()
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror or error}).") from None
    finally:
        partial.unlink(missing_ok=True)


def _writer(path: Path, file: Any, schema: pa.Schema) -> Any:
    if path.suffix.casefold() == ".parquet":
        return pa.parquet.ParquetWriter(file, schema)
    delimiter = "\t" if path.suffix.casefold() == ".tsv" else ","
    return pa.csv.CSVWriter(file, schema, write_options=pa.csv.WriteOptions(delimiter=delimiter))


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
