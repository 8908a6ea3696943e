"""Rows of a database mean the same as those of a table, whichever database; what is written there comes back."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import tangokg as tk
from postgres_server import PASSWORD, USER, postgres, with_password
from tangokg.errors import DataError, TangoError
from tangokg.quads import streams
from tangokg.quads.sql import check_sink, write_table
from tangokg.quads.tables import open_table, read_table

__all__ = ["postgres"]

NAMES = ["Ann", "Bob", "Zoë", "O'Neil", 'the "north"', "東京"]
COLUMNS = ("who", "what", "whom", "date", "note")
EVENTS = [
    (NAMES[i % 6], ("calls", "visits")[i % 2], NAMES[(i * 5 + 2) % 6], f"2024-01-{i % 20 + 1:02}", "x" * 80)
    for i in range(300)
]
ROLES = {"subject": "who", "relation": "what", "object": "whom"}
ANSWERS = pa.table(
    {
        "query": pa.array([0, 0, 1], pa.int64()),
        "answer": ["Zoë", "O'Neil", None],
        "chance": [0.5, 0.25, None],
        "by": pa.array([True, False, None], pa.bool_()),
    }
)


def table() -> pa.Table:
    return pa.table(dict(zip(COLUMNS, map(list, zip(*EVENTS, strict=True)), strict=True)))


@pytest.fixture(params=["sqlite", "duckdb", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database with a table of the events, without what follows the question mark."""
    kind = request.param
    if kind == "postgresql":
        address = with_password(request.getfixturevalue("postgres"))
        import psycopg

        with psycopg.connect(address.replace(f"{USER}:", "postgres:"), autocommit=True) as connection:
            connection.execute("drop schema public cascade")
            connection.execute(f"create schema public authorization {USER}".encode())
        with psycopg.connect(address) as connection:
            connection.execute("create table events (who text, what text, whom text, date date, note text)")
            connection.cursor().executemany("insert into events values (%s, %s, %s, %s, %s)", EVENTS)
    elif kind == "sqlite":
        address = f"sqlite:///{tmp_path / 'world.db'}"
        with closing(sqlite3.connect(tmp_path / "world.db")) as lite:
            lite.execute("create table events (who text, what text, whom text, date text, note text)")
            lite.executemany("insert into events values (?, ?, ?, ?, ?)", EVENTS)
            lite.commit()
    else:
        address = f"duckdb:///{tmp_path / 'world.duckdb'}"
        with duckdb.connect(str(tmp_path / "world.duckdb")) as duck:
            duck.register("given", table())
            duck.execute("create table events as select * replace (date::date as date) from given")
    return address


def same(a: tk.Quadruples, b: tk.Quadruples) -> bool:
    columns = all(np.array_equal(getattr(a, c), getattr(b, c)) for c in "srot")
    return columns and (a.vocab, a.clock) == (b.vocab, b.clock)


def rows(address: str, name: str = "answers") -> list[dict[str, Any]]:
    source = open_table(f"{address}?table={name}")
    found: list[dict[str, Any]] = source.read(source.table.column_names).table.to_pylist()
    return found


def test_a_table_and_a_query_are_read_as_the_same_rows_in_memory(address: str) -> None:
    plain = read_table(table(), columns=ROLES)
    assert same(tk.read_events(f"{address}?table=events", columns=ROLES), plain)
    query = "select whom as object, who as subject, what as relation, date from events where what like 'c%'"
    some = read_table(table().filter(pa.array([row[1] == "calls" for row in EVENTS])), columns=ROLES)
    for found in (tk.read_events(address, query=query + ";"), tk.read_events(f"{address}?query={query}")):
        assert found.to_pandas().equals(some.to_pandas())
    dataset = tk.fit(f"{address}?table=events", "frequency", columns=ROLES, verbose=False).dataset
    assert same(dataset.facts, plain)
    assert dataset.name == "events"


def test_a_table_that_is_written_comes_back_and_one_that_exists_is_kept(address: str) -> None:
    sink, wanted = f"{address}?table=answers", ANSWERS.to_pylist()
    with pytest.raises(DataError, match="answers"):
        rows(address)
    write_table(ANSWERS, sink)
    assert rows(address) == [row | ({"by": row["by"]} if "sqlite" not in address else {}) for row in wanted]
    with pytest.raises(DataError, match=r"the table 'answers' exists. Add to the address &if_exists=append or"):
        write_table(ANSWERS, sink)
    with pytest.raises(DataError, match=r"the table 'answers' exists"):
        check_sink(sink)
    write_table(ANSWERS.select(["chance", "query", "by", "answer"]), f"{sink}&if_exists=append")
    assert rows(address) == wanted * 2, "columns are found by name"
    with pytest.raises(DataError, match=r"has no column share, so rows cannot be appended. Found query, answer"):
        write_table(ANSWERS.append_column("share", [[0.1] * 3]), f"{sink}&if_exists=append")
    assert rows(address) == wanted * 2
    write_table(ANSWERS.slice(1), f"{sink}&if_exists=replace")
    assert rows(address) == wanted[1:]
    write_table(ANSWERS, f"{address}?table=fresh&if_exists=append")
    assert rows(address, "fresh") == wanted


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("", r"say which rows, with a table or a query: postgresql://user@host/name\?table=events"),
        ("?table=nothing", "the rows cannot be read .*nothing"),
        ("?query=selct 1 from x", "the rows cannot be read .*selct"),
        ("?table=events", "no column for the subject. Found 'who', 'what', 'whom', 'date', 'note'"),
        ("?query=select who as s, what as r, whom as o, date, note as o2, who as o from events", "called 'o'"),
    ],
)
def test_rows_that_are_not_there_are_an_error(address: str, what: str, message: str) -> None:
    with pytest.raises(TangoError, match=message) as told:
        tk.read_events(address + what)
    assert PASSWORD not in str(told.value)


def test_bad_rows_are_counted_by_their_place(address: str) -> None:
    query = "select who, what, nullif(whom, 'Bob') as whom, date from events"
    with pytest.raises(DataError, match=r"50 of 300 rows cannot be used:\n  .*: row 2: the object is empty"):
        tk.read_events(address, query=query, columns=ROLES)
    assert len(tk.read_events(address, query=query, columns=ROLES, skip_bad=True)) == 250


def test_without_the_package_of_a_database_the_error_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("adbc_driver_postgresql", "adbc_driver_sqlite", "duckdb"):
        monkeypatch.setitem(sys.modules, module, None)
        monkeypatch.delitem(sys.modules, f"{module}.dbapi", raising=False)
    for kind in ("postgresql://u@h/d", "sqlite:///a.db", "duckdb:///a.db"):
        for use in (tk.read_events, check_sink):
            with pytest.raises(
                DataError, match=r"need the extra 'sql' \(.* is missing\): pip install 'tangokg\[sql\]'"
            ):
                use(f"{kind}?table=t")


@pytest.mark.parametrize(
    ("source", "query", "message"),
    [
        ("sqlite:///no.db?table=t", None, "sqlite:///no.db: there is no such database file"),
        ("duckdb:///no.db?table=t", None, "duckdb:///no.db: there is no such database file"),
        ("sqlite:///:memory:?table=t", None, "cannot be opened .expected a file, and no parameters"),
        ("duckdb:///:memory:?memory=1&query=select 1", None, "cannot be opened .*not recognized: memory"),
        ("sqlite:///no.db?table=t", "select 1", "the address has a table or a query already"),
        ("sqlite:///no.db", " ", "the query is empty"),
        ("world", "select 1", "a query is for a database, found str world"),
        (["a.tsv", "postgresql://u:hunter2@h/d?table=t"], None, "the address of a database stands alone"),
        (Path("sqlite:///no.db"), None, "the address of a database is a text, and a Path was given"),
        ("postgresql://u:hunter2@127.0.0.1:1/d?table=t", None, "postgresql://u@127.0.0.1:1/d: cannot be opened"),
    ],
)
def test_databases_that_cannot_be_read_say_why(source: Any, query: str | None, message: str) -> None:
    with pytest.raises(TangoError, match=message) as told:
        tk.read_events(source, query=query)
    assert "hunter" not in str(told.value)


@pytest.mark.parametrize(
    ("sink", "message"),
    [
        ("sqlite:///a.db", "name the table to write, such as sqlite:///answers.db"),
        ("duckdb:///:memory:?table=t", "a database in memory is lost at once; name a file"),
        ("sqlite:///no/folder/a.db?table=t", "sqlite:///no/folder/a.db: there is no such folder"),
        ("sqlite:///file.db?table=t", "cannot be|exists"),
    ],
)
def test_tables_that_cannot_be_written_say_why(
    sink: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file.db").write_text("this is no database, and is kept as it is" * 100)
    with pytest.raises(DataError, match=message):
        write_table(ANSWERS, sink)
    assert (tmp_path / "file.db").read_text().startswith("this is no database")


def test_a_published_format_is_of_files() -> None:
    with pytest.raises(DataError, match=r"sqlite:///a.db: --format icews reads files, and this is a database"):
        tk.read_events("sqlite:///a.db?table=t", format="icews")


def test_wrong_passwords_fail_without_being_told(postgres: str) -> None:
    for password in ("hunter2", "hunter 2/3@4?5#6&7%20"):
        with pytest.raises(DataError, match=r"password authentication failed .*PGPASSWORD") as told:
            tk.read_events(with_password(postgres, password) + "?table=events")
        assert "hunter" not in str(told.value)


def test_numbers_of_any_length_and_moments_of_postgresql_are_read(postgres: str) -> None:
    query = (
        "select 12::numeric as subject, 'r'::varchar(5) as relation, 9007199254740993::bigint as object, "
        "timestamptz '2024-01-01 12:30+02' + n * interval '1 hour' as time from generate_series(1, 9) n"
    )
    facts = tk.read_events(postgres, query=query, unit="hour")
    assert facts.vocab.entities == ("12", "9007199254740993")
    assert facts.clock.format(float(facts.moments[0])) == "2024-01-01T11:30:00"


def test_batches_of_any_size_give_the_same_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts are numbered as they come; what came before keeps its number."""
    plain = read_table(table(), columns=ROLES)
    for size in (1, 7, 64):
        monkeypatch.setattr(streams, "ROWS", size)
        batches = pa.Table.from_batches(table().to_batches(max_chunksize=5))
        for whole in (batches, batches.cast(_viewed(batches.schema)), _categories(batches)):
            assert same(
                read_table(pa.RecordBatchReader.from_batches(whole.schema, whole.to_batches()), columns=ROLES), plain
            )
    empty = table().slice(0, 0)
    with pytest.raises(DataError, match="the table holds column names but no facts"):
        read_table(pa.RecordBatchReader.from_batches(empty.schema, []), columns=ROLES)


def _viewed(schema: pa.Schema) -> pa.Schema:
    return pa.schema([(name, pa.string_view()) for name in schema.names])


def _categories(whole: pa.Table) -> pa.Table:
    return pa.table({name: whole.column(name).dictionary_encode() for name in whole.column_names})


BIG = """
import resource, sys
import tangokg as tk
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
facts = tk.read_events(sys.argv[1])
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(len(facts), facts.vocab.num_entities, facts.vocab.num_relations, (after - before) * 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured in the units of Linux")
@pytest.mark.parametrize("kind", ["parquet", "duckdb"])
def test_a_gigabyte_is_read_in_a_quarter_of_it(kind: str, tmp_path: Path) -> None:
    """DuckDB under a limit of 256 MB; what stays is the facts as numbers."""
    number, limit = 4_000_000, "memory_limit=256MB"
    rows = (
        "select 'actor ' || (i * 7919 % 5000) as subject, 'event ' || (i % 20) as relation, "
        "'actor ' || (i * 104729 % 5000) as object, date '2020-01-01' + (i // 4000)::int as time, "
        f"{' || '.join(f'md5((9 * i + {k})::text)' for k in range(9))} as note from range({number}) t(i)"
    )
    file = tmp_path / f"events.{kind}"
    with duckdb.connect(str(file) if kind == "duckdb" else ":memory:", config={"threads": 2}) as connection:
        if kind == "duckdb":
            connection.execute("pragma force_compression = 'uncompressed'")
            connection.execute(f"create table events as {rows}")
            source = f"duckdb:///{file}?{limit}&table=events"
        else:
            connection.execute(f"copy ({rows}) to '{file}' (compression uncompressed)")
            source = f"duckdb:///:memory:?{limit}&query=select * from '{file}'"
    assert file.stat().st_size > 1e9
    done = subprocess.run([sys.executable, "-c", BIG, source], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    facts, entities, relations, used = map(int, done.stdout.split())
    assert (facts, entities, relations) == (number, 5000, 20)
    numbers = number * 4 * 8  # s, r, o and t
    assert used < 256e6 + 6 * numbers < file.stat().st_size
