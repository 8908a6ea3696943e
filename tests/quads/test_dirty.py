"""Dirty tables: bad rows are counted together and skipped on request; headers, headings and formats are recognised."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from tangokg.errors import DataError
from tangokg.quads.columns import FURTHER, RECOGNISED, ROLES
from tangokg.quads.headers import GDELT
from tangokg.quads.tables import read_table
from tangokg.quads.values import Quadruples

HEAD = "s,r,o,t\n"
GOOD = "".join(f"a,r,b,2024-01-{day:02}\n" for day in range(1, 10))
BAD = {
    "no subject": (",r,b,2024-01-05", "the subject is empty"),
    "no relation": ("a, ,b,2024-01-05", "the relation is empty"),
    "no object": ("a,r,,2024-01-05", "the object is empty"),
    "no time": ("a,r,b,", "the time is empty"),
    "no date": ("a,r,b,soon", "time 'soon' found; expected an ISO date"),
    "no such day": ("a,r,b,2024-02-30", "time '2024-02-30' found"),
    "never": ("a,r,b,9999-12-31", "time 9999-12-31 found; expected a date before"),
    "short": ("a,r,b", "3 cells found; expected 4"),
    "long": ("a,r,b,2024-01-05,x", "5 cells found; expected 4"),
}


def write(tmp_path: Path, text: str, name: str = "events.csv") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def named(facts: Quadruples) -> list[tuple[str, str, str, str]]:
    e, r = facts.vocab.entities, facts.vocab.relations
    rows = zip(facts.s, facts.r, facts.o, facts.t, strict=True)
    return [(e[s], r[p], e[o], facts.clock.format(float(t))) for s, p, o, t in rows]


@pytest.mark.parametrize("case", BAD)
def test_a_bad_row_is_named_and_skipped_on_request(tmp_path: Path, case: str) -> None:
    row, message = BAD[case]
    path = write(tmp_path, HEAD + GOOD + row + "\nx,r,y,2024-02-01\n")
    with pytest.raises(DataError, match=rf"events.csv:11: {message}") as raised:
        read_table(path)
    assert "--skip-bad" in str(raised.value)
    facts = read_table(path, skip_bad=True)
    assert named(facts) == [*named(read_table(write(tmp_path, HEAD + GOOD))), ("x", "r", "y", "2024-02-01")]
    assert facts.vocab.entities == ("a", "x", "b", "y"), "names of bad rows alone are not known"
    assert any(
        note.startswith("1 of 11 rows was left out (--skip-bad), the first: events.csv:11: ") for note in facts.notes
    )


def test_all_bad_rows_are_counted_and_the_first_few_are_shown(tmp_path: Path) -> None:
    rows = [row for row, _ in BAD.values()]
    path = write(tmp_path, HEAD + "\n".join(rows) + "\n" + GOOD)
    with pytest.raises(DataError, match=f"{len(rows)} of {len(rows) + 9} rows cannot be used:") as raised:
        read_table(path)
    assert 3 <= str(raised.value).count("\n  events.csv:") <= 5
    facts = read_table(path, skip_bad=True)
    assert len(facts) == 9
    assert any(note.startswith(f"{len(rows)} of {len(rows) + 9} rows were left out") for note in facts.notes)


def test_lines_after_rows_of_another_length_are_counted_right(tmp_path: Path) -> None:
    path = write(tmp_path, HEAD + "a,r\n\n" + GOOD + "a,r,b,soon\n")
    with pytest.raises(DataError, match=r"events.csv:2: 2 cells found.*\n  events.csv:13: time 'soon'"):
        read_table(path)


def test_bad_rows_are_told_in_the_order_of_their_lines(tmp_path: Path) -> None:
    path = write(tmp_path, HEAD + "a,r,b,soon\n" + GOOD + "a,r\n,r,b,2024-01-01\n")
    with pytest.raises(DataError, match=r"(?s)events.csv:2: time.*events.csv:12: 2 cells.*events.csv:13: the subject"):
        read_table(path)


def test_a_table_of_bad_rows_alone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="2 of 2 rows cannot be used"):
        read_table(write(tmp_path, HEAD + "a,r,b,soon\na,r,,2024-01-01\n"), skip_bad=True)


def test_bad_rows_of_a_frame_and_of_intervals() -> None:
    frame = pd.DataFrame({"s": ["a", None, "c"], "r": "r", "o": "o", "t": ["2024-01-01", "2024-01-02", None]})
    with pytest.raises(DataError, match=r"2 of 3 rows cannot be used:\n  table: row 2: the subject.*\n  table: row 3"):
        read_table(frame)
    assert len(read_table(frame, skip_bad=True)) == 1
    held = pa.table(
        {"s": list("abc"), "r": ["r"] * 3, "o": ["o"] * 3, "start": [5, 1, None], "end": pa.array([4, 2, 3])}
    )
    with pytest.raises(
        DataError, match=r"row 1: the end 4 lies before the start 5.*\n  table: row 3: the start is empty"
    ):
        read_table(held)
    assert read_table(held, skip_bad=True).t.tolist() == [1, 2]


# One relation


def test_one_relation_for_all_rows(tmp_path: Path) -> None:
    path = write(tmp_path, "winner,loser,date\na,b,2024-01-01\n")
    columns = {"subject": "winner", "object": "loser"}
    with pytest.raises(DataError, match=r"no column for the relation.*--relation NAME"):
        read_table(path, columns=columns)
    assert named(read_table(path, columns=columns, relation=" beats ")) == [("a", "beats", "b", "2024-01-01")]
    with pytest.raises(DataError, match=r"one relation for all rows .* or a column for it, not both"):
        read_table(path, columns=columns | {"relation": "loser"}, relation="beats")
    with pytest.raises(DataError, match="is empty; expected a name"):
        read_table(path, columns=columns, relation=" ")


def test_one_relation_wins_over_a_column_that_would_fit(tmp_path: Path) -> None:
    path = write(tmp_path, "s,type,o,t\na,x,b,1\n")
    assert named(read_table(path, relation="beats")) == [("a", "beats", "b", "1")]


# JSON lines


def test_json_lines_are_a_table(tmp_path: Path) -> None:
    rows = [{"subject": "a", "relation": "r", "object": "b", "time": "2024-01-02"}]
    rows += [{"time": "2024-01-01", "object": "ü", "subject": "c", "relation": "r"}]
    for name in ("events.jsonl", "events.json", "events.csv"):
        path = write(tmp_path, "\n".join(json.dumps(row) for row in rows) + "\n\n", name)
        assert named(read_table(path)) == [("c", "r", "ü", "2024-01-01"), ("a", "r", "b", "2024-01-02")]
    numbers = write(
        tmp_path, '{"s": 1, "r": 2, "o": 3, "t": 5}\n{"s": 1, "r": 2, "o": 4, "t": 4, "x": [1]}\n', "n.jsonl"
    )
    assert named(read_table(numbers)) == [("1", "2", "4", "4"), ("1", "2", "3", "5")]


@pytest.mark.parametrize("line", ['{"s": "a",', '"text"', "[1, 2]", '{"s": "\\ud800", "r": "r", "o": "o", "t": 1}'])
def test_a_line_that_is_no_object_is_a_bad_row(tmp_path: Path, line: str) -> None:
    good = '{"s": "a", "r": "r", "o": "o", "t": 1}\n'
    path = write(tmp_path, good + "\n" + line + "\n" + good, "events.jsonl")
    with pytest.raises(DataError, match=r"events.jsonl:3: .*expected one"):
        read_table(path)
    assert len(read_table(path, skip_bad=True)) == 2


def test_a_missing_value_in_json_has_its_line(tmp_path: Path) -> None:
    good = '{"s": "a", "r": "r", "o": "o", "t": 1}\n'
    path = write(
        tmp_path, good + '\n{"s": null, "r": "r", "o": "o", "t": 1}\n{"s": "b", "r": "r", "o": "o"}\n', "e.jsonl"
    )
    with pytest.raises(DataError, match=r"\n  e.jsonl:3: the subject is empty.*\n  e.jsonl:4: the time is empty"):
        read_table(path)
    with pytest.raises(DataError, match="one JSON array; expected JSON lines"):
        read_table(write(tmp_path, "[" + good.strip() + "]", "e.json"))


# No header


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("a,r,b,2024-01-01\nc,r,d,2024-01-02\n", {}, [("a", "r", "b", "2024-01-01"), ("c", "r", "d", "2024-01-02")]),
        ("2024-01-01\ta\tr\tb\n", {}, [("a", "r", "b", "2024-01-01")]),
        ("a,r,b,20240101\n", {}, [("a", "r", "b", "2024-01-01")]),
        ("0\t1\t2\t24\n3\t1\t2\t48\n", {}, [("0", "1", "2", "24"), ("3", "1", "2", "48")]),
        ("0\t1\t2\t24\t-1\n", {}, [("0", "1", "2", "24")]),
        ("a,b,2024-01-01\n", {"relation": "beats"}, [("a", "beats", "b", "2024-01-01")]),
        ("a,r,b,2001-01-01,2002-01-01\n", {"unit": "year"}, [("a", "r", "b", "2001"), ("a", "r", "b", "2002")]),
        (
            "x,a,r,b,2024-01-01\n",
            {"columns": {"subject": "column 2", "relation": "column 3", "object": "column 4", "time": "column 5"}},
            [("a", "r", "b", "2024-01-01")],
        ),
    ],
    ids=str,
)
def test_a_missing_header_is_guessed_and_said(
    tmp_path: Path, text: str, options: dict[str, Any], expected: list[tuple[str, ...]]
) -> None:
    facts = read_table(write(tmp_path, text), **options)
    assert named(facts) == expected
    assert any(note.startswith("there is no header line: column ") for note in facts.notes)


def test_without_a_header_lines_are_counted_from_the_first(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"events.csv:2: the subject is empty"):
        read_table(write(tmp_path, "a,r,b,2024-01-01\n,r,b,2024-01-01\n"))


def test_columns_that_cannot_be_guessed_are_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no header line, and the 5 columns cannot be guessed.*--column subject"):
        read_table(write(tmp_path, "a,r,b,x,2024-01-01\n"))


def test_a_header_with_numbers_is_one_where_it_is_named(tmp_path: Path) -> None:
    columns = {"subject": "who", "relation": "2", "object": "whom", "time": "4"}
    facts = read_table(write(tmp_path, "who,2,whom,4\na,r,b,1\n"), columns=columns)
    assert named(facts) == [("a", "r", "b", "1")]


# Headings


PUBLISHED = {
    "ICEWS": "Event ID\tEvent Date\tSource Name\tSource Sectors\tEvent Text\tCAMEO Code\tIntensity\tTarget Name\tYear",
    "POLECAT": "Event ID\tEvent Date\tEvent Type\tEvent Mode\tActor Name\tActor Country\tRecipient Name\tSource",
    "GDELT": "GLOBALEVENTID\tSQLDATE\tMonthYear\tYear\tActor1Code\tActor1Name\tActor2Code\tActor2Name\tEventCode",
    "ACLED": "event_id_cnty\tevent_date\tyear\tevent_type\tsub_event_type\tactor1\tactor2\tsource\ttimestamp",
    "UCDP GED": "id\tyear\ttype_of_violence\tconflict_name\tside_a\tside_b\tdate_start\tdate_end\tsource_date",
}


@pytest.mark.parametrize("name", RECOGNISED)
def test_published_formats_are_recognised(tmp_path: Path, name: str) -> None:
    headings = PUBLISHED[name].split("\t")
    plain = {" ".join(heading.casefold().replace("_", " ").split()): heading for heading in headings}
    values = dict.fromkeys(headings, "x")
    cells = {"subject": "a", "relation": "r", "object": "b"}
    for role, heading in RECOGNISED[name].items():
        values[plain[heading]] = cells.get(role, "20240102" if heading == "sqldate" else "2024-01-02")
    path = write(tmp_path, PUBLISHED[name] + "\n" + "\t".join(values.values()) + "\n")
    assert named(read_table(path)) == [("a", "r", "b", "2024-01-02")]


def test_files_of_gdelt_have_no_header(tmp_path: Path) -> None:
    cells = ["1"] * 61
    for role, text in (("subject", "GERMANY"), ("relation", "043"), ("object", "FRANCE"), ("time", "20240102")):
        cells[GDELT[role]] = text
    path = write(tmp_path, "\t".join(cells) + "\n")
    assert named(read_table(path)) == [("GERMANY", "043", "FRANCE", "2024-01-02")]


@pytest.mark.parametrize("role", ["subject", "relation", "object", "time"])
def test_further_headings_count_where_no_usual_one_is_there(tmp_path: Path, role: str) -> None:
    for heading in FURTHER[role]:
        headings = {"subject": "s", "relation": "r", "object": "o", "time": "t"} | {role: heading}
        path = write(tmp_path, ",".join(headings.values()) + "\na,r,b,1\n")
        assert named(read_table(path)) == [("a", "r", "b", "1")]
        both = write(tmp_path, ",".join([*headings.values(), ROLES[role][1]]) + "\na,r,b,1,2\n")
        assert "2" in named(read_table(both))[0], "the usual one wins"


def test_python_is_told_how_many_rows_were_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = [f"a,r,b{i},2024-01-{i + 1:02}" for i in range(20)] + [f"a,r,,2024-02-{i + 1:02}" for i in range(7)]
    path = tmp_path / "dirty.csv"
    path.write_text("\n".join(["s,r,o,t", *rows]) + "\n")
    read_table(path, skip_bad=True)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.name.startswith("tangokg")
    told = record.getMessage()
    assert "7 of 27 rows were left out" in told
    assert [f"dirty.csv:{line}:" in told for line in (22, 26, 27)] == [True, True, False], "the first few"
    caplog.clear()
    path.write_text("\n".join(["s,r,o,t", *rows[:20]]) + "\n")
    read_table(path, skip_bad=True)
    assert not caplog.records


def test_a_number_with_two_signs_is_a_bad_row() -> None:
    times = [str(time) for time in range(1, 9)]
    table = pa.table(
        {"subject": ["a"] * 10, "relation": ["r"] * 10, "object": ["b"] * 10, "time": [*times, "--6", "+-7"]}
    )
    with pytest.raises(DataError, match=r"2 of 10 rows cannot be used:\n.*row 9: time '--6' found"):
        read_table(table)
