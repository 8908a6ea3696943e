"""Batches of rows -> a table of the needed columns, with each distinct name stored once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tangokg.errors import DataError

ROWS = 2**20  # read before their texts are numbered


@dataclass(frozen=True, eq=False)
class Stream:
    """Batches of rows that are not read yet, with the error to raise on failure."""

    reader: pa.RecordBatchReader
    failed: Callable[[Exception], DataError]
    end: ExitStack = field(default_factory=ExitStack)  # closes what the rows come from

    @property
    def heading(self) -> pa.Table:
        """The columns without rows."""
        return self.reader.schema.empty_table()

    def collect(self, names: Iterable[str]) -> pa.Table:
        """The rows of some columns; all other cells are dropped batch by batch."""
        columns = {name: _Column() for name in names}
        with self.end:
            for table in self._tables(list(columns)):
                for name, column in columns.items():
                    column.add(_plain(table.column(name)))
        kinds = {name: _plain(self.heading.column(name)) for name in columns}
        return pa.table({name: column.whole(kinds[name]) for name, column in columns.items()})

    def _tables(self, names: list[str]) -> Iterator[pa.Table]:
        """Many rows at a time, whatever the size of the batches."""
        batches: list[pa.RecordBatch] = []
        while True:
            try:
                batch = self.reader.read_next_batch()
            except StopIteration:
                break
            except Exception as error:  # each driver has its own
                raise self.failed(error) from None
            batches.append(pa.record_batch({name: _copied(batch.column(name)) for name in names}))
            if sum(map(len, batches)) >= ROWS:
                yield pa.Table.from_batches(batches)
                batches = []
        if batches:
            yield pa.Table.from_batches(batches)


class _Column:
    """A column in parts: texts as positions in a list of distinct texts, other values unchanged."""

    def __init__(self) -> None:
        self.parts: list[pa.Array] = []
        self.texts: pa.Array | None = None

    def add(self, cells: pa.ChunkedArray) -> None:
        if not _is_text(cells.type):
            self.parts += cells.chunks
            return
        encoded = pa.concat_arrays(cells.cast(pa.large_string()).chunks).dictionary_encode()
        self.texts = encoded.dictionary.slice(0, 0) if self.texts is None else self.texts
        new = encoded.dictionary.filter(pc.is_null(pc.index_in(encoded.dictionary, value_set=self.texts)))
        self.texts = pa.concat_arrays([self.texts, new])
        self.parts.append(pc.index_in(encoded.dictionary, value_set=self.texts).take(encoded.indices))

    def whole(self, empty: pa.ChunkedArray) -> pa.ChunkedArray:
        """All parts as one; a column without rows has the type of the ``empty`` one."""
        if self.texts is None:
            return pa.chunked_array(self.parts, empty.type)
        kind = pa.dictionary(pa.int32(), pa.large_string())
        return pa.chunked_array([pa.DictionaryArray.from_arrays(part, self.texts) for part in self.parts], kind)


def _copied(cells: pa.Array) -> pa.Array:
    """A copy in its own memory, so that the memory of the batch can be freed."""
    cells = cells.cast(pa.large_string()) if _is_text(cells.type) else cells
    return pa.concat_arrays([cells, cells.slice(0, 0)])


def _plain(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    """Without dictionaries and extension types, such as the numbers of PostgreSQL that have any length."""
    kind = cells.type
    if isinstance(kind, pa.BaseExtensionType):
        return pa.chunked_array([chunk.storage for chunk in cells.chunks], kind.storage_type)
    return cells.cast(kind.value_type) if pa.types.is_dictionary(kind) else cells


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
