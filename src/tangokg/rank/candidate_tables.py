"""Candidate lists from a table: a question in each row, and the entities that its answers are ranked among."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray

from tangokg.errors import DataError
from tangokg.quads.clock import Clock
from tangokg.quads.values import Ids
from tangokg.quads.vocabulary import Vocabulary
from tangokg.rank.candidates import CandidateLists
from tangokg.rank.listed import dated_key
from tangokg.snapshots.ranges import expand

SIDES = ("subject", "object")  # one of them is given, the other one is asked for
COLUMNS = (*SIDES, "relation", "time", "candidates")
MADE_FOR = b"tangokg.entities"  # in the metadata of a file: the names that its ids stand for
ROWS = 4096  # read at a time

Lists = NDArray[np.int32]


def read_candidates(source: Any, vocab: Vocabulary, clock: Clock) -> CandidateLists:
    """Candidate lists from a Parquet file, or a table with the Arrow stream interface.

    Columns are subject, relation, object, time and candidates. The empty cell, subject or object, is asked for; a
    column that is missing is empty. Names are texts, or whole numbers that are ids of ``vocab``; times are dates, or
    steps of ``clock``; candidates are lists of names or ids. A question has one row. Each candidate takes four bytes.
    """
    table = _open(source)
    _check(table, vocab)
    o, filled, parts = np.empty(table.elements, np.int32), 0, []
    for batch in table.batches:
        s, r, t = _questions(batch, table.place, vocab, clock)
        lists, sizes = _distinct(*_lists(batch, table.place, vocab), vocab.num_entities)
        o[filled : filled + len(lists)] = lists
        filled += len(lists)
        parts.append((s, r, t, sizes))
    if not parts:
        raise DataError(f"{table.place}: the table has no rows; expected a question and its candidates in each.")
    s, r, t, sizes = (np.concatenate(column) for column in zip(*parts, strict=True))
    return _in_order(s, r, t, sizes, o[:filled], vocab, table.place)


def fingerprint(vocab: Vocabulary) -> bytes:
    """The fingerprint of the names that the ids in a file stand for."""
    names = "\n".join([*vocab.entities, "", *vocab.relations])
    return hashlib.sha256(names.encode()).hexdigest().encode()


@dataclass(frozen=True)
class _Table:
    place: str
    schema: pa.Schema
    elements: int  # of all lists together, or more
    batches: Iterator[pa.RecordBatch]


def _open(source: Any) -> _Table:
    """A file, which is read in parts, or a table."""
    if isinstance(source, str | Path):
        try:
            file = pq.ParquetFile(source, pre_buffer=False)  # else all of it is read at once
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"{source}: expected a Parquet file with candidates ({error}).") from None
        names = [name for name in COLUMNS if name in file.schema_arrow.names]
        leaf = [i for i, column in enumerate(file.schema) if column.path.split(".")[0] == "candidates"]
        groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
        elements = sum(group.column(i).num_values for group in groups for i in leaf)
        return _Table(str(source), file.schema_arrow, elements, file.iter_batches(ROWS, columns=names))
    if not hasattr(source, "__arrow_c_stream__"):
        raise DataError(f"candidates: a {type(source).__name__} found; expected a Parquet file, a table, or lists.")
    table = pa.table(source)
    lists = table["candidates"].chunks if "candidates" in table.column_names else []
    elements = sum(len(chunk.flatten()) for chunk in lists if _is_list(chunk.type))
    return _Table("candidates", table.schema, elements, iter(table.to_batches(ROWS)))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _check(table: _Table, vocab: Vocabulary) -> None:
    missing = [name for name in ("relation", "time", "candidates") if name not in table.schema.names]
    if missing:
        raise DataError(f"{table.place}: no column {missing[0]!r} found; expected {', '.join(COLUMNS)}.")
    if not _is_list(kind := table.schema.field("candidates").type):
        raise DataError(f"{table.place}: the column 'candidates' holds {kind}; expected lists of names or ids.")
    made_for = (table.schema.metadata or {}).get(MADE_FOR)
    if made_for is not None and made_for != fingerprint(vocab):
        raise DataError(
            f"{table.place}: its ids were made for a data set with other names. Make the file anew for the folder that "
            f"the run was trained on."
        )


def _questions(batch: pa.RecordBatch, place: str, vocab: Vocabulary, clock: Clock) -> tuple[Ids, Ids, NDArray[Any]]:
    """(s, r, t) of each row; r + R asks for the subject."""
    ids = {side: _column(batch, side, place, "entity", vocab) for side in SIDES}
    relation = _column(batch, "relation", place, "relation", vocab)
    present = {side: column >= 0 for side, column in ids.items()}
    if (both := present["subject"] == present["object"]).any() or (relation < 0).any():
        row = int(np.flatnonzero(both | (relation < 0))[0])
        raise DataError(
            f"{place}: row {batch[row : row + 1].to_pylist()[0] | {'candidates': '...'}} is not a question; expected a "
            f"relation, and either a subject or an object."
        )
    s = np.where(present["subject"], ids["subject"], ids["object"])
    times = batch["time"].dictionary_encode()
    steps = np.array([clock.parse(value) for value in times.dictionary.to_pylist()], np.float64)
    if times.null_count:
        raise DataError(f"{place}: a question has no time; expected one in each row.")
    return s, relation + vocab.num_relations * present["object"], steps[np.asarray(times.indices)]


def _column(batch: pa.RecordBatch, name: str, place: str, kind: str, vocab: Vocabulary) -> Ids:
    """The ids of a column; -1 for an empty cell."""
    if name not in batch.schema.names:
        return np.full(len(batch), -1)
    return _ids(batch[name], place, kind, vocab)


def _ids(cells: pa.Array, place: str, kind: str, vocab: Vocabulary) -> Ids:
    """Ids as they are, or the ids of names; -1 for an empty cell."""
    size = vocab.num_entities if kind == "entity" else vocab.num_relations
    if pa.types.is_null(cells.type):
        return np.full(len(cells), -1)
    if pa.types.is_integer(cells.type):
        ids: Ids = np.asarray(pc.fill_null(cells.cast(pa.int64()), -1))
        lowest, highest = ids.min(initial=0), ids.max(initial=0)
        if lowest < -1 or highest >= size or (lowest < 0 and not cells.null_count):
            wrong = highest if highest >= size else lowest
            raise DataError(f"{place}: the {kind} id {wrong} found; expected 0 to {size - 1}, or names as text.")
        return ids
    coded = cells if pa.types.is_dictionary(cells.type) else cells.dictionary_encode()
    known = [_id(str(name), place, kind, vocab) for name in coded.dictionary.to_pylist()]
    ids = np.asarray([*known, -1])[np.asarray(pc.fill_null(coded.indices, len(known)))]
    return ids


def _id(name: str, place: str, kind: str, vocab: Vocabulary) -> int:
    """The id of a name; -1 for an empty name."""
    if not name:
        return -1
    try:
        of_entities, of_relations = vocab.ids_of([name], []) if kind == "entity" else vocab.ids_of([], [name])
    except KeyError:
        raise DataError(f"{place}: the data set has no {kind} {name!r}; check its spelling.") from None
    return (of_entities or of_relations)[0]


def _lists(batch: pa.RecordBatch, place: str, vocab: Vocabulary) -> tuple[Lists, Ids]:
    """All candidates, concatenated, and the number in each row."""
    lists = batch["candidates"]
    if lists.null_count:
        raise DataError(f"{place}: a question has no candidates; expected a list in each row.")
    ids = _ids(lists.flatten(), place, "entity", vocab)
    if (ids < 0).any():
        raise DataError(f"{place}: a list of candidates holds an empty cell; expected names or ids.")
    return ids.astype(np.int32), np.asarray(pc.list_value_length(lists)).astype(np.int64)


def _distinct(o: Lists, sizes: Ids, num_entities: int) -> tuple[Lists, Ids]:
    """Each candidate of a row once."""
    if len(o) and (sizes == sizes[0]).all():
        ordered = np.sort(o.reshape(len(sizes), -1), axis=1)
        if (ordered[:, 1:] > ordered[:, :-1]).all():
            return o, sizes
    key = np.unique(np.repeat(np.arange(len(sizes)), sizes) * num_entities + o)
    return (key % num_entities).astype(np.int32), np.bincount(key // num_entities, minlength=len(sizes))


def _in_order(s: Ids, r: Ids, t: NDArray[Any], sizes: Ids, o: Lists, vocab: Vocabulary, place: str) -> CandidateLists:
    """The lists in order of time, subject and relation; copied only where the rows are in another order."""
    when, n, labels = torch.from_numpy(t), vocab.num_entities, 2 * vocab.num_relations
    observed = when.unique()
    key, order = dated_key(observed, when, torch.from_numpy(s), torch.from_numpy(r), n, labels).sort(stable=True)
    if bool((key[1:] == key[:-1]).any()):
        row = int(order[:-1][key[1:] == key[:-1]][0])
        raise DataError(
            f"{place}: row {row + 1} and another one ask the same question; give each question one row, the union."
        )
    size = torch.from_numpy(sizes)
    ends, values = size.cumsum(0), torch.from_numpy(o)
    if not bool((order[1:] > order[:-1]).all()):
        values = values[expand((ends - size)[order], ends[order], len(o))[0]]
    offset = torch.cat([size.new_zeros(1), size[order].cumsum(0)])
    return CandidateLists(observed, key, offset, values, n, labels)


def write_candidates(path: Path, batches: Iterator[Mapping[str, Any]], vocab: Vocabulary) -> int:
    """Write a file that :func:`read_candidates` reads, from rows with ids of ``vocab`` and steps; returns how many."""
    ids = pa.int32()
    schema = pa.schema(
        [("subject", ids), ("relation", ids), ("object", ids), ("time", pa.int64()), ("candidates", pa.list_(ids))],
        metadata={MADE_FOR: fingerprint(vocab)},
    )
    rows = 0
    with pq.ParquetWriter(path, schema, use_dictionary=["relation", "time"], compression="zstd") as writer:
        for columns in batches:
            table = pa.table(dict(columns), schema=schema)
            writer.write_table(table)
            rows += len(table)
    return rows
