"""The page on tuning says what the searches found, and the presets follow from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tangokg.reproduce.presets import ALIKE, MEASURED, STEP_TIME, STEPS, best_decoder, experiments
from tangokg.reproduce.store import read_results

ROOT = Path(__file__).parents[2]
FOUND = [path for name in MEASURED if (path := ROOT / "results" / "tune" / f"{name}.json").exists()]
PRUNED = sorted((ROOT / "results" / "tune-pruned").glob("*.json"))
SEARCHED = ("step_time", "dropout", "learning_rate", "batch_windows", "static")
KEPT = {"ICEWS18", "YAGO"}  # where the trials cannot be told apart, or later runs found better


def best(found: dict[str, Any]) -> dict[str, Any]:
    measured = [trial for trial in found["trials"] if trial["mrr"] is not None and trial["state"] != "failed"]
    return max(measured, key=lambda trial: float(trial["mrr"]))


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_the_table_of_the_page_is_that_of_the_trials(path: Path) -> None:
    found = json.loads(path.read_text(encoding="utf-8"))
    states = [trial["state"] for trial in found["trials"]]
    counts = [str(states.count(state)) for state in ("done", "pruned", "failed", "under way")]
    top = best(found)
    values = [json.dumps(top["values"][name]) for name in SEARCHED]
    row = f"| {' | '.join([path.stem, found['model'], *counts, format(top['mrr'], '.2f'), *values])} |"
    assert row in (ROOT / "docs" / "tuning.md").read_text(encoding="utf-8")
    assert found["model"] == f"tango-{best_decoder(path.stem)}"


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_presets_take_the_best_trial(path: Path) -> None:
    data = ALIKE.get(path.stem, path.stem)
    values = best(json.loads(path.read_text(encoding="utf-8")))["values"]
    taken = (STEP_TIME[data], *STEPS[data])
    assert (taken == (values["step_time"], values["batch_windows"], values["learning_rate"])) == (path.stem not in KEPT)


@pytest.mark.parametrize("path", PRUNED, ids=lambda path: path.stem)
def test_second_searches_stand_beside_the_presets_whose_form_they_have(path: Path) -> None:
    """Within the number of trials that was meant, and the paper form of each set but for what is searched."""
    found, data = json.loads(path.read_text(encoding="utf-8")), path.stem
    states = [trial["state"] for trial in found["trials"]]
    assert states.count("pruned") > states.count("done")
    assert len(states) <= 24
    top, preset = best(found), experiments()[f"paper-{best_decoder(data)}/{data}"]
    fixed = {name: found[name] for name in preset.settings if name in found and name not in SEARCHED}
    assert {"identity", "history", "dim", "layers", "transition"} <= set(fixed)
    assert fixed == {name: preset.settings[name] for name in fixed}
    assert found.get("normalise", False) == preset.settings["normalise"]
    own = [result["valid"]["time-aware"]["mrr"] for result in read_results(ROOT / "results").of(preset.name)]
    counts = [str(states.count(state)) for state in ("done", "pruned", "under way")]
    figures = [format(value, ".2f") for value in (sum(own) / len(own), top["mrr"])]
    values = [format(top["values"][name], "g") for name in SEARCHED[:-1]]
    row = f"| {' | '.join([data, *counts, *figures, *values])} |"
    assert row in (ROOT / "docs" / "tuning.md").read_text(encoding="utf-8")


def test_what_the_page_says_of_slow_learning_rates_is_what_the_trials_did() -> None:
    every = [trial for path in PRUNED for trial in json.loads(path.read_text(encoding="utf-8"))["trials"]]
    slow = [trial for trial in every if trial["values"]["learning_rate"] == 0.001]
    early = [trial for trial in slow if (trial["state"], trial["epochs"]) == ("pruned", 2)]
    ended = [trial for trial in slow if trial["state"] == "done"]
    page = " ".join((ROOT / "docs" / "tuning.md").read_text(encoding="utf-8").split())
    assert len(ended) == 1
    assert f"Of {len(slow)} trials with a rate of 0.001" in page
    assert f"and {len(early)} were given up after two epochs" in page
