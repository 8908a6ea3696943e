"""Published tables -> facts, block by block, with columns found by heading or by position."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from tomllib import loads

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from tangokg.errors import DataError, UnknownName
from tangokg.quads.columns import fold
from tangokg.quads.importers.gathered import Gathered, clean
from tangokg.quads.importers.packed import Stream, streams
from tangokg.quads.reading import TableOptions

WORDS: dict[str, dict[str, str]] = loads(
    files("tangokg.quads.importers").joinpath("words.toml").read_text(encoding="utf-8")
)
SHOWN = 8  # headings or cells in a message
KNOWN = 100  # reports of bad rows that are kept in words

Lines = NDArray[np.int64]


@dataclass(frozen=True)
class Layout:
    """The positions of the columns of one file."""

    roles: Mapping[str, int]  # role -> position
    width: int
    header: bool


@dataclass(frozen=True)
class Table:
    """A published table: its columns by heading (role -> headings, the first that is there), or by its width."""

    name: str
    headings: Mapping[str, Sequence[str]] = field(default_factory=dict)
    widths: Mapping[int, Mapping[str, int]] = field(default_factory=dict)  # without headings: positions, from 0 on
    delimiter: str = "\t"
    quoted: bool = False  # a cell may stand in quotes, with separators and line breaks in it

    def read(self, paths: Sequence[Path], into: Gathered, options: TableOptions) -> None:
        """Add the rows of all files."""
        for path in paths:
            for stream in streams(path):
                self.read_stream(stream, into, options)

    def read_stream(self, stream: Stream, into: Gathered, options: TableOptions, static: bool = False) -> None:
        """Add the rows of one file, as facts or as static edges."""
        layout, line = None, 1
        for block in stream.blocks(self.quoted):
            data = _utf8(block, stream.place)
            if layout is None:
                data = data.removeprefix(b"\xef\xbb\xbf")
                layout = self._layout(data, stream.place, options)
            table, lines = self._rows(data, line, layout, stream.place, into)
            skip = int(layout.header and line == 1)
            columns = {role: table.column(f"f{i}").combine_chunks()[skip:] for role, i in layout.roles.items()}
            if static:
                into.add_edges(columns)
            else:
                into.add(stream.place, columns, lines[skip:])
            line += block.count(b"\n")
        if layout is None:
            raise DataError(f"{stream.place}: the file is empty; expected {self._expected()}.")

    def _layout(self, data: bytes, place: str, options: TableOptions) -> Layout:
        """The role of each column, by the first line and the user's options; an error for any other table."""
        _, first = next(self._records(data, 1, place), (1, []))
        cells = [clean(cell) for cell in first]
        roles = self._positions(cells)
        required = [role for role in roles if role != "relation" or options.relation is None]
        names = {f"column {i + 1}" if self.widths else cell: i for i, cell in enumerate(cells)}
        for role, name in (options.columns or {}).items():
            if role not in required:
                raise UnknownName("column role", role, required, hint=f"The roles are {', '.join(required)}.")
            if name not in names:
                raise UnknownName("column", name, names, hint=f"{place} has no such column.")
            roles[role] = names[name]
        if not required or any(roles[role] is None for role in required):
            raise self._misfit(cells, place)
        return Layout({role: at for role in required if (at := roles[role]) is not None}, len(cells), not self.widths)

    def _positions(self, cells: Sequence[str]) -> dict[str, int | None]:
        """Role -> position, None if no heading fits; empty if a table without headings does not fit the format."""
        if self.widths:
            positions = self.widths.get(len(cells), {})
            return dict(positions) if positions and cells[positions["time"]].isdecimal() else {}
        plain = {fold(cell): i for i, cell in reversed(list(enumerate(cells)))}
        return {
            role: next((plain[fold(heading)] for heading in headings if fold(heading) in plain), None)
            for role, headings in self.headings.items()
        }

    def _misfit(self, cells: Sequence[str], place: str) -> DataError:
        shown = ", ".join(repr(cell[:40]) for cell in cells[:SHOWN]) + (", ..." if len(cells) > SHOWN else "")
        return DataError(
            f"{place}: this is not {self.name}: the first line has {len(cells)} columns ({shown}); expected "
            f"{self._expected()}. Choose the format it has, or leave --format out to read it as an ordinary table."
        )

    def _expected(self) -> str:
        cells = "tab-separated" if self.delimiter == "\t" else "comma-separated"
        if self.widths:
            widths = " or ".join(map(str, self.widths))
            return f"{widths} {cells} columns without headings, with a date of digits alone in its place"
        return f"{cells} columns with " + ", ".join(" or ".join(map(repr, names)) for names in self.headings.values())

    def _rows(self, data: bytes, first: int, layout: Layout, place: str, into: Gathered) -> tuple[pa.Table, Lines]:
        """The wanted columns of a block as text, and the line of each row; a row of another width is a bad one."""
        count = data.count(b"\n") + int(not data.endswith(b"\n"))
        table = self._fast(data, layout)
        if table is not None and len(table) == count:
            return table, np.arange(first, first + count)
        selected = list(dict.fromkeys(layout.roles.values()))
        good: list[list[str]] = []
        lines: list[int] = []
        for line, cells in self._records(data, first, place):
            if len(cells) == layout.width:
                good.append([cells[i] for i in selected])
                lines.append(line)
            elif any(cells):
                into.bad.append(
                    f"{place}:{line}: {len(cells)} cells found; expected {layout.width}, as in the first line."
                    if len(into.bad) < KNOWN
                    else f"{place}:{line}"
                )
        columns = {f"f{i}": pa.array([cells[k] for cells in good], pa.string()) for k, i in enumerate(selected)}
        return pa.table(columns), np.array(lines, np.int64)

    def _fast(self, data: bytes, layout: Layout) -> pa.Table | None:
        """Parse all rows at once; None if a row has another width."""
        names = [f"f{i}" for i in range(layout.width)]
        selected = [f"f{i}" for i in dict.fromkeys(layout.roles.values())]
        try:
            return pa.csv.read_csv(
                pa.BufferReader(data),
                read_options=pa.csv.ReadOptions(column_names=names, block_size=len(data) + 1, use_threads=False),
                parse_options=pa.csv.ParseOptions(
                    delimiter=self.delimiter, quote_char='"' if self.quoted else False, newlines_in_values=self.quoted
                ),
                convert_options=pa.csv.ConvertOptions(
                    column_types=dict.fromkeys(selected, pa.string()),
                    include_columns=selected,
                    strings_can_be_null=False,
                ),
            )
        except pa.ArrowException:
            return None

    def _records(self, data: bytes, first: int, place: str) -> Iterator[tuple[int, list[str]]]:
        """``(line, cells)`` of each record that is not blank."""
        text = io.StringIO(data.decode(), newline="")
        reader = csv.reader(
            text, delimiter=self.delimiter, quoting=csv.QUOTE_MINIMAL if self.quoted else csv.QUOTE_NONE
        )
        end = 0
        try:
            for cells in reader:
                start, end = end, reader.line_num
                if cells:
                    yield first + start, cells
        except csv.Error as error:
            raise DataError(f"{place}:{first + end}: no table ({error}). Is a quote left open?") from None


def _utf8(block: bytes, place: str) -> bytes:
    """UTF-8 as it is; anything else is read as ISO-8859-1, as ICEWS is published."""
    if b"\0" in block:
        raise DataError(f"{place}: a NUL byte found; expected text. Is it a binary file, or UTF-16?")
    try:
        block.decode()
        return block
    except UnicodeDecodeError:
        return block.decode("iso-8859-1").encode()
