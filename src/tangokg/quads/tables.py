"""CSV, TSV and Parquet files, and whatever speaks the Arrow stream interface -> quadruples."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from tangokg.errors import DataError
from tangokg.quads.columns import find_columns
from tangokg.quads.times import clock_for, exact_steps, expand_intervals, read_ends, read_moments, whole_steps
from tangokg.quads.values import Ids, Quadruples, exact_or_none, in_time_order
from tangokg.quads.vocabulary import Vocabulary

KNOWN_FORMATS = {b"%PDF": "a PDF", b"PK\x03\x04": "a zip archive or an Excel workbook", b"\x89PNG": "an image"}
DELIMITERS = ",\t;|"


@dataclass(frozen=True)
class Source:
    """A table with text, numbers or dates in its columns, and how to say where a row stands."""

    table: pa.Table
    place: str
    text: str | None = None  # the file, where its lines can be counted
    delimiter: str = ","

    def locate(self, row: int) -> str:
        """``events.csv:7`` for a line of a text file, ``events.parquet: row 6`` else."""
        if self.text is None:
            return f"{self.place}: row {row + 1}"
        return f"{self.place}:{_line_of(self.text, self.delimiter, row)}"


def read_table(source: Any, *, columns: Mapping[str, str] | None = None, unit: str | None = None) -> Quadruples:
    """Dated facts of a file (a path) or a table object, sorted by time; names get ids by first appearance.

    ``columns`` maps the roles subject, relation, object and time (or start and end) to column names where these do not
    speak for themselves; ``unit`` is what one step of time is (dates: day).
    """
    opened = open_table(source)
    chosen = find_columns(opened.table.column_names, columns, opened.place)
    if len(opened.table) == 0:
        raise DataError(f"{opened.place}: the table holds column names but no facts; expected at least one row.")
    (s, o), entities = _encode(opened, chosen, ("subject", "object"))
    (r,), relations = _encode(opened, chosen, ("relation",))
    vocab = Vocabulary(entities, relations)
    if "time" in chosen:
        moments = read_moments(_plain(opened, chosen["time"]), "time", opened.locate)
        clock = clock_for(moments, unit)
        t = whole_steps(moments, clock)
        exact = exact_steps(moments, clock)
    else:
        start, end = read_ends(_plain(opened, chosen["start"]), _plain(opened, chosen["end"]), opened.locate)
        clock = clock_for(start, unit)
        row, t = expand_intervals(start, end, clock, opened.locate)
        s, r, o = s[row], r[row], o[row]
        exact = np.maximum(t, exact_steps(start, clock)[row])  # an interval begins inside its first step
    return in_time_order(Quadruples(s, r, o, t, vocab, clock, exact_or_none(exact, t)))


def _encode(opened: Source, chosen: Mapping[str, str], roles: tuple[str, ...]) -> tuple[list[Ids], tuple[str, ...]]:
    """Ids of each role's column, and the distinct names that the columns share; blanks around a name do not count."""
    columns = [_names(opened, chosen[role], role) for role in roles]
    if columns[0].type != columns[-1].type:
        columns = [column.cast(pa.large_string()) for column in columns]
    cells = pa.concat_arrays([chunk for column in columns for chunk in column.chunks]).dictionary_encode()
    trimmed = pc.utf8_trim_whitespace(cells.dictionary.cast(pa.large_string()))  # of distinct cells: these are few
    empty = np.asarray(pc.equal(trimmed, ""))
    if cells.null_count or empty.any():
        wrong = np.append(empty, True)[np.asarray(cells.indices.fill_null(len(empty)))]
        role, row = divmod(int(np.argmax(wrong)), len(opened.table))
        raise DataError(
            f"{opened.locate(row)}: the {roles[role]} is empty; expected a name. Fill it in or take the row out."
        )
    names = trimmed.dictionary_encode()
    ids: Ids = np.asarray(names.indices).astype(np.int64)[np.asarray(cells.indices)]
    return np.split(ids, len(roles)), tuple(names.dictionary.to_pylist())


def _plain(opened: Source, column: str) -> pa.ChunkedArray:
    """A column with text of whatever Arrow type as ``large_string``."""
    values = opened.table.column(column)
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return values.cast(kind).cast(pa.large_string())
    return values


def _names(opened: Source, column: str, role: str) -> pa.ChunkedArray:
    """A column of text, as ``large_string``, or of whole numbers."""
    values = _plain(opened, column)
    if pa.types.is_null(values.type):
        values = values.cast(pa.large_string())
    if not (pa.types.is_large_string(values.type) or pa.types.is_integer(values.type)):
        raise DataError(
            f"{opened.place}: the {role} column {column!r} is of type {values.type}; expected names or ids."
        )
    return values


def open_table(source: Any) -> Source:
    """The rows of a file (a path) or of a table object, as they are."""
    if isinstance(source, Source):
        return source
    return _open_file(Path(source)) if isinstance(source, str | Path) else _open_object(source)


def _open_object(source: Any) -> Source:
    if not (hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__")):
        raise DataError(
            f"a {type(source).__name__} is no table: expected the path of a CSV, TSV or Parquet file, or a table "
            f"object with the Arrow stream interface (pandas, polars, DuckDB, pyarrow)."
        )
    try:
        return Source(pa.table(source), "table")
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(
            f"table: a column has no single type ({error}); expected text, whole numbers or dates."
        ) from None


def read_bytes(path: Path) -> bytes:
    """A whole file, unpacked where it is gzip."""
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
    for magic, what in KNOWN_FORMATS.items():
        if data.startswith(magic):
            raise DataError(f"{name}: this is {what}, not a table. Export it as CSV or Parquet.")
    if b"\0" in data:
        line = data.count(b"\n", 0, data.index(b"\0")) + 1
        raise DataError(f"{name}:{line}: a NUL byte found; expected UTF-8 text. Is it a binary file, or UTF-16?")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(f"{name}:{line}: byte {data[error.start]:#04x} is not UTF-8. Save the file as UTF-8.") from None


def _open_file(path: Path) -> Source:
    data = read_bytes(path)
    if data[:4] == b"PAR1":
        try:
            table = pq.ParquetFile(pa.BufferReader(data)).read()
            table.validate(full=True)  # a text that is no UTF-8 would fail later on
            return Source(table, path.name)
        except (OSError, ValueError, NotImplementedError) as error:
            raise DataError(f"{path.name}: the Parquet file is damaged ({error}).") from None
    text = decode_text(data, path.name)
    header = next(re.finditer(r"[^\r\n]+", text))[0]
    delimiter = max(DELIMITERS, key=header.count)
    try:
        rows = _parse_csv(data.removeprefix(b"\xef\xbb\xbf") + b"\n", delimiter, header.count(delimiter) + 1)
    except pa.ArrowException as error:
        reason = _ragged(text, delimiter, path.name) or f"{path.name}: no table ({error}). Is a quote left open?"
        raise DataError(reason) from None
    names = [str(column[0]).strip() for column in rows.columns]
    return Source(_without_blanks(rows.slice(1)).rename_columns(names), path.name, text, delimiter)


def _without_blanks(rows: pa.Table) -> pa.Table:
    """Without the rows whose cells are all empty, which spreadsheets leave at the end."""
    blank = np.full(len(rows), rows.num_columns > 1)
    for column in rows.columns:
        if not blank.any():
            return rows
        blank &= np.asarray(pc.equal(pc.utf8_trim_whitespace(column), ""))
    return rows.filter(pa.array(~blank))


def _parse_csv(data: bytes, delimiter: str, width: int) -> pa.Table:
    """All cells as text; the header is the first row."""
    return pa.csv.read_csv(
        io.BytesIO(data),
        read_options=pa.csv.ReadOptions(
            autogenerate_column_names=True, block_size=min(max(len(data), 1 << 20), 1 << 30), use_threads=False
        ),
        parse_options=pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=pa.csv.ConvertOptions(
            column_types={f"f{i}": pa.large_string() for i in range(width)}, strings_can_be_null=False
        ),
    )


def _records(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """``(line, cells)`` of each record that is not blank, as far as the file can be followed."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    end = 0
    try:
        for cells in reader:
            start, end = end + 1, reader.line_num
            if cells:
                yield start, cells
    except csv.Error:
        return


def _line_of(text: str, delimiter: str, row: int) -> int:
    """The line at which a row begins: blank lines, and line breaks inside quotes, are lines too."""
    filled = (line for line, cells in _records(text, delimiter) if len(cells) == 1 or any(map(str.strip, cells)))
    return next((line for i, line in enumerate(filled) if i == row + 1), row + 2)


def _ragged(text: str, delimiter: str, name: str) -> str | None:
    """What is wrong with the first row that is longer or shorter than the header."""
    records = _records(text, delimiter)
    _, header = next(records, (1, []))
    for line, cells in records:
        if len(cells) != len(header):
            return (
                f"{name}:{line}: {len(cells)} cells found; expected {len(header)}, as in the header. "
                f"A cell that holds the separator {delimiter!r} needs quotes around it."
            )
    return None
