"""``tango compare``: what it trains, loads and leaves behind, and what it says when it cannot."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from cli_runs import SMALL, printed, run, write_events
from tangokg import forecast
from tangokg.cli import main
from tangokg.cli.app import app
from tangokg.forecast.comparing import ALL, USUAL, select_models
from tangokg.models import MODELS
from tangokg.train import Interrupted

__all__ = ["run"]  # a fixture

MODEL = ["--model", "tango-distmult"]


@pytest.fixture
def events(tmp_path: Path) -> Path:
    return write_events(tmp_path / "events.csv")


def words(events: Path, out: Path, *more: str) -> list[str]:
    return ["compare", str(events), "--out", str(out), *more]


def test_models_are_trained_once_and_then_loaded(
    events: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, figure = tmp_path / "out", tmp_path / "figure.svg"
    command = words(events, out, "--model", "frequency", *MODEL, *SMALL)
    first = printed(capsys, *command)
    assert {row["model"] for row in first["models"]} == {"frequency", "tango-distmult"}
    assert [row["mrr"] for row in first["models"]] == sorted((row["mrr"] for row in first["models"]), reverse=True)
    for row in first["models"]:
        stored = json.loads((out / row["model"] / "metrics.json").read_text())
        assert row["run"] == str(out / row["model"])
        assert {key: row[key] for key in stored["test"]["time-aware"]} == pytest.approx(stored["test"]["time-aware"])
        assert row["train_seconds"] == stored["train_seconds"]
        low, high = row["mrr_interval"]
        assert low < row["mrr"] < high
    test = first["paired"]
    assert [test["first"], test["second"]] == [row["model"] for row in first["models"]]
    assert test["difference"] == pytest.approx(first["models"][0]["mrr"] - first["models"][1]["mrr"])
    weights = (out / "tango-distmult" / "weights.safetensors").stat().st_mtime_ns
    assert main([*command, "--plot", str(figure)]) == 0
    told = capsys.readouterr()
    assert told.err.count("loaded from") == 2
    assert f"{test['first']} less {test['second']}: MRR {test['difference']:+.2f}" in told.out
    assert f"p = {test['p']:.4f}" in told.out
    assert figure.read_bytes().startswith(b"<?xml")
    assert (out / "compare.png").read_bytes().startswith(b"\x89PNG")  # of the call without --plot
    assert (out / "tango-distmult" / "weights.safetensors").stat().st_mtime_ns == weights
    again = printed(capsys, *command)
    assert [row | {"queries_per_second": 0} for row in again["models"]] == [
        row | {"queries_per_second": 0} for row in first["models"]
    ]
    assert again["paired"] == test


def test_the_table_has_a_row_for_each_model_with_its_interval_and_time(
    events: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = words(events, tmp_path / "out", "--model", "frequency", "--model", "copy-last", "--model", "recurrence")
    found = printed(capsys, *command)["models"]
    assert main(command) == 0
    lines = capsys.readouterr().out.splitlines()
    shown = [line.split() for line in lines if set(line.split()) & {row["model"] for row in found}][: len(found)]
    for row, cells in zip(found, shown, strict=True):
        low, high = row["mrr_interval"]
        figures = [f"{row[key]:.2f}" for key in ("hits@1", "hits@3", "hits@10")]
        wanted = [row["model"], f"{row['mrr']:.2f}", f"{low:.2f}", "to", f"{high:.2f}", *figures]
        assert [cell for cell in cells if cell not in "│┃|"][:-1] == [*wanted, f"{row['train_seconds']:,.1f}"]


def test_after_an_interruption_the_same_command_goes_on(
    events: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command, fit = words(events, tmp_path / "out", "--model", "frequency", *MODEL, *SMALL), forecast.fit

    def interrupted(data: Any, config: Any, **options: Any) -> Any:
        if config.model == "frequency":
            return fit(data, config, **options)
        raise Interrupted(2, options["out"] / "checkpoint" / "state.safetensors")

    with monkeypatch.context() as patched:
        patched.setattr(forecast, "fit", interrupted)
        assert main(command) == 130
    assert f"Go on with:\n  tango compare {events}" in capsys.readouterr().err
    assert main(command) == 0
    told = capsys.readouterr().err
    assert "1 of 2: frequency, loaded from" in told
    assert "2 of 2: tango-distmult, trained into" in told


def test_given_runs_stand_for_their_models(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = run.parents[1] / "events.csv"
    command = words(events, tmp_path / "out", "--run", str(run))
    assert [row["model"] for row in printed(capsys, *command)["models"]] == ["tango-distmult"]
    assert printed(capsys, *command)["paired"] is None
    found = printed(capsys, *command, "--model", "copy-last", *MODEL)["models"]
    assert {row["model"]: row["run"] for row in found} == {
        "tango-distmult": str(run),
        "copy-last": str(tmp_path / "out" / "copy-last"),
    }
    other = tmp_path / "other"
    forecast.load(run).save(other)  # without metrics.json: nothing says how long it took
    found = printed(capsys, *command, "--run", str(other))["models"]
    assert {row["model"] for row in found} == {f"tango-distmult ({run})", f"tango-distmult ({other})"}
    assert {row["train_seconds"] is None for row in found} == {True, False}


def test_which_models_are_meant() -> None:
    assert tuple(select_models(None, [], [], None, "auto").own) == USUAL
    assert list(select_models(["recurrence", ALL], [], [], None, "auto").own) == list(
        dict.fromkeys(["recurrence", *MODELS])
    )
    own = select_models(["frequency", "tango"], [], ["dim=8", "epochs=2", "settings.dropout=0.1"], None, "auto").own
    assert own == {"frequency": ["epochs=2"], "tango": ["dim=8", "epochs=2", "settings.dropout=0.1"]}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--model", "frequenzy"], "unknown model 'frequenzy'. Did you mean frequency"),
        (["--model", "frequency", "--set", "dym=3"], "unknown setting 'dym'."),
        (["--model", "frequency", "--set", "dim=3"], "unknown setting 'dim'."),
        (["--model", "frequency", "--set", "dim"], "expected key=value"),
        (["--run", "nowhere"], "nowhere: no run is here"),
        (["--run", "RUN", "--set", "epochs=3"], "the given runs have their settings"),
        (["--run", "RUN"], "was made with other data than these"),
        (["--plot", "a.gif"], "expected one of .png, .svg, .pdf"),
        (["--device", "abacus"], "device 'abacus' is unknown"),
        (["--train-share", "0.9", "--valid-share", "0.1"], "no test part"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_are_told_before_anything_is_trained(
    more: list[str], message: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = write_events(tmp_path / "shorter.csv", days=15)
    assert main(words(events, tmp_path / "out", *(str(run) if word == "RUN" else word for word in more))) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_run_with_other_settings_is_not_taken_for_one_with_these(
    events: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    command = words(events, out, "--model", "recurrence")
    assert main(["-q", *command, "--set", "decay=0.5"]) == 0
    assert main(["-q", *command]) == 0
    assert main(["-q", *command, "--set", "decay=0.5", "--epochs", "100", "--seed", "0"]) == 0
    capsys.readouterr()
    for more, told in (
        (["--set", "decay=0.2", "--set", "patience=6"], "--set decay=0.2:"),
        (["--seed", "1"], "--seed 1:"),
        (["--epochs", "2"], "--set train.epochs=2:"),
    ):
        assert main([*command, *more]) == 2
        assert (
            f"{out / 'recurrence'} was made with other settings than {told} choose another" in capsys.readouterr().err
        )
    (out / "recurrence").rename(out / "frequency")
    assert main(words(events, out, "--model", "frequency")) == 2
    assert "holds a run of recurrence, expected one of frequency" in capsys.readouterr().err


def test_a_run_that_is_not_finished_cannot_be_given(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(run, tmp_path / "half")
    (tmp_path / "half" / "weights.safetensors").unlink()
    events = run.parents[1] / "events.csv"
    assert main(words(events, tmp_path / "out", "--run", str(tmp_path / "half"))) == 2
    assert f"tango train --out {tmp_path / 'half'} --resume" in capsys.readouterr().err


def test_help_names_the_models_that_are_usual() -> None:
    command: Any = get_command(app)
    about = next(p.help for p in command.commands["compare"].params if p.name == "model")
    assert all(name in about for name in (*USUAL, ALL))
