"""Columns of names -> ids, by first appearance; blanks around a name do not count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tangokg.errors import DataError
from tangokg.quads.values import Ids


@dataclass(frozen=True, eq=False)
class Names:
    """A column encoded as positions in a list of distinct cells; -1 marks an empty cell."""

    code: Ids
    names: tuple[str, ...]


def as_text(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """A text column of any Arrow type as ``large_string``; other columns unchanged."""
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    return values.cast(kind).cast(pa.large_string()) if _is_text(kind) else values


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)  # type: ignore[no-any-return]


def read_names(values: pa.ChunkedArray, role: str, column: str, place: str) -> Names:
    """A column of text or of whole numbers."""
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if not (_is_text(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind)):
        raise DataError(f"{place}: the {role} column {column!r} is of type {kind}; expected names or ids.")
    if pa.types.is_dictionary(values.type):
        values = values.unify_dictionaries()
    elif pa.types.is_null(kind) or pa.types.is_string_view(kind):
        values = values.cast(pa.large_string())
    chunk = values.combine_chunks()
    chunk = pa.concat_arrays(chunk.chunks) if isinstance(chunk, pa.ChunkedArray) else chunk
    cells = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
    trimmed = pc.utf8_trim_whitespace(cells.dictionary.cast(pa.large_string()))  # of distinct cells: these are few
    names = trimmed.dictionary_encode()
    of_cell = np.where(np.asarray(pc.equal(trimmed, "").fill_null(True)), -1, np.asarray(names.indices.fill_null(0)))
    code: Ids = np.append(of_cell, -1)[np.asarray(cells.indices.fill_null(len(of_cell)))].astype(np.int64)
    return Names(code, tuple(names.dictionary.to_pylist()))


def number_names(columns: Sequence[Names]) -> tuple[list[Ids], tuple[str, ...]]:
    """Ids of the cells of each column, none of which is empty, and the distinct names that the columns share."""
    ids: dict[str, int] = {}
    codes = []
    for column in columns:
        used = pc.unique(pa.array(column.code)).to_numpy()  # in the order of first appearance
        new = np.zeros(len(column.names), np.int64)
        new[used] = [ids.setdefault(column.names[i], len(ids)) for i in used]
        codes.append(new[column.code])
    return codes, tuple(ids)
