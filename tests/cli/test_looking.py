"""``tango models``, ``tango names``, ``tango show`` and ``-h``: one finds one's way."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest

from cli_runs import printed, write_events
from cli_runs import run as run  # a fixture
from conftest import make_dataset
from tangokg.cli import main
from tangokg.decode import make_decoding
from tangokg.forecast import fit
from tangokg.models import MODELS
from tangokg.train import Interrupted, make_config


@pytest.mark.parametrize("words", [["-h"], ["train", "-h"], ["data", "-h"], ["data", "list", "-h"], ["models", "-h"]])
def test_the_short_help_is_the_long_one(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    short = capsys.readouterr().out
    assert main([*words[:-1], "--help"]) == 0
    assert short == capsys.readouterr().out
    assert "Usage:" in short


def test_models_are_listed_and_settings_of_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert [row["model"] for row in printed(capsys, "models")] == list(MODELS)
    for name, recipe in MODELS.items():
        found = printed(capsys, "models", name)
        own = {row["setting"]: row["default"] for row in found["settings"] if row["table"] == "model"}
        expected = asdict(recipe.settings)
        if expected.pop("decoding", None) is not None:
            expected |= {f"decoding.{key}": value for key, value in asdict(make_decoding(recipe.settings)).items()}
        assert own == expected
        train = {row["setting"]: row["default"] for row in found["settings"] if row["table"] == "training"}
        assert train == asdict(make_config(name).train)
    assert main(["models"]) == 0
    assert all(name in capsys.readouterr().out for name in ("tango",))
    assert main(["models", "tangoo"]) == 2
    assert "Did you mean tango" in capsys.readouterr().err


def test_names_are_found_by_a_part_in_any_case(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, "names", str(run), "ČARL")
    assert [(row["name"], row["kind"]) for row in found] == [("Čarles", "entity")]
    assert found[0]["facts"] > 0
    assert found[0]["last"].startswith("2024-01-")
    both = printed(capsys, "names", str(run), "a")
    assert {row["kind"] for row in both} == {"entity", "relation"}
    every = printed(capsys, "names", str(run), "--top", "2")
    assert [row["kind"] for row in every] == ["entity"] * 2 + ["relation"] * 2
    assert every[0]["facts"] >= every[1]["facts"]
    assert main(["names", str(run), "Bobb"]) == 2
    assert "Did you mean 'Bob'" in capsys.readouterr().err


def test_a_run_is_shown_with_settings_data_figures_and_its_end(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, "show", str(run))
    stored = json.loads((run / "metrics.json").read_text())
    assert found["run"]["model"] == "tango-distmult"
    assert (found["run"]["ended"], found["run"]["epochs"]) == ("all 2 epochs are done", 2)
    assert found["settings"] == stored["config"]["settings"]
    assert found["training"] == stored["config"]["train"]
    assert found["metrics"]["test"] == [stored["test"]["time-aware"], stored["queries"]["test"]]
    assert found["data"]["train"].endswith("2024-01-16") or "2024-01" in found["data"]["train"]
    assert found["data"]["sha256 of events.csv"] == stored["files"]["events.csv"]
    assert main(["show", str(run)]) == 0
    assert "all 2 epochs are done" in capsys.readouterr().out


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"test": 3}', '{"test": {"time-aware": {"mrr": "high"}}, "queries": {"test": 1}}', '{"queries": 5}'],
)
def test_damaged_figures_are_left_out(run: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    whole = (run / "metrics.json").read_text()
    try:
        (run / "metrics.json").write_text(text)
        assert printed(capsys, "show", str(run))["metrics"] == {}
        assert main(["show", str(run)]) == 0
    finally:
        (run / "metrics.json").write_text(whole)


def test_damaged_sums_are_told(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    config = (copy / "config.toml").read_text()
    (copy / "config.toml").write_text(re.sub(r"^files = .*$", "files = [3]", config, flags=re.MULTILINE))
    assert main(["show", str(copy)]) == 2
    assert "[data] files is [3], expected sums with names" in capsys.readouterr().err


def test_a_far_question_gets_a_note(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ask = ["forecast", str(run), "Bob", "calls"]
    assert main(ask) == 0
    assert "note:" not in capsys.readouterr().err
    assert main([*ask, "--at", "2026-01-01"]) == 0
    captured = capsys.readouterr()
    assert captured.err.count("note: the question lies 712 days after the last fact (2024-01-20)") == 1
    assert main([*ask, "--at", "2026-01-01", "-q"]) == 0
    assert capsys.readouterr().err == ""


def test_a_run_without_weights_is_not_finished(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = write_events(tmp_path / "events.csv")
    assert main(["-q", "train", str(events), "--model", "recurrence", "--out", str(tmp_path / "run")]) == 0
    assert printed(capsys, "show", str(tmp_path / "run"))["run"]["ended"] == "nothing to train"
    (tmp_path / "run" / "weights.safetensors").unlink()
    (tmp_path / "run" / "metrics.json").unlink()
    found = printed(capsys, "show", str(tmp_path / "run"))
    assert found["run"]["ended"].startswith("not finished")
    assert found["metrics"] == {}
    assert main(["show", str(tmp_path / "nothing")]) == 2


def test_a_run_that_was_stopped_early_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dataset = make_dataset(1)
    with pytest.raises(Interrupted):
        fit(dataset, "tango-distmult", dim=4, epochs=9, out=tmp_path / "run", verbose=False, stop=lambda _: "stopped")
    found = printed(capsys, "show", str(tmp_path / "run"))
    assert found["run"]["ended"] == "stopped early"
    assert not found["metrics"]
