"""Tables of any make give the same facts; what cannot be read is said by file, line, finding and expectation."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tangokg.errors import DataError, TangoError
from tangokg.quads.clock import Clock
from tangokg.quads.tables import read_table
from tangokg.quads.values import Quadruples

NAMES = (
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8).map(str.strip).filter(bool)
)
DAYS = st.dates(date(1900, 1, 1), date(2100, 1, 1))
FACTS = st.lists(st.tuples(NAMES, NAMES, NAMES, DAYS), min_size=1, max_size=8)
EXAMPLE = [("Iran", "Consult", "China", date(2014, 1, 3)), ("China", "Praise", "Iran", date(2014, 1, 1))]


def named(facts: Quadruples) -> list[tuple[str, str, str, str]]:
    """Facts by name and date."""
    e, r = facts.vocab.entities, facts.vocab.relations
    columns = zip(facts.s, facts.r, facts.o, facts.t, strict=True)
    return [(e[s], r[p], e[o], facts.clock.format(t)) for s, p, o, t in columns]


def frame(facts: list[tuple[str, str, str, date]]) -> pa.Table:
    return pa.table(
        dict(zip(("subject", "relation", "object", "date"), map(list, zip(*facts, strict=True)), strict=True))
    )


def write_csv(table: pa.Table, path: Path, separator: str = ",") -> Path:
    quoted = [table.column_names, *([str(v) for v in row.values()] for row in table.to_pylist())]
    lines = (separator.join('"' + cell.replace('"', '""') + '"' for cell in row) for row in quoted)
    path.write_text("\n".join(lines), encoding="utf-8", newline="")
    return path


def write_parquet(table: pa.Table, path: Path) -> Path:
    pq.write_table(table, path)
    return path


def write_gzip(table: pa.Table, path: Path) -> Path:
    path.write_bytes(gzip.compress(write_csv(table, path).read_bytes()))
    return path


CARRIERS: dict[str, Callable[[pa.Table, Path], Any]] = {
    "csv": write_csv,
    "tsv": lambda table, path: write_csv(table, path, "\t"),
    "semicolons": lambda table, path: write_csv(table, path, ";"),
    "csv.gz": write_gzip,
    "parquet": write_parquet,
    "arrow": lambda table, path: table,
    "arrow batch": lambda table, path: table.combine_chunks().to_batches()[0],
    "pandas": lambda table, path: pd.DataFrame(table.to_pylist()),
    "pandas categories": lambda table, path: pd.DataFrame(table.to_pylist()).astype({"subject": "category"}),
    "polars": lambda table, path: pl.DataFrame(table),
    "duckdb": lambda table, path: duckdb.from_arrow(table),
}


@pytest.mark.parametrize("carrier", CARRIERS)
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(facts=FACTS)
def test_every_carrier_gives_back_the_facts_in_time_order(
    carrier: str, tmp_path: Path, facts: list[tuple[str, str, str, date]]
) -> None:
    read = read_table(CARRIERS[carrier](frame(facts), tmp_path / "events"), unit="day")
    assert named(read) == [(s, r, o, t.isoformat()) for s, r, o, t in sorted(facts, key=lambda fact: fact[3])]
    assert read.clock == Clock("day", min(fact[3] for fact in facts).isoformat())
    assert read.vocab.entities == tuple(dict.fromkeys([*(f[0] for f in facts), *(f[2] for f in facts)]))


def read_text(tmp_path: Path, text: str | bytes, name: str = "events.csv", **options: Any) -> Quadruples:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_table(path, **options)


@pytest.mark.parametrize(
    "header",
    [
        "subject,relation,object,time",
        "S,R,O,T",
        "head,Predicate,tail,Date",
        "Source Name,Event Text,Target Name,Event Date",
        "actor1,action,actor2,timestamp",
        "src,type,dst,ts",
        "from,label,to,day",
        " subject , relation , object , year ",
    ],
)
def test_columns_are_found_by_name(tmp_path: Path, header: str) -> None:
    assert named(read_text(tmp_path, f"{header}\na,b,c,7\n")) == [("a", "b", "c", "7")]


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint8(), pa.string()], ids=str)
def test_ids_are_names_whatever_their_type(kind: pa.DataType) -> None:
    """Numbers as such or as text, in chunks, with and without blanks around them, in either column."""
    rng = np.random.default_rng(0)
    s, r, o = rng.integers(0, 9, (3, 40))
    text = pa.table({"s": s.astype(str), "r": r.astype(str), "o": np.char.add(" ", o.astype(str)), "t": np.arange(40)})
    typed = pa.table(
        {"s": pa.array(s).cast(kind), "r": pa.array(r).cast(kind), "o": pa.array(o).cast(kind), "t": text["t"]}
    )
    typed = pa.concat_tables([typed.slice(0, 7), typed.slice(7)])
    a, b = read_table(text), read_table(typed)
    assert a.vocab == b.vocab
    assert all((getattr(a, column) == getattr(b, column)).all() for column in "srot")
    assert named(b) == list(zip(*(column.astype(str).tolist() for column in (s, r, o, np.arange(40))), strict=True))
    holes = pa.table({"s": pa.array([1, 2, None]), "r": [1, 1, 1], "o": [1, 1, 1], "t": [1, 2, 3]})
    with pytest.raises(DataError, match="table: row 3: the subject is empty"):
        read_table(holes)


def test_a_row_of_empty_cells_is_a_blank_line(tmp_path: Path) -> None:
    (tmp_path / "events.csv").write_text('s,r,o,t\na,b,c,1\n,,,\nd,b,c,2\n"", ,,\n,,,\n')
    facts = read_table(tmp_path / "events.csv")
    assert facts.t.tolist() == [1, 2]
    assert facts.vocab.entities == ("a", "d", "c")


def test_columns_can_be_given_and_their_own_name_wins(tmp_path: Path) -> None:
    text = "x,label,relation,y,when\na,no,b,c,3\n"
    columns = {"subject": "x", "object": "y", "time": "when"}
    assert named(read_text(tmp_path, text, columns=columns)) == [("a", "b", "c", "3")]


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        ("2014-11-26", None, "2014-11-26"),
        ("2014-11-26T23:59:59", None, "2014-11-26"),
        ("2014-11-26 23:59", "hour", "2014-11-26T23:00:00"),
        ("2014-11-26T23:30:00-02:00", "hour", "2014-11-27T01:00:00"),
        ("2014-11-26T23:59:59.123456789", "second", "2014-11-26T23:59:59"),
        ("2014-11", "month", "2014-11"),
        ("2014-11-26", "year", "2014"),
        ("1066-10-14", "day", "1066-10-14"),
        ("-12", None, "-12"),
        ("2014", "year", "2014"),
    ],
)
def test_times_are_read_and_rounded_down_to_the_unit(
    tmp_path: Path, value: str, unit: str | None, expected: str
) -> None:
    assert named(read_text(tmp_path, f"s,r,o,t\na,b,c, {value} \n", unit=unit))[0][3] == expected


@pytest.mark.parametrize(
    "times",
    [
        pa.array([date(2014, 1, 2), date(2014, 1, 1)], pa.date32()),
        pa.array([date(2014, 1, 2), date(2014, 1, 1)], pa.date64()),
        pa.array([datetime(2014, 1, 2, 5), datetime(2014, 1, 1, 23)], pa.timestamp("ns")),
        pa.array([datetime(2014, 1, 2, 5), datetime(2014, 1, 1, 23)], pa.timestamp("s", "Asia/Tokyo")),
        pa.array(["2014-01-02", "2014-01-01"]).dictionary_encode(),
        pa.array(["2014-01-02", "2014-01-01"], pa.string_view()),
    ],
    ids=lambda times: str(times.type)[:20],
)
def test_arrow_dates_of_any_type(times: pa.Array) -> None:
    table = pa.table({"s": [1, 2], "r": ["b", "b"], "o": ["c", "1"], "t": times})
    assert named(read_table(table)) == [("2", "b", "1", "2014-01-01"), ("1", "b", "c", "2014-01-02")]


def test_whole_floats_are_times_and_others_are_not() -> None:
    columns = {"s": ["a", "b"], "r": ["b", "b"], "o": ["c", "c"]}
    assert read_table(pa.table(columns | {"t": [3.0, 1.0]})).t.tolist() == [1, 3]
    for bad in (1.5, float("nan"), float("inf"), 1e300):
        with pytest.raises(DataError, match=r"table: row 2: time .* found; expected a whole number"):
            read_table(pa.table(columns | {"t": [3.0, bad]}))


@given(rows=st.lists(st.tuples(st.integers(0, 9), st.none() | st.integers(0, 9)), min_size=1, max_size=6))
def test_intervals_hold_at_every_step_of_theirs(rows: list[tuple[int, int | None]]) -> None:
    rows = [(a, b if b is None or b >= a else a) for a, b in rows]
    table = pa.table(
        {
            "s": [str(i) for i in range(len(rows))],
            "r": ["r"] * len(rows),
            "o": ["o"] * len(rows),
            "start": pa.array([a for a, _ in rows], pa.int64()),
            "end": pa.array([b for _, b in rows], pa.int64()),
        }
    )
    last = max(max(a, b or 0) for a, b in rows)
    slow = sorted((t, i) for i, (a, b) in enumerate(rows) for t in range(a, (last if b is None else b) + 1))
    facts = read_table(table)
    assert sorted(zip(facts.t.tolist(), facts.s.tolist(), strict=True)) == slow
    assert (np.diff(facts.t) >= 0).all()


def test_dated_intervals_with_years_and_open_ends(tmp_path: Path) -> None:
    text = "s,r,o,start_date,end_date\na,b,c,2000-05-01,2002\nd,b,e,2001,\n"
    facts = read_text(tmp_path, text, unit="year")
    assert [fact[::3] for fact in named(facts)] == [
        ("a", "2000"), ("a", "2001"), ("d", "2001"), ("a", "2002"), ("d", "2002"),
    ]  # fmt: skip


HEAD = "s,r,o,t\n"
WRONG: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", r"events.csv: the file is empty"),
    "blank": (" \n\n", r"events.csv: the file is empty"),
    "header only": (HEAD, r"events.csv: the table holds column names but no facts"),
    "unended header": (HEAD.strip(), r"events.csv: the table holds column names but no facts"),
    "pdf": (b"%PDF-1.7 ...", r"events.csv: this is a PDF, not a table. Export it as CSV"),
    "workbook": (b"PK\x03\x04 ...", r"this is a zip archive or an Excel workbook"),
    "binary": (b"s,r,o,t\n\0\1\2", r"events.csv:2: a NUL byte found; expected UTF-8 text"),
    "latin": ("s,r,o,t\na,b,c,1\nü,b,c,2\n".encode("latin-1"), r"events.csv:3: byte 0xfc is not UTF-8.*--format icews"),
    "gzip": (b"\x1f\x8b\x08 broken", r"events.csv: the gzip file is damaged"),
    "parquet": (b"PAR1 broken PAR1", r"events.csv: the Parquet file is damaged"),
    "short row": (HEAD + "a,b,c,1\n\na,b,c\n", r"events.csv:4: 3 cells found; expected 4, as in the header"),
    "short row of blanks": (HEAD + "a,b,c,1\n,,\n", r"events.csv:3: 3 cells found; expected 4, as in the header"),
    "time after a row of blanks": (HEAD + "a,b,c,1\n, ,,\n\na,b,c,x\n", r"events.csv:5: time 'x' found"),
    "only blanks": (HEAD + ",,,\n", r"events.csv: the table holds column names but no facts"),
    "long row": (HEAD + "a,b,c,1,9\n", r"events.csv:2: 5 cells found; expected 4"),
    "open quote": ('"s,r,o,t\na,b,c,1\n', r"events.csv: no table .* Is a quote left open\?"),
    "twice": ("s,r,o,t,s\na,b,c,1,2\n", r"events.csv: 2 columns are called 's'"),
    "no time": (
        "s,r,o,moment\na,b,c,1\n",
        r"no column for the time. Found 's', 'r', 'o', 'moment'; expected one called time",
    ),
    "two": ("s,r,o,date,ts\na,b,c,1,1\n", r"columns 'date', 'ts' may each be the time"),
    "both": ("s,r,o,t,start,end\na,b,c,1,1,1\n", r"both 't' and 'start' may be the time of a fact. Say which"),
    "empty name": (HEAD + "a,b,c,1\n  ,b,c,1\n", r"events.csv:3: the subject is empty; expected a name"),
    "after break": (HEAD + '"a\na",b,c,1\nd,b,"",1\n', r"events.csv:4: the object is empty"),
    "empty time": (HEAD + "a,b,c,1\na,b,c,\n", r"events.csv:3: the time is empty"),
    "bad date": (
        HEAD + "a,b,c,2014-01-01\na,b,c,2014-02-30\n",
        r"events.csv:3: time '2014-02-30' found; expected an ISO",
    ),
    "bad number": (HEAD + "a,b,c,1\na,b,c,x\n", r"events.csv:3: time 'x' found; expected a whole number"),
    "huge": (HEAD + "a,b,c,1\na,b,c,99999999999999999999\n", r"events.csv:3: time '9+' found; expected a whole number"),
    "large": (HEAD + "a,b,c,1\na,b,c,9007199254740993\n", r"events.csv:3: time 9007199254740993 found"),
    "backwards": ("s,r,o,start,end\na,b,c,5,6\na,b,c,5,4\n", r"events.csv:3: the end 4 lies before the start 5"),
    "no start": ("s,r,o,start,end\na,b,c,,6\n", r"events.csv:2: the start is empty"),
    "too many": ("s,r,o,start,end\na,b,c,1,99999999\n", r"99,999,999 and more than 50,000,000. Take a coarser unit"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said(tmp_path: Path, case: str) -> None:
    text, message = WRONG[case]
    with pytest.raises(DataError, match=message):
        read_text(tmp_path, text)


def test_wrong_options_and_sources_are_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="unknown column role 'who'"):
        read_text(tmp_path, HEAD + "a,b,c,1\n", columns={"who": "s"})
    with pytest.raises(DataError, match="unknown column 'subj'"):
        read_text(tmp_path, HEAD + "a,b,c,1\n", columns={"subject": "subj"})
    with pytest.raises(DataError, match="unknown time unit 'fortnight'"):
        read_text(tmp_path, HEAD + "a,b,c,2014-01-01\n", unit="fortnight")
    with pytest.raises(DataError, match="plain steps have no origin"):
        read_text(tmp_path, HEAD + "a,b,c,2014-01-01\n", unit="step")
    with pytest.raises(DataError, match="no such file"):
        read_table(tmp_path / "missing.csv")
    with pytest.raises(DataError, match="cannot be read"):
        read_table(tmp_path)
    with pytest.raises(DataError, match="a list is no table"):
        read_table([1, 2])
    with pytest.raises(DataError, match="is of type double; expected names or ids"):
        read_table(pa.table({"s": [1.5], "r": ["b"], "o": ["c"], "t": [1]}))
    with pytest.raises(DataError, match="a column has no single type"):
        read_table(pd.DataFrame({"s": ["a", 1], "r": "b", "o": "c", "t": 1}))
    with pytest.raises(DataError, match="starts are dates but ends are numbers"):
        read_table(pa.table({"s": ["a"], "r": ["b"], "o": ["c"], "start": [date(2014, 1, 1)], "end": [5]}))


CELLS = st.one_of(
    st.text(max_size=6),
    st.sampled_from(
        ["", "1", "2014-01-01", "2014-02-30", "9" * 30, "-0", "nan", '"', '""', 'a"b', "0x1f", "1e9", "\ufeff"]
    ),
    st.integers(-(2**70), 2**70).map(str),
    st.dates().map(str),
    st.datetimes().map(str),
)


@st.composite
def damaged_tables(draw: st.DrawFn) -> bytes:
    """A table of cells that are right, odd or wrong, with bytes dropped in, taken out or cut off."""
    separator, newline = draw(st.sampled_from([",", "\t", ";"])), draw(st.sampled_from(["\n", "\r\n", "\r"]))
    header = draw(st.sampled_from(["s,r,o,t", "s,r,o,start,end", "subject,relation,object,time,note", "a,b,c"])).split(
        ","
    )
    good = [st.sampled_from(["Iran", " Ü b", '"q, q"', "7"])] * 3 + [st.dates().map(str) | st.just("7")] * (
        len(header) - 3
    )
    odd = [draw(st.integers(0, len(header))) == column for column in range(len(header))]  # columns of anything
    row = st.tuples(*(CELLS if is_odd else cell for cell, is_odd in zip(good, odd, strict=True)))
    ragged = st.lists(CELLS, min_size=1, max_size=6)
    rows = draw(st.lists(row | row | row | row | row | ragged, max_size=6))
    data = newline.join(separator.join(row) for row in [header, *rows]).encode("utf-8", "surrogatepass")
    data = draw(st.sampled_from([b"", b"\xef\xbb\xbf", b"\n\n"])) + data
    for _ in range(draw(st.sampled_from([0, 0, 1, 3]))):
        at = draw(st.integers(0, len(data)))
        junk = draw(
            st.sampled_from([b"", b"\0", b"\xff", b'"', b"\r", b"\n", b"\x1f\x8b", b"PAR1"]) | st.binary(max_size=3)
        )
        data = data[:at] + junk + data[at + draw(st.integers(0, 3)) :]
    packed = gzip.compress(data)
    return draw(st.sampled_from([data, data, data, packed, packed[: draw(st.integers(1, 200))]]))


@st.composite
def damaged_json(draw: st.DrawFn) -> bytes:
    """JSON lines with cells of any kind, some missing, and lines that are no objects."""
    cell = (
        st.sampled_from(["Iran", "7", "2014-01-01", ""])
        | CELLS
        | st.none()
        | st.integers()
        | st.floats()
        | st.booleans()
    )
    row = st.fixed_dictionaries(
        {"s": cell, "r": cell, "o": cell}, optional={"t": cell, "x": st.lists(cell, max_size=2)}
    )
    lines = draw(st.lists(row.map(json.dumps) | st.text(max_size=9), max_size=6))
    return ('{"s": "a", "r": "b", "o": "c", "t": "2014-01-01"}\n' + "\n".join(lines)).encode("utf-8", "surrogatepass")


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    data=damaged_tables() | damaged_json() | st.binary(max_size=60),
    unit=st.sampled_from([None, "year", "hour", "step"]),
    options=st.fixed_dictionaries(
        {},
        optional={
            "skip_bad": st.booleans(),
            "timezone": st.sampled_from(["UTC", "Asia/Tokyo"]),
            "date_format": st.sampled_from(["%Y-%m-%d", "unix"]),
            "relation": st.just("meets"),
        },
    ),
)
def test_damaged_tables_end_in_facts_or_in_our_error(
    tmp_path: Path, data: bytes, unit: str | None, options: dict[str, Any]
) -> None:
    try:
        facts = read_text(tmp_path, data, unit=unit, **options)
    except TangoError:
        return
    assert len(facts) > 0
    assert facts.s.max() < facts.vocab.num_entities
    assert all([*facts.vocab.entities, *facts.vocab.relations])
    assert (np.diff(facts.t) >= 0).all()
