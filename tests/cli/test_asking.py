"""Whole runs through ``main``: forecasts, tables of questions, facts that come later."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from cli_runs import printed, run, write_events
from tangokg.cli import main

__all__ = ["run"]  # a fixture


def test_inductive_queries_are_those_with_a_newcomer(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, "evaluate", str(run), "--inductive")
    assert found["results"][0]["queries"] == 2 * 2  # (Gus, visits, Fay) and (Ann, visits, Gus), both ways


def test_forecast_by_name(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, "forecast", str(run), "Ann [red]", "visits", "--at", "2024-02-01", "--top", "20")
    assert found["at"] == "2024-02-01"
    assert all(0 <= answer["chance"] <= answer["share"] <= 1 for answer in found["answers"])
    assert main(["forecast", str(run), "?", "visits", "Fay", "--top", "7"]) == 0
    text = capsys.readouterr().out
    assert "(?, visits, Fay)" in text
    assert "Ann [red]" in text  # no markup
    assert "seen 9 times, last 2024-01-17" in text
    asked = printed(capsys, "forecast", str(run), "Bob", "?", "Ann [red]")
    assert {answer["name"] for answer in asked["answers"]} == {"calls", "visits"}


def test_observed_facts_are_known_and_the_run_stays(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = tmp_path / "more.csv"
    more.write_text("who,relation,object,date\nZed,calls,Bob,2024-01-25\nZed,calls,Bob,2024-01-25\n")
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    words = ["forecast", str(run), "Zed", "calls", "--top", "20"]
    assert main(words) == 2
    found = printed(capsys, *words, "--observe", str(more), "--column", "subject=who")
    assert next(answer["seen"] for answer in found["answers"] if answer["name"] == "Bob") == 1
    assert before == {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}


def test_facts_and_questions_may_be_written_in_another_way(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more, asked = tmp_path / "more.csv", tmp_path / "asked.csv"
    more.write_text("subject,object,date\nZed,Bob,25.01.2024\n")
    asked.write_text("subject,relation,time\nZed,calls,26.01.2024\n")
    way = ["--observe", str(more), "--relation", "calls", "--date-format", "%d.%m.%Y"]
    found = printed(capsys, "forecast", str(run), "Zed", "calls", "--top", "20", *way)
    assert next(answer["last"] for answer in found["answers"] if answer["name"] == "Bob") == "2024-01-25"
    rows = printed(capsys, "forecast", str(run), "--queries", str(asked), *way)
    assert {row["time"] for row in rows} == {"2024-01-26"}


def test_what_observed_facts_bring_is_told(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, more = tmp_path / "one.csv", tmp_path / "more.csv"
    one.write_text("who,relation,object,date\nZed,calls,Bob,2024-01-25\n")
    more.write_text("who,relation,object,date\nZed,greets,Yan,2024-01-26\nYan,greets,Zed,2024-01-26\n")
    words = ["forecast", str(run), "Zed", "calls", "--column", "subject=who", "--observe", str(one)]
    assert main(words) == 0
    told = capsys.readouterr().err
    assert f"1 new fact of {one} is known now, with 1 new name and 0 new relations" in told
    assert "training never saw" not in told
    assert main([*words, "--observe", str(more)]) == 0
    told = capsys.readouterr().err
    assert f"2 new facts of {more} are known now, with 1 new name and 1 new relation;" in told
    assert told.count("training never saw 'greets'") == 1


def test_questions_have_the_headings_of_facts(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more, plain, other = tmp_path / "more.csv", tmp_path / "plain.csv", tmp_path / "other.csv"
    more.write_text("who,relation,object,date\nZed,calls,Bob,2024-01-25\n")
    plain.write_text("subject,relation,time\nBob,calls,2024-02-01\n")
    other.write_text("Source,did,date\nBob,calls,2024-02-01\n")
    words = ["forecast", str(run), "--top", "3", "--queries"]
    expected = printed(capsys, *words, str(plain))
    assert printed(capsys, *words, str(other), "--column", "relation=did") == expected
    shared = ["--observe", str(more), "--column", "subject=who", "--column", "relation=did"]
    assert [row["relation"] for row in printed(capsys, *words, str(other), *shared)] == ["calls"] * 3
    assert main([*words, str(other), "--column", "relation=done"]) == 2
    assert "unknown column 'done'" in capsys.readouterr().err
    assert main([*words, str(other), *shared, "--column", "time=dates"]) == 2
    assert "unknown column 'dates'. Did you mean 'date'?" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_a_table_of_questions(suffix: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    questions, out = tmp_path / "questions.csv", tmp_path / f"answers{suffix}"
    questions.write_text("subject,relation,object,time\nBob,calls,,2024-02-01\n,visits,Fay,\n")
    words = ["forecast", str(run), "--queries", str(questions), "--top", "3"]
    assert main([*words, "--out", str(out)]) == 0
    if suffix == ".parquet":
        table = pa.parquet.read_table(out)
    else:
        options = pa.csv.ParseOptions(delimiter="\t" if suffix == ".tsv" else ",")
        table = pa.csv.read_csv(out, parse_options=options)
    assert table.column("query").to_pylist() == [0, 0, 0, 1, 1, 1]
    rows = printed(capsys, *words)
    assert [row["answer"] for row in rows] == table.column("answer").to_pylist()
    assert main(words) == 0
    assert len(capsys.readouterr().out.splitlines()) == 7
    assert set(tmp_path.iterdir()) == {questions, out}


def test_a_table_of_answers_says_whether_it_is_for_a_span(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    questions = tmp_path / "questions.csv"
    questions.write_text("subject,relation,object\nBob,calls,\nBob,calls,Eve\nBob,,\n")
    words = ["forecast", str(run), "--queries", str(questions), "--top", "1"]
    for option, span in (("--at", False), ("--by", True)):
        rows = printed(capsys, *words, option, "2024-02-01")
        names = [["Bob", "calls"], ["Bob", "calls", "Eve"], ["Bob"]]
        single = [printed(capsys, "forecast", str(run), *name, option, "2024-02-01", "--top", "1") for name in names]
        assert [row["by"] for row in rows] == [span] * 3
        assert [row["happens"] for row in rows] == [pytest.approx(one["happens"]) for one in single]
    assert rows[2]["happens"] is None
    out = tmp_path / "answers.csv"
    assert main([*words, "--by", "2024-02-01", "--out", str(out)]) == 0
    table = pa.csv.read_csv(out)
    assert table.column("by").to_pylist() == [True] * 3
    assert table.column("happens").to_pylist()[:2] == [pytest.approx(row["happens"]) for row in rows[:2]]


def test_going_on_from_a_run_keeps_its_settings(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    newer = write_events(tmp_path / "newer.csv", days=24)
    words = ["train", str(newer), "--from", str(run), "--set", "epochs=1", "--out", str(tmp_path / "next")]
    capsys.readouterr()
    assert main([*words, "--json"]) == 0
    told = capsys.readouterr()
    assert f"taken over from {run}: 7 of 7 names, 2 of 2 relations" in told.err
    found = json.loads(told.out)
    assert found["config"]["settings"]["dim"] == 4
    assert found["model"] == "tango-distmult"


def test_a_finished_run_can_be_resumed_without_its_data(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, "train", "--out", str(run), "--resume")
    counted = found.pop("frequency")
    assert found == json.loads((run / "metrics.json").read_text())
    assert set(counted) == {"valid", "test"}


def test_why_gives_the_earlier_facts(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["forecast", str(run), "Ann [red]", "visits", "--at", "2024-02-01"]
    found = printed(capsys, *words, "--why")
    assert ["reasons" in answer for answer in found["answers"][:4]] == [True, True, True, False]
    told = [answer["reasons"] for answer in found["answers"][:3]]
    assert any(one["facts"] for one in told)
    assert all(one["rest"] + sum(fact["share"] for fact in one["facts"]) == pytest.approx(1) for one in told)
    assert all(fact["time"] < "2024-02-01" for one in told for fact in one["facts"])
    assert all("reasons" not in answer for answer in printed(capsys, *words)["answers"])
    assert main([*words, "--why"]) == 0
    text = capsys.readouterr().out
    first = max((fact for one in told for fact in one["facts"]), key=lambda fact: fact["share"])
    assert f"{first['subject']} {first['relation']} {first['object']}" in text  # "Ann [red]": no markup
    assert f"{first['time']} ({first['before']:g} day" in text
    questions, answers = tmp_path / "questions.csv", tmp_path / "answers.csv"
    questions.write_text("subject,relation,time\nAnn [red],visits,2024-02-01\n")
    asked = ["forecast", str(run), "--queries", str(questions), "--why"]
    assert [row["reasons"] for row in printed(capsys, *asked)[:3]] == told
    assert main([*asked, "--out", str(answers)]) == 0
    rows = pa.csv.read_csv(answers).to_pylist()
    assert json.loads(rows[0]["reasons"]) == told[0]


def test_names_in_reasons_steer_no_terminal(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = tmp_path / "more.csv"
    more.write_text("subject,relation,object,time\nAnn [red],visits,\x1b[31mEve\x1b[0m,2024-01-30\n")
    words = ["forecast", str(run), "Ann [red]", "visits", "--observe", str(more), "--at", "2024-01-31", "--why"]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "\x1b" not in text
