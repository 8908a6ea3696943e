"""Files and table objects -> rows as they are: CSV, TSV, JSON lines, Parquet, and the Arrow stream interface."""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tangokg.errors import DataError
from tangokg.quads.addresses import Address, is_address
from tangokg.quads.badrows import Bools
from tangokg.quads.headers import has_header
from tangokg.quads.jsonlines import is_json_lines, read_json_lines
from tangokg.quads.streams import Stream

KNOWN_FORMATS = {b"%PDF": "a PDF", b"PK\x03\x04": "a zip archive or an Excel workbook", b"\x89PNG": "an image"}
DELIMITERS = ",\t;|"


@dataclass(frozen=True)
class Source:
    """A table with text, numbers or dates in its columns, and how to say where a row stands."""

    table: pa.Table
    place: str
    text: str | None = None  # the file, where its lines can be counted
    delimiter: str = ","
    header: bool = True  # whether the first line names the columns
    lines: Sequence[int] | None = None  # of the rows, where they are known
    rows: NDArray[np.int64] | None = None  # which rows of the file these are, where some were left out
    bad: tuple[str, ...] = ()  # where and why a line is no row at all
    where: Callable[[int], str] | None = None  # where a row stands, for facts of several files
    stream: Stream | None = None  # the rows, where they have not been read yet: the table has the headings alone

    def read(self, columns: Collection[str]) -> Source:
        """The source with all rows read; a stream keeps only these columns."""
        return self if self.stream is None else replace(self, table=self.stream.collect(columns), stream=None)

    def close(self) -> None:
        """Close the connection if the rows will not be read."""
        if self.stream is not None:
            self.stream.end.close()

    def locate(self, row: int) -> str:
        """``events.csv:7`` for a line of a text file, ``events.parquet: row 6`` else."""
        row = row if self.rows is None else int(self.rows[row])
        if self.where is not None:
            return self.where(row)
        if self.lines is not None:
            return f"{self.place}:{self.lines[row]}"
        if self.text is None:
            return f"{self.place}: row {row + 1}"
        width = self.table.num_columns if self.bad else None
        return f"{self.place}:{_line_of(self.text, self.delimiter, row + int(self.header), width)}"

    def keep(self, good: Bools) -> Source:
        """Only the rows in ``good``, with their original positions."""
        kept = np.flatnonzero(good)
        return replace(
            self, table=self.table.filter(pa.array(good)), rows=kept if self.rows is None else self.rows[kept]
        )


def open_table(source: Any, named: Collection[str] = ()) -> Source:
    """The rows of a file (a path) or of a table object; a first line with one of the ``named`` columns is a header."""
    if isinstance(source, Source):
        return source
    if isinstance(source, Address) or is_address(source):
        from tangokg.quads.sql import open_database

        return open_database(source)
    return _open_file(Path(source), named) if isinstance(source, str | Path) else _open_object(source)


def _open_object(source: Any) -> Source:
    if not (hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__")):
        raise DataError(
            f"a {type(source).__name__} is no table: expected the path of a CSV, TSV, JSON lines or Parquet file, or a "
            f"table object with the Arrow stream interface (pandas, polars, DuckDB, pyarrow)."
        )
    try:
        if not hasattr(source, "__arrow_c_stream__"):
            return Source(pa.table(source), "table")
        stream = Stream(pa.RecordBatchReader.from_stream(source), _not_of_one_type)
        return Source(stream.heading, "table", stream=stream)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise _not_of_one_type(error) from None


def _not_of_one_type(error: Exception) -> DataError:
    return DataError(f"table: a column has no single type ({error}); expected text, whole numbers or dates.")


def find_file(folder: Path, name: str) -> Path | None:
    """``name`` or ``name.gz`` in ``folder``."""
    return next((path for path in (folder / name, folder / f"{name}.gz") if os.path.isfile(path)), None)


def read_bytes(path: Path) -> bytes:
    """The content of a file, unpacked if it is gzip."""
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: the gzip file is damaged ({error}). Fetch or pack it again.") from None
    except FileNotFoundError:
        raise DataError(f"{path}: no such file.") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read ({error}).") from None


def decode_text(data: bytes, name: str) -> str:
    """UTF-8 text, with or without a byte order mark."""
    if not data.strip(b"\xef\xbb\xbf \t\r\n"):
        raise DataError(f"{name}: the file is empty; expected lines of UTF-8 text.")
    for magic, kind in KNOWN_FORMATS.items():
        if data.startswith(magic):
            raise DataError(f"{name}: this is {kind}, not a table. Export it as CSV or Parquet.")
    if b"\0" in data:
        line = data.count(b"\n", 0, data.index(b"\0")) + 1
        raise DataError(f"{name}:{line}: a NUL byte found; expected UTF-8 text. Is it a binary file, or UTF-16?")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{name}:{line}: byte {data[error.start]:#04x} is not UTF-8. Save the file as UTF-8. Published event data "
            "need no change: tango data import FILE FOLDER --format icews, or another (in Python format='icews')."
        ) from None


def _open_file(path: Path, named: Collection[str]) -> Source:
    data = read_bytes(path)
    if data[:4] == b"PAR1":
        try:
            table = pq.ParquetFile(pa.BufferReader(data)).read()
            table.validate(full=True)  # a text that is no UTF-8 would fail later on
            return Source(table, path.name)
        except (OSError, ValueError, NotImplementedError) as error:
            raise DataError(f"{path.name}: the Parquet file is damaged ({error}).") from None
    text = decode_text(data, path.name)
    if is_json_lines(text, path.name):
        table, lines, bad = read_json_lines(text, path.name)
        return Source(table, path.name, lines=lines, bad=tuple(bad))
    return _open_csv(data, text, path.name, named)


def _open_csv(data: bytes, text: str, name: str, named: Collection[str]) -> Source:
    first = next(re.finditer(r"[^\r\n]+", text))[0]
    delimiter = max(DELIMITERS, key=first.count)
    width = first.count(delimiter) + 1
    data = data.removeprefix(b"\xef\xbb\xbf") + b"\n"
    bad: tuple[str, ...] = ()
    try:
        rows = _parse_csv(data, delimiter, width)
    except pa.ArrowException as error:
        bad = tuple(_ragged(text, delimiter, name))
        try:
            rows = _parse_csv(data, delimiter, width, skip=bool(bad))
        except pa.ArrowException:
            raise DataError(f"{name}: no table ({error}). Is a quote left open?") from None
    cells = [str(column[0]).strip() for column in rows.columns]
    header = has_header(cells) or not {*named}.isdisjoint(cells)
    names = cells if header else [f"column {i}" for i in range(1, len(cells) + 1)]
    table = _without_blanks(rows.slice(int(header))).rename_columns(names)
    return Source(table, name, text, delimiter, header, bad=bad)


def _without_blanks(rows: pa.Table) -> pa.Table:
    """The table without empty rows, which spreadsheets leave at the end."""
    blank = np.full(len(rows), rows.num_columns > 1)
    for column in rows.columns:
        if not blank.any():
            return rows
        blank &= np.asarray(pc.equal(pc.utf8_trim_whitespace(column), ""))
    return rows.filter(pa.array(~blank))


def _parse_csv(data: bytes, delimiter: str, width: int, skip: bool = False) -> pa.Table:
    """All cells as text; the first line is the first row. With ``skip``, rows of another length are left out."""
    return pa.csv.read_csv(
        io.BytesIO(data),
        read_options=pa.csv.ReadOptions(
            autogenerate_column_names=True, block_size=min(max(len(data), 1 << 20), 1 << 30), use_threads=False
        ),
        parse_options=pa.csv.ParseOptions(
            delimiter=delimiter,
            newlines_in_values=True,
            invalid_row_handler=(lambda row: "skip") if skip else None,
        ),
        convert_options=pa.csv.ConvertOptions(
            column_types={f"f{i}": pa.large_string() for i in range(width)}, strings_can_be_null=False
        ),
    )


def _records(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """``(line, cells)`` of each non-blank record, up to the first parse error."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    end = 0
    try:
        for cells in reader:
            start, end = end + 1, reader.line_num
            if cells:
                yield start, cells
    except csv.Error:
        return


def _line_of(text: str, delimiter: str, row: int, width: int | None) -> int:
    """The line at which a row begins: blank lines, and line breaks inside quotes, are lines too."""
    filled = (
        line
        for line, cells in _records(text, delimiter)
        if (len(cells) == 1 or any(map(str.strip, cells))) and width in (None, len(cells))
    )
    return next((line for i, line in enumerate(filled) if i == row), row + 1)


def _ragged(text: str, delimiter: str, name: str) -> Iterator[str]:
    """Reports of the rows that are longer or shorter than the first line."""
    records = _records(text, delimiter)
    _, header = next(records, (1, []))
    for line, cells in records:
        if len(cells) != len(header):
            yield (
                f"{name}:{line}: {len(cells)} cells found; expected {len(header)}, as in the header. "
                f"A cell that holds the separator {delimiter!r} needs quotes around it."
            )
