"""A run folder is made as a whole or not at all, from Python as from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tangokg as tk
from conftest import make_dataset
from tangokg.errors import TrainingError
from tangokg.train import RunFolder

DIVERGES: dict[str, Any] = {"dim": 4, "layers": 1, "epochs": 9, "learning_rate": 1e30, "clip": 0.0, "device": "cpu"}


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_replaced_run_comes_back_if_the_new_one_fails(tmp_path: Path) -> None:
    dataset, out = make_dataset(1), tmp_path / "run"
    tk.fit(dataset, "frequency", out=out, verbose=False)
    before = files(tmp_path)
    with pytest.raises(TrainingError, match="loss"):
        tk.fit(dataset, "tango-distmult", out=out, overwrite=True, verbose=False, **DIVERGES)
    assert files(tmp_path) == before
    tk.fit(dataset, "recurrence", out=out, overwrite=True, verbose=False)
    assert RunFolder(out).config().model == "recurrence"
    assert [path.name for path in tmp_path.iterdir()] == ["run"], "the old run is gone"


def test_a_failed_start_leaves_no_folders(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="loss"):
        tk.fit(make_dataset(1), "tango-distmult", out=tmp_path / "deep" / "run", verbose=False, **DIVERGES)
    assert not list(tmp_path.iterdir())
    (tmp_path / "empty").mkdir()
    with pytest.raises(TrainingError, match="loss"):
        tk.fit(make_dataset(1), "tango-distmult", out=tmp_path / "empty", verbose=False, **DIVERGES)
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]
