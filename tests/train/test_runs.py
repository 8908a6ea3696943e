"""A run folder holds all that a trained model needs, and says what is wrong with it."""

from __future__ import annotations

import csv
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file

from conftest import make_dataset
from tangokg.errors import ConfigError, RunError, TangoError
from tangokg.forecast import fit as train
from tangokg.forecast import load
from tangokg.models.tango import TangoSettings
from tangokg.quads.clock import Clock
from tangokg.quads.values import Dataset
from tangokg.train import RunConfig, RunFolder, TrainSettings, fit
from tangokg.train.checkpoint import load_tensors, save_tensors

FILES = {"config.toml", "history.parquet", "weights.safetensors", "log.csv", "vocab", "checkpoint"}


def dated() -> Dataset:
    dataset = make_dataset(1)
    clock = Clock("day", "2014-01-01")
    train, valid, test = (replace(getattr(dataset, part), clock=clock) for part in ("train", "valid", "test"))
    return Dataset(train, valid, test, 'a name with " and ü')


def config() -> RunConfig:
    settings = TangoSettings(decoder="distmult", dim=4, history=2)
    return RunConfig("tango-distmult", settings, TrainSettings(epochs=2, device="cpu"), seed=4)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = RunFolder(tmp_path_factory.mktemp("runs") / "run")
    run.create(dated(), config())
    model, progress = fit(dated(), config(), run.checkpoint)
    run.save_model(model, progress)
    return run.path


@pytest.fixture
def run(original: Path, tmp_path: Path) -> RunFolder:
    """A copy that a test may damage."""
    return RunFolder(Path(shutil.copytree(original, tmp_path / "run")))


def test_the_files_are_those_of_the_design_and_nothing_is_left_over(run: RunFolder) -> None:
    assert {p.name for p in run.path.iterdir()} >= FILES
    assert not list(run.path.rglob("*.tmp"))
    assert run.finished
    with (run.path / "log.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["epoch"] for row in rows] == ["1", "2"]
    assert all(float(row["valid_mrr"]) > 0 for row in rows)


def test_data_and_config_come_back(run: RunFolder) -> None:
    _, dataset, found = run.load()
    assert found == config()
    expected = dated()
    assert (dataset.name, dataset.clock, dataset.vocab) == (expected.name, expected.clock, expected.vocab)
    for part in ("train", "valid", "test"):
        for column in "srot":
            assert np.array_equal(getattr(getattr(dataset, part), column), getattr(getattr(expected, part), column))


@pytest.mark.parametrize("name", ["config.toml", "history.parquet", "weights.safetensors", "vocab/entities.parquet"])
@pytest.mark.parametrize("damage", ["gone", "empty", "half", "noise"])
def test_a_damaged_file_is_named(run: RunFolder, name: str, damage: str) -> None:
    path = run.path / name
    whole = path.read_bytes()
    path.unlink()
    if damage != "gone":
        noise = np.random.default_rng(0).bytes(len(whole))
        path.write_bytes({"empty": b"", "half": whole[: len(whole) // 2], "noise": noise}[damage])
    with pytest.raises(TangoError) as raised:
        run.load()
    named = Path(name).name in str(raised.value)
    assert named or (name == "config.toml" and str(run.path) in str(raised.value))


def test_a_damaged_checkpoint_is_named(run: RunFolder) -> None:
    run.checkpoint.write_bytes(run.checkpoint.read_bytes()[:-9])
    with pytest.raises(RunError, match=r"state\.safetensors: damaged"):
        fit(dated(), config(), run.checkpoint, resume=True)


def test_weights_of_another_size_are_refused(run: RunFolder) -> None:
    text = (run.path / "config.toml").read_text()
    (run.path / "config.toml").write_text(text.replace("dim = 4", "dim = 5"))
    with pytest.raises(RunError, match="weights and config do not fit together"):
        run.load()


def test_another_schema_is_refused(run: RunFolder) -> None:
    text = (run.path / "config.toml").read_text()
    (run.path / "config.toml").write_text(text.replace("schema = 1", "schema = 99"))
    with pytest.raises(RunError, match="run of schema 99; this version reads schema 1"):
        run.load()


def test_a_folder_that_is_no_run_is_neither_read_nor_deleted(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(RunError, match="no run is here"):
        RunFolder(tmp_path).load()
    with pytest.raises(RunError, match="not a run folder, so --overwrite does not delete it"):
        RunFolder(tmp_path).remove()
    assert (tmp_path / "thesis.txt").exists()


def test_an_unfinished_run_says_how_to_go_on(run: RunFolder) -> None:
    (run.path / "weights.safetensors").unlink()
    with pytest.raises(RunError, match=r"not finished.*--resume"):
        run.load()


def test_ids_outside_the_vocabulary_are_refused(run: RunFolder) -> None:
    path = run.path / "history.parquet"
    table = pq.read_table(path)
    pq.write_table(table.set_column(0, "s", [np.full(len(table), 12)]), path)
    with pytest.raises(RunError, match=r"history\.parquet: the id of a subject lies outside the vocabulary of 12"):
        run.load()


def test_a_path_that_cannot_be_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"cannot be created.*choose another --out"):
        RunFolder(tmp_path / "file" / "run").create(dated(), config())


def test_weights_are_plain_and_loading_them_runs_nothing(run: RunFolder) -> None:
    weights = load_file(run.path / "weights.safetensors")
    model, _, _ = run.load()
    assert weights.keys() == model.state_dict().keys()
    assert all(torch.equal(weights[name], tensor) for name, tensor in model.state_dict().items())
    assert not [p for p in run.path.rglob("*") if p.suffix in (".pt", ".pth", ".pkl", ".ckpt")]


def test_metrics_are_json(run: RunFolder) -> None:
    run.save_metrics({"model": "x", "mrr": 1.5})
    assert json.loads((run.path / "metrics.json").read_text()) == {"model": "x", "mrr": 1.5}


@pytest.mark.parametrize("call", range(1, 4))
def test_a_kill_while_the_folder_is_made_leaves_no_half_a_run(
    call: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """os.replace names the facts, the config and the folder, in this order; a kill leaves nothing."""

    class Killed(BaseException):
        pass

    calls, replace_file = 0, os.replace

    def deadly(*args: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == call:
            raise Killed
        replace_file(*args)

    run = RunFolder(tmp_path / "run")
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", deadly)
        with pytest.raises(Killed):
            run.create(dated(), config())
    assert not run.path.exists()
    run.claim().create(dated(), config())
    assert run.config() == config()


def changed_weights(run: RunFolder, **tensors: torch.Tensor) -> None:
    weights, note = load_tensors(run.weights)
    save_tensors(run.weights, weights | tensors, note)


@pytest.mark.parametrize("value", [-1.0, 0.0, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["gap", "longest_gap"])
def test_a_gap_that_cannot_be_is_refused(run: RunFolder, name: str, value: float) -> None:
    changed_weights(run, **{name: torch.tensor(value, dtype=torch.float64)})
    with pytest.raises(RunError, match=rf"weights and config do not fit together \({name} must be a positive time"):
        run.load()


def test_weights_of_another_type_are_refused(run: RunFolder) -> None:
    weights, _ = load_tensors(run.weights)
    changed_weights(run, entities=weights["entities"].double())
    with pytest.raises(RunError, match=r"entities must be torch\.float32, found torch\.float64"):
        run.load()


@pytest.mark.parametrize(
    "note",
    [
        {"progress": {"epoch": "two"}},
        {"progress": [3]},
        {"exposure": {"until": "late", "refit": False, "seen": ""}},
        {"exposure": {"until": 3.0, "refit": 1, "seen": ""}},
        {"exposure": [1]},
    ],
)
def test_a_note_of_wrong_types_is_refused(run: RunFolder, note: dict[str, Any]) -> None:
    weights, _ = load_tensors(run.weights)
    save_tensors(run.weights, weights, note)
    with pytest.raises(RunError):
        load(run.path)


def test_a_checkpoint_at_an_impossible_place_is_named(run: RunFolder) -> None:
    tensors, note = load_tensors(run.checkpoint)
    note["progress"] |= {"epoch": 1, "position": 1, "log": note["progress"]["log"][:1], "best_epoch": 1}
    save_tensors(run.checkpoint, tensors | {"order": tensors["order"] + 99}, note)
    with pytest.raises(RunError, match=r"state\.safetensors: .*asks other questions than the 5"):
        fit(dated(), config(), run.checkpoint, resume=True)
    save_tensors(run.checkpoint, tensors, note | {"progress": note["progress"] | {"log": []}})
    with pytest.raises(RunError, match=r"1 epochs, and 0 in its log"):
        fit(dated(), config(), run.checkpoint, resume=True)


def test_a_run_with_a_removed_setting_is_read_where_it_did_nothing(run: RunFolder) -> None:
    path = run.path / "config.toml"
    text, config = path.read_text(), run.config()
    path.write_text(text.replace("[settings]\n", "[settings]\ncopying = false\n"))
    assert run.config() == config
    path.write_text(text.replace("[settings]\n", "[settings]\ncopying = true\n"))
    with pytest.raises(ConfigError, match="unknown setting 'copying'"):
        run.config()


def test_a_run_of_the_earlier_default_model_is_refused_with_the_reason(run: RunFolder) -> None:
    path = run.path / "config.toml"
    lines = [line for line in path.read_text().splitlines() if not line.startswith("width = ")]
    path.write_text("\n".join(lines).replace('model = "tango-distmult"', 'model = "tango"') + "\n")
    with pytest.raises(RunError, match="the model 'tango' of an earlier version"):
        run.config()


def test_a_default_model_without_its_newest_weights_may_be_of_an_earlier_version(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"dim": 4, "width": 8, "device": "cpu", "epochs": 1, "verbose": False}
    train(dated(), out=tmp_path / "run", **settings)
    run = RunFolder(tmp_path / "run")
    weights, note = load_tensors(run.weights)
    save_tensors(run.weights, {name: tensor for name, tensor in weights.items() if "habits" not in name}, note)
    with pytest.raises(RunError, match=r"do not fit together.*of an earlier version"):
        run.load()
