"""What a command offers next can be copied and run, and what was observed stays where that is wanted."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from cli_runs import SMALL, printed, write_events
from conftest import facts_like, make_facts
from tangokg.cli import main
from tangokg.cli.next_steps import next_command
from tangokg.forecast import load
from tangokg.quads import worth_asking
from tangokg.train.locks import FileLock

READING = ["--column", "subject=who", "--column", "relation=does", "--column", "object=whom", "--column", "time=day"]


def offered(text: str, command: str) -> list[str]:
    """The words of the first offered command of this name."""
    lines = (line.strip().removeprefix("Next: ") for line in text.splitlines())
    return next(shlex.split(line) for line in lines if line.startswith(f"tango {command}"))


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Events under headings that nobody would guess."""
    monkeypatch.chdir(tmp_path)
    events = write_events(tmp_path / "my events.csv", 40)
    text = events.read_text(encoding="utf-8").replace("subject,relation,object,date", "who,does,whom,day", 1)
    events.write_text(text, encoding="utf-8")
    return events


def test_every_option_that_was_given_is_carried(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From inspect to train, from tune to train, from train to forecast: what is printed runs as it is."""
    given = [*READING, "--unit=week"]
    assert main(["data", "inspect", str(table), *given]) == 0
    train = offered(capsys.readouterr().err, "train")
    assert train == ["tango", "train", str(table), *READING, "--unit", "week"]
    small = ["--model", "tango-distmult", "--set", "dim=4", "--set", "layers=1", "--set", "epochs=1"]
    assert (
        main(["tune", str(table), *given, *small, "--trials", "1", "--out", "best.toml", "--train-share", "0.7"]) == 0
    )
    tuned = offered(capsys.readouterr().err, "train")
    assert {*READING, "week", "--train-share", "0.7", "best.toml"} <= set(tuned)
    assert not {"--trials", "--set", "--model", "--out"} & set(tuned)
    assert main([*tuned[1:], "--out", "run", "--device", "cpu"]) == 0
    words = capsys.readouterr().err
    for command in ("forecast", "evaluate", "compare"):
        asked = offered(words, command)
        assert asked[-2:] == ["--device", "cpu"]
        assert main(asked[1:]) == 0
    assert {*READING, "week", "--run", "run", "recurrency"} <= set(asked), "compared on the same data"
    (calibration,) = (shlex.split(line) for line in words.splitlines() if "--calibration" in line)
    assert main(calibration[1:]) == 0


@pytest.mark.parametrize("model", ["recurrency", "frequency", "tango-distmult"])
def test_a_comparison_is_offered_with_other_models(model: str, table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = SMALL if model == "tango-distmult" else []
    assert main(["train", str(table), *READING, "--model", model, "--out", "run", "--seed", "3", *own]) == 0
    told = capsys.readouterr().err
    words = offered(told, "compare")
    assert model not in words
    assert main(words[1:]) == 0
    if own:
        assert main(["train", str(table), *READING, "--model", model, "--out", "refit", "--refit", *own]) == 0
        told = capsys.readouterr().err
        assert "tango compare" not in told, "it would be refused"
        assert "--calibration" not in told
    assert main(["train", "--out", "run", "--resume"]) == 0, "without data there is nothing to name"
    assert "tango compare" not in capsys.readouterr().err


def test_a_far_question_names_the_run(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-q", "train", str(table), *READING, "--model", "recurrency", "--out", "my run"]) == 0
    assert main(["forecast", "my run", "Bob", "calls", "--at", "2024-02-20"]) == 0
    told = capsys.readouterr().err
    assert "RUN" not in told
    words = shlex.split(told.partition("`tango ")[2].partition("`")[0])
    assert words[:2] == ["evaluate", "my run"]
    assert main(words) == 0


def test_only_options_of_the_next_command_are_carried() -> None:
    words = ["compare", "x.csv", "--model", "all", "--device", "cpu", "--unit=day", "--json", "--", "--plot"]
    assert next_command(words, "evaluate", "runs/x") == "tango evaluate runs/x --device cpu"
    seeded = ["demo", "--seed", "7", "--json"]
    assert next_command(seeded, "demo", "--out", "runs/demo") == "tango demo --out runs/demo --seed 7"
    assert next_command(words, "train", "x.csv", without=["--model"]) == "tango train x.csv --device cpu --unit day"


def test_a_question_worth_asking_has_many_facts_of_late_and_more_than_one_answer() -> None:
    rows = [(0, 0, 1, t) for t in range(100)]  # long ago and often
    rows += [(1, 1, 2, t) for t in range(90, 100)]  # of late, always the same
    rows += [(2, 1, 3 + t % 2, t) for t in range(91, 100)]  # of late, two answers
    assert worth_asking(facts_like(make_facts(), rows)) == ("e2", "r1")
    assert worth_asking(facts_like(make_facts(), [(4, 2, 5, 0)])) == ("e4", "r2")


def test_other_data_are_told_by_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = write_events(tmp_path / "events.csv", 20)
    run = ["--model", "recurrence", "--out", str(tmp_path / "run")]
    assert main(["-q", "train", str(first), *run]) == 0
    longer = write_events(tmp_path / "longer.csv", 24)
    longer.write_text(longer.read_text().replace("Gus", "Hal"))
    capsys.readouterr()
    assert main(["train", str(longer), *run, "--resume"]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "1 entities only there ('Gus')" in told
    assert "1 entities only here ('Hal')" in told
    assert "train: " in told
    assert "2024-01-01 to" in told
    assert main(["compare", str(longer), "--run", str(tmp_path / "run"), "--out", str(tmp_path / "all")]) == 2
    assert "only here ('Hal')" in " ".join(capsys.readouterr().err.split())
    assert main(["train", str(first), *run, "--unit", "week", "--resume"]) == 2
    assert "counted in days from 2024-01-01 there, in weeks" in " ".join(capsys.readouterr().err.split())
    assert main(["train", str(first), *run, "--timezone", "Asia/Tokyo", "--resume"]) == 2
    assert "in days from 2024-01-01 (Asia/Tokyo) here" in " ".join(capsys.readouterr().err.split())
    other = tmp_path / "other.csv"
    other.write_text(first.read_text().replace("Bob,calls,Ann [red],2024-01-02", "Bob,calls,Eve,2024-01-02"))
    assert main(["train", str(other), *run, "--resume"]) == 2
    assert "1 of" in " ".join(capsys.readouterr().err.split())


def test_kept_facts_stay_with_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events, run = write_events(tmp_path / "events.csv"), tmp_path / "run"
    assert main(["-q", "train", str(events), "--model", "tango-distmult", "--out", str(run), *SMALL]) == 0
    later = tmp_path / "later.csv"
    later.write_text("subject,relation,object,date\nHal,calls,Bob,2024-01-21\nHal,writes,Eve,2024-01-22\n")
    ask = ["forecast", str(run), "Hal", "calls", "--at", "2024-01-25"]
    weights = (run / "weights.safetensors").read_bytes()
    assert main([*ask, "--observe", str(later)]) == 0
    assert main(ask) == 2  # only that question knew
    assert main([*ask, "--keep"]) == 2
    assert "--keep keeps the facts of --observe" in capsys.readouterr().err
    assert main([*ask, "--observe", str(later), "--keep"]) == 0
    assert "2 facts observed since training" in capsys.readouterr().err
    found = printed(capsys, *ask)
    assert [row["seen"] for row in found["answers"] if row["name"] == "Bob"] == [1]
    assert main([*ask, "--observe", str(later), "--keep"]) == 0  # the same facts once more change nothing
    after = load(run).dataset.after
    assert after is not None
    assert len(after) == 2
    assert (run / "weights.safetensors").read_bytes() == weights
    assert not [path for path in run.iterdir() if path.name.startswith(".")]


def test_facts_kept_by_several_processes_at_once_all_stay(tmp_path: Path) -> None:
    events, run = write_events(tmp_path / "events.csv"), tmp_path / "run"
    assert main(["-q", "train", str(events), "--model", "recurrence", "--out", str(run)]) == 0
    started = []
    for day in (21, 22, 23):
        later = tmp_path / f"{day}.csv"
        later.write_text(f"subject,relation,object,date\nHal{day},calls,Bob,2024-01-{day}\n")
        words = ["forecast", str(run), "Bob", "calls", "--observe", str(later), "--keep"]
        started.append(subprocess.Popen([sys.executable, "-m", "tangokg", *words], stdout=subprocess.DEVNULL))
    assert [process.wait() for process in started] == [0, 0, 0]
    after = load(run).dataset.after
    assert after is not None
    assert {after.vocab.entities[s] for s in after.s} == {"Hal21", "Hal22", "Hal23"}


def test_facts_are_not_kept_in_a_run_that_another_process_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tangokg.cli.forecast.WAIT", 0.0)
    events, run = write_events(tmp_path / "events.csv"), tmp_path / "run"
    assert main(["-q", "train", str(events), "--model", "recurrence", "--out", str(run)]) == 0
    later = tmp_path / "later.csv"
    later.write_text("subject,relation,object,date\nHal,calls,Bob,2024-01-21\n")
    with FileLock(tmp_path / ".run.lock"):
        assert main(["forecast", str(run), "Bob", "calls", "--observe", str(later), "--keep"]) == 2
    assert "is in use by" in capsys.readouterr().err
    assert load(run).dataset.after is None


def test_a_refitted_run_is_not_offered_for_evaluation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = write_events(tmp_path / "events.csv")
    words = ["train", str(events), "--model", "tango-distmult", *SMALL]
    for refit in ([], ["--refit"]):
        assert main([*words, "--out", str(tmp_path / f"run{len(refit)}"), *refit]) == 0
        told = capsys.readouterr().err
        assert "tango forecast" in told
        assert ("tango evaluate" in told) == (not refit)
