"""Candidate lists from tables: names, ids and dates give the lists that are built by hand; what is wrong is said."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from conftest import dated, make_dataset, make_forecaster
from tangokg.errors import DataError, TangoError
from tangokg.quads import Dataset, Vocabulary
from tangokg.rank import CandidateLists, candidate_lists, read_candidates
from tangokg.rank import candidate_tables as tables

Question = tuple[int, int, int, int | None, list[int]]  # s, r, t, and o where the subject is asked for


def questions(dataset: Dataset, seed: int = 0) -> list[dict[str, Any]]:
    """Every question of the test part, in no order, with a list of its own of any length."""
    rng, test, n = np.random.default_rng(seed), dataset.test, dataset.vocab.num_entities
    facts = list(zip(test.s.tolist(), test.r.tolist(), test.o.tolist(), test.t.tolist(), strict=True))
    rows = dict.fromkeys([(s, r, None, t) for s, r, _, t in facts] + [(None, r, o, t) for _, r, o, t in facts])
    names = ("subject", "relation", "object", "time")
    return [
        dict(zip(names, row, strict=True)) | {"candidates": rng.permutation(n)[: rng.integers(n + 1)].tolist()}
        for row in rng.permutation(np.array(list(rows), dtype=object)).tolist()
    ]


def by_hand(rows: list[dict[str, Any]], dataset: Dataset) -> CandidateLists:
    s = [row["object"] if row["subject"] is None else row["subject"] for row in rows]
    r = [row["relation"] + (row["subject"] is None) * dataset.vocab.num_relations for row in rows]
    return candidate_lists(s, r, [row["time"] for row in rows], [row["candidates"] for row in rows])


def as_names(rows: list[dict[str, Any]], vocab: Vocabulary) -> list[dict[str, Any]]:
    def name(i: int | None) -> str | None:
        return None if i is None else vocab.entities[i]

    return [
        {
            "subject": name(row["subject"]) or "",
            "relation": vocab.relations[row["relation"]],
            "object": name(row["object"]),
            "time": row["time"],
            "candidates": [vocab.entities[i] for i in row["candidates"]],
        }
        for row in rows
    ]


@pytest.mark.parametrize("way", ["ids", "names", "dates", "file", "file in parts", "sorted", "pandas"])
def test_a_table_gives_the_lists_built_by_hand(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = make_dataset(4)
    rows = questions(dataset)
    expected = make_forecaster(dataset=dataset).evaluate(candidates=by_hand(rows, dataset))
    given: Any = rows
    if way == "sorted":
        given = sorted(rows, key=lambda row: (row["time"], row["subject"] is None, row["relation"]))
    if way in ("names", "dates", "pandas"):
        given = as_names(rows, dataset.vocab)
    if way == "dates":
        dataset = dated(dataset)
        given = [row | {"time": datetime.date(2024, 1, 1) + datetime.timedelta(days=row["time"])} for row in given]
    source: Any = pa.Table.from_pylist(given)
    if way == "pandas":
        source = source.to_pandas()
    if "file" in way:
        monkeypatch.setattr(tables, "ROWS", 3 if "parts" in way else tables.ROWS)
        pq.write_table(source, source := tmp_path / "lists.parquet", row_group_size=5)
    metrics = make_forecaster(dataset=dataset).evaluate(candidates=source)
    for name, ranks in expected.ranks.items():
        assert torch.equal(metrics.ranks[name].realistic, ranks.realistic)
    assert len(expected.ranks["raw"].realistic.unique()) > 5


def test_an_object_twice_in_a_list_counts_once_and_ids_take_four_bytes() -> None:
    dataset = make_dataset(4)
    rows = questions(dataset)
    twice = [row | {"candidates": [i for i in row["candidates"] for _ in range(2)]} for row in rows]
    lists, again = (
        read_candidates(pa.Table.from_pylist(table), dataset.vocab, dataset.clock) for table in (rows, twice)
    )
    assert lists.o.dtype == again.o.dtype == torch.int32
    assert torch.equal(lists.offset, again.offset)
    for k in range(len(lists.key)):
        of = slice(int(lists.offset[k]), int(lists.offset[k + 1]))
        assert set(lists.o[of].tolist()) == set(again.o[of].tolist())


FIRST = {"subject": 0, "relation": 0, "object": None, "time": 3, "candidates": [1, 2]}
WRONG: dict[str, tuple[list[dict[str, Any]], str]] = {
    "both sides": ([FIRST | {"object": 1}], "is not a question; expected a relation, and either"),
    "no side": ([FIRST | {"subject": None}], "is not a question"),
    "no relation": ([FIRST, FIRST | {"relation": None, "time": 4}], "is not a question"),
    "no time": ([FIRST, FIRST | {"time": None}], "a question has no time"),
    "no list": ([FIRST, FIRST | {"time": 4, "candidates": None}], "a question has no candidates"),
    "an empty cell": ([FIRST | {"candidates": [1, None]}], "an empty cell"),
    "an id too many": ([FIRST | {"candidates": [1, 12]}], "entity id 12 found; expected 0 to 11"),
    "an id below 0": ([FIRST | {"candidates": [1, -1]}], "entity id -1 found"),
    "an unknown name": ([FIRST | {"candidates": ["e1", "nobody"]}], "no entity 'nobody'"),
    "an unknown relation": ([FIRST | {"relation": 3}], "relation id 3 found; expected 0 to 2"),
    "two lists": ([FIRST, FIRST | {"candidates": [3]}], "ask the same question"),
    "no lists": ([FIRST | {"candidates": 1}], "holds int64; expected lists"),
    "no column": ([{"subject": 0, "time": 3, "candidates": [1]}], "no column 'relation'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_with_a_table_is_said(case: str) -> None:
    rows, message = WRONG[case]
    dataset = make_dataset(4)
    with pytest.raises(DataError, match=message):
        read_candidates(pa.Table.from_pylist(rows), dataset.vocab, dataset.clock)


def test_files_that_are_no_tables_and_values_that_are_none_are_refused(tmp_path: Path) -> None:
    dataset = make_dataset(4)
    (tmp_path / "text.parquet").write_text("no")
    for source in (tmp_path / "text.parquet", tmp_path / "none.parquet", 5):
        with pytest.raises(TangoError, match="expected a Parquet file"):
            read_candidates(source, dataset.vocab, dataset.clock)
    empty = pa.Table.from_pylist([FIRST]).slice(0, 0)
    with pytest.raises(DataError, match="the table has no rows"):
        read_candidates(empty, dataset.vocab, dataset.clock)


def test_ids_that_were_made_for_other_names_are_refused(tmp_path: Path) -> None:
    dataset = make_dataset(4)
    vocab, path = dataset.vocab, tmp_path / "lists.parquet"
    columns = {key: [value] for key, value in FIRST.items()}
    assert tables.write_candidates(path, iter([columns]), vocab) == 1
    assert read_candidates(path, vocab, dataset.clock).o.tolist() == [1, 2]
    other = Vocabulary(vocab.entities[::-1], vocab.relations)
    with pytest.raises(DataError, match="made for a data set with other names"):
        read_candidates(path, other, dataset.clock)
