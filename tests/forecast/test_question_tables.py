"""Many questions in a table are the same questions asked one by one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conftest import N, dated, make_dataset, make_forecaster
from tangokg.errors import DataError
from tangokg.forecast import Forecaster, answering
from tangokg.forecast.tables import open_questions
from tangokg.models import MODELS

FACTS = make_dataset(1).facts
TIMES = np.unique(FACTS.t)
Columns = dict[str, list[Any]]

QUESTIONS: Columns = {
    "subject": ["e3", None, "e0", "e11", "e3", "e3"],
    "relation": ["r1", "r2", None, "r0", "r1", "r1"],
    "object": [None, "e4", "e5", None, None, None],
    "time": [float(TIMES[-1] + 2), float(TIMES[3]), float(TIMES[5] + 0.5), float(TIMES[2]), float(TIMES[4]), None],
}


def csv_file(columns: Columns, folder: Path) -> Path:
    pd.DataFrame(columns).to_csv(folder / "questions.csv", index=False)
    return folder / "questions.csv"


def parquet_file(columns: Columns, folder: Path) -> str:
    pq.write_table(pa.table(columns), folder / "questions.parquet")
    return str(folder / "questions.parquet")


def relation(columns: Columns, folder: Path) -> Any:
    connection = duckdb.connect()
    connection.register("given", pa.table(columns))
    return connection.sql("select * from given")


SOURCES: dict[str, Callable[[Columns, Path], Any]] = {
    "pandas": lambda columns, _: pd.DataFrame(columns),
    "polars": lambda columns, _: pl.DataFrame(columns),
    "arrow": lambda columns, _: pa.table(columns),
    "duckdb": relation,
    "csv": csv_file,
    "parquet": parquet_file,
}


def one_by_one(asked: Forecaster, columns: Columns, **options: Any) -> list[dict[str, Any]]:
    rows = []
    for i in range(len(next(iter(columns.values())))):
        cell = {name: values[i] for name, values in columns.items()}
        at = cell.pop("time", None)
        found = asked.forecast(**cell, at=at, **options)
        question = {"query": i, "subject": found.subject, "relation": found.relation, "object": found.object}
        for place, answer in enumerate(found.answers, 1):
            named = {column: getattr(answer, column) for column in ("share", "chance", "seen", "last")}
            named |= {"answer": answer.name}
            rows.append(question | {"time": found.at, "rank": place, "by": found.by, "happens": found.happens} | named)
    return rows


def check(table: pa.Table, expected: list[dict[str, Any]]) -> None:
    found = table.to_pylist()
    assert len(found) == len(expected)
    for row, other in zip(found, expected, strict=True):
        for column in ("share", "chance", "happens"):
            value = other.pop(column)
            assert row.pop(column) == (None if value is None else pytest.approx(value, rel=1e-6, abs=1e-12))
        assert row == other


@pytest.mark.parametrize("kind", SOURCES)
def test_a_table_of_any_kind_equals_its_questions_one_by_one(kind: str, tmp_path: Path) -> None:
    asked = make_forecaster()
    check(asked.forecast_table(SOURCES[kind](QUESTIONS, tmp_path), top=4), one_by_one(asked, QUESTIONS, top=4))


@pytest.mark.parametrize("name", MODELS)
def test_every_model_answers_tables_in_any_order_of_rows(name: str) -> None:
    asked = make_forecaster(name)
    for order in ([5, 3, 1, 0, 4, 2], [2, 2, 0]):
        shuffled = {column: [values[i] for i in order] for column, values in QUESTIONS.items()}
        check(asked.forecast_table(pa.table(shuffled), top=N), one_by_one(asked, shuffled, top=N))


def test_batches_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = make_forecaster()
    many = {column: values * 3 for column, values in QUESTIONS.items()}
    expected = asked.forecast_table(pa.table(many), top=3)
    monkeypatch.setattr(answering, "BATCH", 4)
    check(asked.forecast_table(pa.table(many), top=3), expected.to_pylist())


def test_missing_columns_are_asked_for_and_a_missing_time_is_given_once() -> None:
    asked = make_forecaster()
    columns: Columns = {" Subject": ["e3", "e0"], "RELATION": ["r1", "r2"]}
    plain = {"subject": ["e3", "e0"], "relation": ["r1", "r2"]}
    at = float(TIMES[4])
    check(asked.forecast_table(pa.table(columns)), one_by_one(asked, plain))
    check(asked.forecast_table(pa.table(columns), at=at), one_by_one(asked, plain | {"time": [at, at]}))


def test_headings_are_those_of_facts_or_named(tmp_path: Path) -> None:
    asked = make_forecaster()
    expected = one_by_one(asked, QUESTIONS, top=2)
    headings = dict(zip(QUESTIONS, ("Actor1", "event_type", "target", "date"), strict=True))
    table = pa.table({headings[role]: cells for role, cells in QUESTIONS.items()} | {"note": ["x"] * 6})
    check(asked.forecast_table(table, top=2), [dict(row) for row in expected])
    named = pa.table({f"my {role}": cells for role, cells in QUESTIONS.items()})
    source = open_questions(named, {role: f"my {role}" for role in QUESTIONS})
    check(asked.forecast_table(source, top=2), expected)
    with pytest.raises(DataError, match=r"columns 'head', 'src' may each be the subject"):
        asked.forecast_table(pa.table({"head": ["e3"], "src": ["e3"], "relation": ["r1"]}))
    with pytest.raises(DataError, match=r"unknown column role 'start'"):
        open_questions(named, {"start": "my time"})


def test_empty_cells_blanks_and_question_marks_are_what_is_asked(tmp_path: Path) -> None:
    asked = make_forecaster()
    path = tmp_path / "questions.csv"
    at = int(TIMES[-1])
    path.write_text(f"subject,relation,object,time\ne3,r1,,{at}\ne3, ,e4,{at}\n?,r1,e4,{at}\n e3 ,r1,?, \n")
    expected: Columns = {
        "subject": ["e3", "e3", None, "e3"],
        "relation": ["r1", None, "r1", "r1"],
        "object": [None, "e4", "e4", None],
        "time": [at, at, at, at - 1],
    }
    check(asked.forecast_table(path, at=at - 1, top=2), one_by_one(asked, expected, top=2))


@pytest.mark.parametrize(
    "cell", ["2024-01-19", date(2024, 1, 19), datetime(2024, 1, 19, 12), pd.Timestamp("2024-01-19 06:00"), 18.5]
)
def test_cells_with_dates_are_times_of_the_clock(cell: Any) -> None:
    asked = make_forecaster("frequency", dated(make_dataset(1)))
    columns: Columns = {"subject": ["e3"], "relation": ["r1"], "time": [cell]}
    expected = one_by_one(asked, columns)
    for table in (pd.DataFrame(columns), pl.DataFrame(columns)):
        check(asked.forecast_table(table), [dict(row) for row in expected])


def test_decimals_are_numbers() -> None:
    asked = make_forecaster("frequency")
    columns: Columns = {"subject": ["e3"], "relation": ["r1"], "time": [Decimal("18.5")]}
    check(asked.forecast_table(pa.table(columns)), one_by_one(asked, columns | {"time": [18.5]}))


def test_the_table_of_answers_has_fixed_types() -> None:
    table = make_forecaster("frequency").forecast_table(pa.table({"subject": ["e3"], "relation": ["r0"]}), top=1)
    assert {field.name: str(field.type) for field in table.schema} == {
        "query": "int64", "subject": "string", "relation": "string", "object": "string", "time": "string",
        "by": "bool", "rank": "int64", "answer": "string", "share": "double", "chance": "double", "happens": "double",
        "seen": "int64", "last": "string",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("subject,relation\ne3,r1\ne33,r1\n", r"questions.csv:3: unknown entity 'e33'. Did you mean 'e3'"),
        ("subject,relation\ne3,r1\n\n\ne3,s1\n", r"questions.csv:5: unknown relation 's1'"),
        ("subject,relation,time\n,,9\n", r"questions.csv:2: the row is empty: expected at least one of subject"),
        ("subject,relation,time\ne3,r1,9\ne3,r1,soon\n", r"questions.csv:3: time 'soon'.*a number is expected"),
        ("subject,relation,time\ne3,r1,-5\n", r"questions.csv:2: time -5: nothing is known before it"),
        (
            "name,verb\ne3,r1\n",
            r"questions.csv: columns 'name', 'verb' found; expected some of subject, relation.*--column",
        ),
        ("subject,relation\n", r"questions.csv: the table holds column names but no questions"),
    ],
)
def test_a_bad_row_is_named(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "questions.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        make_forecaster("frequency").forecast_table(tmp_path / "questions.csv")


def test_bad_rows_of_a_table_object_are_counted_from_one() -> None:
    with pytest.raises(DataError, match=r"table: row 2: unknown entity 'x'"):
        make_forecaster("frequency").forecast_table(pd.DataFrame({"subject": ["e1", "x"], "relation": ["r1", "r1"]}))


def test_an_empty_table_and_what_is_no_table() -> None:
    asked = make_forecaster("frequency")
    with pytest.raises(DataError, match="table: the table holds column names but no questions"):
        asked.forecast_table(pd.DataFrame({"subject": [], "relation": []}))
    with pytest.raises(DataError, match="a list is no table"):
        asked.forecast_table([("e3", "r1")])
    with pytest.raises(DataError, match="top must be at least 1, found 0"):
        asked.forecast_table(pa.table({"subject": ["e3"], "relation": ["r1"]}), top=0)
    with pytest.raises(DataError, match=r"row 1: time '2024-01-01'.*a number is expected"):
        asked.forecast_table(pa.table({"subject": ["e3"], "relation": ["r1"]}), at="2024-01-01")
