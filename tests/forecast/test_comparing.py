"""``tangokg.compare``: what it trains, loads and resumes, and what it refuses, from Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tangokg as tk
from conftest import make_dataset
from tangokg.errors import RunError
from tangokg.train import Interrupted, RunFolder
from tangokg.train.stopping import STOPPED

SMALL: dict[str, Any] = {"dim": 4, "history": 2, "layers": 1, "epochs": 2, "device": "cpu"}


def figures(found: Any) -> dict[str, float]:
    return {row.name: row.figures.mrr for row in found.rows}


def test_existing_runs_are_loaded_and_interrupted_ones_resumed(tmp_path: Path) -> None:
    dataset = make_dataset(1)
    options: dict[str, Any] = {"stop": lambda p: STOPPED if p.epoch else "", "verbose": False}
    with pytest.raises(Interrupted):
        tk.fit(dataset, "tango-distmult", out=tmp_path / "tango-distmult", **options, **SMALL)
    models = ["recurrence", "tango-distmult"]
    first = tk.compare(dataset, models, out=tmp_path, verbose=False, **SMALL)
    assert RunFolder(tmp_path / "tango-distmult").finished
    written = (tmp_path / "tango-distmult" / "weights.safetensors").stat().st_mtime_ns
    assert figures(tk.compare(dataset, models, out=tmp_path, verbose=False, **SMALL)) == figures(first)
    assert (tmp_path / "tango-distmult" / "weights.safetensors").stat().st_mtime_ns == written
    with pytest.raises(RunError, match="was made with other settings than --set dim=8"):
        tk.compare(dataset, models, out=tmp_path, verbose=False, **SMALL | {"dim": 8})


def test_a_finished_run_is_named_by_its_path(tmp_path: Path) -> None:
    dataset, path = make_dataset(1), tmp_path / "run"
    trained = tk.fit(dataset, "frequency", out=path, verbose=False)
    found = tk.compare(dataset, [path, "recurrence"], verbose=False)
    assert figures(found)["frequency"] == trained.evaluate()["time-aware"].mrr
    with pytest.raises(RunError, match="was made with other data"):
        tk.compare(make_dataset(2), [path], verbose=False)


def test_a_setting_goes_to_the_models_that_have_it() -> None:
    found = tk.compare(make_dataset(1), ["frequency", "tango-distmult"], verbose=False, budget="10m", **SMALL)
    assert {row.name for row in found.rows} == {"frequency", "tango-distmult"}
