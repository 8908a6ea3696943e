"""Facts that were kept with a run later do not count when data are compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tangokg as tk
from cli_runs import SMALL, printed, write_events
from tangokg.cli import main
from tangokg.train import Interrupted, RunFolder
from tangokg.train.stopping import STOPPED

MODELS = {"recurrency": [], "tango-distmult": SMALL, "tango": ["--epochs", "2", "--device", "cpu"]}
LATER = "subject,relation,object,date\nHal,greets,Bob,2024-01-21\nBob,calls,Eve,2024-01-19\nEve,visits,Ivy,2090-01-01\n"


def keep(folder: Path, run: Path) -> None:
    """New names, a new relation, a fact inside the test part, and one decades later."""
    later = folder / "later.csv"
    later.write_text(LATER)
    assert main(["-q", "forecast", str(run), "Bob", "calls", "--observe", str(later), "--keep"]) == 0
    assert tk.load(run).dataset.after is not None


@pytest.mark.parametrize("lone", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_a_run_with_kept_facts_is_compared_and_resumed_as_before(
    name: str, lone: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events, run = write_events(tmp_path / "events.csv", 60), tmp_path / "run"
    if lone:
        events.write_text(events.read_text() + "Zoe,calls,Bob,2099-01-01\n")
    train = ["-q", "train", str(events), "--model", name, "--out", str(run), *MODELS[name]]
    compare = ["compare", str(events), "--run", str(run), "--model", "frequency", "--out", str(tmp_path / "c")]
    assert main(train) == 0
    before = figures(printed(capsys, *compare))
    keep(tmp_path, run)
    keep(tmp_path, run)
    facts = len(tk.load(run).facts)
    assert figures(printed(capsys, *compare)) == before
    forecaster = tk.load(run)
    found = tk.compare(events, [forecaster], verbose=False)
    assert found.rows[0].figures.to_dict() == before[name]
    assert main([*train, "--resume"]) == 0
    assert main(["-q", "train", "--out", str(run), "--resume"]) == 0
    assert len(tk.load(run).facts) == facts, "they are still there"
    other = write_events(tmp_path / "other.csv", 50)
    assert main(["compare", str(other), "--run", str(run)]) == 2
    assert "made with other data" in capsys.readouterr().err


def figures(found: dict[str, Any]) -> dict[str, dict[str, float]]:
    names = ("mrr", "hits@1", "hits@3", "hits@10")
    return {row["model"]: {name: row[name] for name in names} for row in found["models"]}


def test_a_stopped_run_with_kept_facts_goes_on(tmp_path: Path) -> None:
    events, run = write_events(tmp_path / "events.csv"), tmp_path / "run"
    options: dict[str, Any] = {"dim": 4, "history": 2, "layers": 1, "epochs": 3, "device": "cpu", "verbose": False}
    whole = tk.fit(events, "tango-distmult", **options)
    with pytest.raises(Interrupted):
        tk.fit(events, "tango-distmult", out=run, stop=lambda p: STOPPED if p.epoch else "", **options)
    keep(tmp_path, run)
    assert main(["-q", "train", "--out", str(run), "--resume"]) == 0
    assert RunFolder(run).finished
    forecaster = tk.load(run)
    assert "Hal" in forecaster.facts.vocab.entities
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["test"] == whole.evaluate().to_dict()
    again = tk.fit(events, "tango-distmult", out=run, resume=True, **options | {"epochs": 4})
    assert "Hal" in again.facts.vocab.entities, "what it gives back knows them too"


def test_what_was_observed_in_python_does_not_count_either(tmp_path: Path) -> None:
    data = tk.read_events(write_events(tmp_path / "events.csv")).split()
    forecaster = tk.fit(data, "recurrency", verbose=False)
    before = tk.compare(data, [forecaster], verbose=False).rows[0].figures
    (tmp_path / "later.csv").write_text(LATER)
    assert forecaster.observe(tmp_path / "later.csv") == 3
    assert tk.compare(data, [forecaster], verbose=False).rows[0].figures == before
    forecaster.save(tmp_path / "saved")
    assert tk.compare(data, [tk.load(tmp_path / "saved")], verbose=False).rows[0].figures == before
    assert len(forecaster.facts) == len(data.facts) + 3
    more = tk.fit(forecaster.dataset, "recurrency", verbose=False)
    assert more.dataset.made_with.vocab.num_entities == forecaster.facts.vocab.num_entities, "made with all of it"


@pytest.mark.parametrize("own", ["[1, 2]", '"all"', "[-1, 1, 0]", "[999, 1, 0]", "[1.5, 1, 0]"])
def test_damaged_counts_are_told(own: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    tk.fit(write_events(tmp_path / "events.csv"), "recurrency", out=run, verbose=False)
    config = run / "config.toml"
    config.write_text(config.read_text().replace("[data]\n", f"[data]\nown = {own}\n"))
    assert main(["forecast", str(run), "Bob", "calls"]) == 2
    assert "[data] own is" in capsys.readouterr().err
