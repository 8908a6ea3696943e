"""Commands read from databases and write to them, and a password of theirs is in nothing that is printed or kept."""

from __future__ import annotations

import csv
import logging
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

import tangokg as tk
from cli_runs import SMALL, write_events
from postgres_server import PASSWORD, USER, postgres, with_password
from tangokg.cli import main

__all__ = ["postgres"]

FORMS = {
    PASSWORD,
    quote(PASSWORD),
    quote(PASSWORD, safe=""),
    quote_plus(PASSWORD),
    "p@ss",
    "p%40ss",
    "w%C3%B6rd",
    "hunt",
}
WRONG = "hunt/er 2"
TUNED = [*SMALL, "--model", "tango-distmult", "--trials", "1", "--study", "study"]


@pytest.fixture
def address(postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database with events and questions, for the user who needs the password; the folder is empty."""
    import psycopg

    rows = list(csv.reader(write_events(tmp_path / "events.csv").read_text(encoding="utf-8").splitlines()))[1:]
    (tmp_path / "events.csv").unlink()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    address = with_password(postgres)
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("drop schema public cascade")
        connection.execute(f"create schema public authorization {USER}".encode())
    with psycopg.connect(address) as connection:
        connection.execute("create table events (subject text, relation text, object text, date date)")
        connection.cursor().executemany("insert into events values (%s, %s, %s, %s)", rows)
        connection.execute("create table questions as select subject, relation from events limit 5")
    return address


def leaks(*texts: str) -> list[str]:
    """Where a password, or a part of it, stands: in these texts, or in the files of this folder and their names."""
    places = {f"text {i}": text.encode() for i, text in enumerate(texts)}
    for path in Path().rglob("*"):
        places[str(path)] = str(path).encode() + (path.read_bytes() if path.is_file() else b"")
    return [place for place, content in places.items() if any(form.encode() in content for form in FORMS)]


def test_a_password_is_in_no_file_and_on_no_line(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    whole = f"{address}?query=select * from events where subject <> 'p'"
    assert main(["train", whole, "--model", "tango-distmult", "--out", "run", *SMALL]) == 0
    shown = capsys.readouterr()
    assert f"tango compare 'postgresql://{USER}@127.0.0.1" in shown.err, "the next step has the address without it"
    texts = [shown.out, shown.err]
    answers = f"{address}?table=answers"
    commands = [
        ["data", "inspect", f"{address}?table=events", "-v"],
        ["data", "import", f"{address}?table=events", "folder"],
        ["compare", whole, "--run", "run", "--model", "frequency", "--out", "compared"],
        [
            "tune",
            whole,
            *["--model", "tango-distmult", "--set", "dim=4", "--set", "epochs=1", "--trials", "1", "--study", "s"],
        ],
        ["forecast", "run", "Bob", "calls", "--observe", f"{address}?table=events", "--keep", "-v"],
        ["forecast", "run", "--queries", f"{address}?table=questions", f"--out={answers}"],
    ]
    for words in commands:
        assert main(words) == 0, words
        texts += [*capsys.readouterr()]
    assert main(["show", "run"]) == 0
    assert leaks(*texts, *capsys.readouterr()) == []
    import psycopg

    with psycopg.connect(address) as connection:
        found = connection.execute('select count(distinct "query"), count(*) from answers').fetchone()
    assert found is not None
    assert found[0] == 5
    assert found[1] > 5


def test_a_command_that_fails_does_not_tell_it(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = with_password(address.replace(address.partition("//")[2].partition("@")[0], "postgres", 1), WRONG)
    closed = address.replace(address.rpartition(":")[2].partition("/")[0], "1")
    texts: list[str] = []
    for text in (wrong, closed, address.replace("/events", "/nothing"), address):
        for words in (
            ["train", f"{text}?table=missing", "--out", "run"],
            ["train", f"{text}?query=selct 1", "-v"],
            ["train", f"{text}?table=events", f"--out={text}", "--bogus"],
            ["train", f"{text}?table=events", f"{text}?table=events"],
            ["trian", f"{text}?table=events"],
            [f"{text}?table=events"],
            ["forecast", f"{text}?table=events", "Ann"],
            ["compare", f"{text}?password={WRONG}&table=missing", "--out", "compared"],
            ["data", "import", f"{text}?table=missing", f"{text}/folder"],
            ["train", "world", "--config", f"{text}?table=events", "-v"],
        ):
            assert main(words) != 0, words
            texts += [*capsys.readouterr()]
    assert main(["train", f"postgresql://{USER}:{WRONG}@127.0.0.1/events?table=events"]) == 2
    texts += [*capsys.readouterr()]
    assert "percent-encoded" in texts[-1]
    assert leaks(*texts) == []


def test_the_library_neither_logs_nor_keeps_it(address: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    source = f"{address}?table=events"
    forecaster = tk.fit(source, "frequency", out="run", verbose=False)
    forecaster.observe(address + "?query=select subject, relation, object, date + 60 as date from events")
    shown = [repr(forecaster), repr(forecaster.dataset), str(tk.read_events(source).notes), caplog.text]
    forecaster.save("again")
    assert leaks(*shown) == []


def test_the_words_of_the_process_lose_it_too(tmp_path: Path) -> None:
    """Trackers write down sys.argv."""
    code = "import sys; from tangokg.cli import main; main(); print(sys.argv)"
    words = ["train", "postgresql://ann:hunter2@127.0.0.1:1/events?table=events"]
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert "postgresql://ann@127.0.0.1:1/events?table=events" in done.stdout
    assert "hunt" not in done.stdout + done.stderr


def test_answers_go_to_a_table_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_events(tmp_path / "events.csv")
    assert main(["-q", "train", "events.csv", "--model", "frequency", "--out", "run"]) == 0
    (tmp_path / "questions.csv").write_text("subject,relation\nBob,calls\nEve,calls\n")
    ask = ["forecast", "run", "--queries", "questions.csv", "--top", "2", "--out"]
    assert main([*ask, "sqlite:///answers.db?table=answers"]) == 0
    assert "4 answers are in the table answers of sqlite:///answers.db." in capsys.readouterr().err
    assert main([*ask, "sqlite:///answers.db?table=answers"]) == 2
    assert "the table 'answers' exists" in capsys.readouterr().err
    assert main([*ask, "sqlite:///answers.db?table=answers&if_exists=append"]) == 0
    with closing(sqlite3.connect("answers.db")) as connection:
        assert (
            connection.execute('select "query", rank from answers').fetchall() == [(0, 1), (0, 2), (1, 1), (1, 2)] * 2
        )
    assert main([*ask, "answers.txt"]) == 2
    assert "or a table of a database" in capsys.readouterr().err
    assert main(["forecast", "run", "Bob", "calls", "--observe", "no.csv"]) == 2
    assert (
        main(["forecast", "run", "--queries", "sqlite:///answers.db?query=select answer as object from answers"]) == 0
    )
