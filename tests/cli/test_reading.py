"""The options that say how a table is read work alike in every command and in Python."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tangokg as tk
from cli_runs import printed, write_events
from tangokg.cli import main
from tangokg.forecast.training import read_with
from tangokg.quads import find
from tangokg.quads.values import Dataset


@dataclass(frozen=True)
class Case:
    """A table with an option that it needs, on the command line and in Python."""

    head: str
    row: str
    words: list[str]
    keywords: dict[str, Any]


DAYS = range(1, 29)
CASES = {
    "timezone": Case(
        "s,r,o,t", "a,r,b{d},2024-02-{d:02}T23:30:00Z", ["--timezone", "Asia/Tokyo"], {"timezone": "Asia/Tokyo"}
    ),
    "date_format": Case(
        "s,r,o,t", "a,r,b{d},{d:02}.02.2024", ["--date-format", "%d.%m.%Y"], {"date_format": "%d.%m.%Y"}
    ),
    "skip_bad": Case("s,r,o,t", "a,r,b{d},2024-02-{d:02}\n,r,b,2024-02-{d:02}", ["--skip-bad"], {"skip_bad": True}),
    "relation": Case("s,o,t", "a,b{d},2024-02-{d:02}", ["--relation", "meets"], {"relation": "meets"}),
    "unit": Case("s,r,o,t", "a,r,b{d},2024-02-{d:02}", ["--unit", "week"], {"unit": "week"}),
    "columns": Case("x,r,o,t", "a,r,b{d},2024-02-{d:02}", ["--column", "subject=x"], {"columns": {"subject": "x"}}),
}


def write_case(tmp_path: Path, case: Case) -> Path:
    path = tmp_path / "table.csv"
    path.write_text("\n".join([case.head, *(case.row.format(d=d) for d in DAYS)]) + "\n")
    return path


def same(a: Dataset, b: Dataset) -> bool:
    return a.same_facts(b) and a.clock == b.clock


@pytest.mark.parametrize("name", CASES)
def test_an_option_means_the_same_everywhere(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = CASES[name]
    path = write_case(tmp_path, case)
    facts = tk.read_events(path, **case.keywords)
    expected = facts.split()
    assert same(tk.fit(path, "recurrence", **case.keywords).dataset, expected)
    tk.compare(path, ["recurrence"], out=tmp_path / "compared", verbose=False, **case.keywords)
    assert same(tk.load(tmp_path / "compared" / "recurrence").dataset, expected)
    assert same(read_with(path, case.keywords | {"dim": 4})[0], expected)  # as tk.tune does
    run, folder = tmp_path / "run", tmp_path / "made"
    assert main(["-q", "train", str(path), "--model", "recurrence", "--out", str(run), *case.words]) == 0
    assert same(tk.load(run).dataset, expected)
    assert main(["-q", "data", "import", str(path), str(folder), *case.words]) == 0
    assert same(find(folder), expected)
    counts = printed(capsys, "data", "inspect", str(path), *case.words)
    assert {part: counts["parts"][part]["facts"] for part in counts["parts"]} == {
        part: len(getattr(expected, part)) for part in ("train", "valid", "test")
    }
    assert counts["unit"] == facts.clock.unit
    assert counts["timezone"] == facts.clock.timezone
    assert counts["notes"] == list(facts.notes)
    assert main(["data", "inspect", str(path), *case.words]) == 0
    assert all(f"note: {note}" in " ".join(capsys.readouterr().err.split("\n")) for note in facts.notes[:1])


def test_an_overlap_means_the_same_everywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    for part, times in {"train": range(10), "valid": range(9, 12), "test": range(12, 14)}.items():
        lines = [f"{i} 0 {i + 1} {t}" for t in times for i in range(3)]
        (folder / f"{part}.txt").write_text("\n".join(lines) + "\n")
    assert main(["train", str(folder), "--model", "recurrence"]) == 2
    assert "--overlap earlier|later" in capsys.readouterr().err
    expected = find(folder, overlap="later")
    assert expected.valid.t.min() == 9
    assert same(tk.fit(folder, "recurrence", overlap="later").dataset, expected)
    assert len(tk.read_events(folder, overlap="later")) == 45
    words = [str(folder), "--overlap", "later"]
    assert main(["-q", "train", *words, "--model", "recurrence", "--out", str(tmp_path / "run")]) == 0
    assert same(tk.load(tmp_path / "run").dataset, expected)
    assert main(["data", "import", words[0], str(tmp_path / "made"), *words[1:]]) == 0
    assert "3 facts were moved from train to valid" in capsys.readouterr().err
    assert same(find(tmp_path / "made"), expected)
    assert printed(capsys, "data", "inspect", *words)["parts"]["valid"]["first_t"] == 9
    assert main(["data", "inspect", str(write_events(tmp_path / "e.csv")), "--overlap", "later"]) == 2


def test_options_for_tables_are_refused_for_facts_that_are_read(tmp_path: Path) -> None:
    facts = tk.read_events(write_events(tmp_path / "events.csv"))
    for keywords in ({"unit": "day"}, {"skip_bad": True}, {"overlap": "later"}):
        with pytest.raises(tk.TangoError, match="these facts are read already"):
            tk.fit(facts, "recurrence", **keywords)


def test_inspect_says_the_zone_and_why_the_unit_was_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "weekly.csv"
    weeks = np.datetime64("2024-01-03") + 7 * np.arange(30)
    path.write_text("\n".join(["s,r,o,t", *(f"a,r,b,{day}" for day in weeks)]) + "\n")
    assert main(["data", "inspect", str(path)]) == 0
    told = capsys.readouterr()
    assert "counted in weeks (UTC)" in " ".join(told.out.split())
    assert "one step is a week: all 30 dates are Wednesdays" in told.err
    run = tmp_path / "run"
    assert main(["train", str(path), "--model", "recurrence", "--out", str(run)]) == 0
    assert "one step is a week: all 30 dates are Wednesdays" in capsys.readouterr().err
    assert tk.load(run).dataset.clock.unit == "week"


def test_a_run_keeps_its_zone_for_questions_and_observed_facts(tmp_path: Path) -> None:
    path = write_case(tmp_path, CASES["timezone"])
    run = tmp_path / "run"
    tk.fit(path, "recurrence", timezone="Asia/Tokyo", out=run)
    forecaster = tk.load(run)
    clock = forecaster.facts.clock
    assert clock.timezone == "Asia/Tokyo"
    assert clock.parse("2024-03-05") == clock.parse("2024-03-04T15:00Z")
    more = tmp_path / "more.csv"
    more.write_text("s,r,o,t\na,r,z,2024-03-09T20:00:00Z\n")
    assert forecaster.observe(more) == 1
    assert clock.format(float(forecaster.facts.t.max())) == "2024-03-10"


def test_lone_rows_are_kept_and_belong_to_no_part_in_a_table_and_an_imported_folder_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_events(tmp_path / "events.csv")
    usual = tk.read_events(path).split()
    path.write_text(path.read_text() + "Eve,calls,Bob,1950-01-01\nEve,calls,Bob,2090-01-01\n")
    assert main(["data", "import", str(path), str(tmp_path / "made")]) == 0
    assert "decades from the rest" in capsys.readouterr().err
    assert main(["-q", "train", str(path), "--model", "recurrency", "--out", str(tmp_path / "run")]) == 0
    for data in (find(tmp_path / "made"), tk.load(tmp_path / "run").dataset, tk.fit(path, "recurrency").dataset):
        lone = {name: data.parts[name] for name in ("before", "after")}
        dates = {name: [data.clock.format(float(t)) for t in part.t] for name, part in lone.items()}
        assert dates == {"before": ["1950-01-01"], "after": ["2090-01-01"]}
        for part in ("train", "valid", "test"):
            own, cut = getattr(data, part).to_pandas(), getattr(usual, part).to_pandas()
            assert own.equals(cut), "the parts are those without the lone rows"
    words = ["compare", str(tmp_path / "made"), "--run", str(tmp_path / "run"), "--out", str(tmp_path / "compared")]
    assert main(["-q", *words]) == 0, "folder and table are the same data"


def test_bad_rows_of_observed_facts_are_skipped_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, more = tmp_path / "run", tmp_path / "more.csv"
    tk.fit(write_events(tmp_path / "events.csv"), "recurrence", out=run)
    more.write_text("subject,relation,object,date\nBob,calls,Eve,2024-02-01\nBob,calls,,2024-02-02\n")
    words = ["forecast", str(run), "Bob", "calls", "--observe", str(more)]
    assert main(words) == 2
    assert "more.csv:3: the object is empty" in capsys.readouterr().err
    assert main([*words, "--skip-bad"]) == 0
    assert "1 of 2 rows was left out" in capsys.readouterr().err


# Questions with unknown names


def test_unknown_names_of_questions_are_told_together_and_skipped_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, questions = tmp_path / "run", tmp_path / "questions.csv"
    forecaster = tk.fit(write_events(tmp_path / "events.csv"), "recurrence", out=run)
    questions.write_text("subject,relation,object\nBob,calls,\nBobby,calls,\nEve,visits,\nEve,kisses,\n")
    assert main(["forecast", str(run), "--queries", str(questions)]) == 2
    refused = capsys.readouterr().err
    assert "2 of 4 questions cannot be used" in refused
    assert "questions.csv:3: unknown entity 'Bobby'" in refused
    assert "questions.csv:5: unknown relation 'kisses'" in refused
    assert "--skip-bad" in refused
    words = ["forecast", str(run), "--queries", str(questions), "--skip-bad", "--top", "1", "--json"]
    assert main(words) == 0
    told = capsys.readouterr()
    assert [row["query"] for row in json.loads(told.out)] == [0, 2]
    assert "2 of 4 questions" in told.err
    answers = forecaster.forecast_table(questions, skip_bad=True, top=1)
    assert answers.column("query").to_pylist() == [0, 2]
    questions.write_text("subject,relation,object\nBobby,calls,\n")
    with pytest.raises(tk.TangoError, match="unknown entity 'Bobby'"):
        forecaster.forecast_table(questions, skip_bad=True)
