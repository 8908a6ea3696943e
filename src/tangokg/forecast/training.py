"""Data in, a forecaster out: the whole way from facts to a finished run."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from tangokg.config import unknown_setting
from tangokg.errors import ConfigError, RunError, TangoError
from tangokg.forecast.chances import save_chances
from tangokg.forecast.forecaster import Forecaster, load
from tangokg.quads import find, read_table
from tangokg.quads.splits import split
from tangokg.quads.values import Dataset, Quadruples
from tangokg.train import RunConfig, RunFolder, make_config
from tangokg.train.devices import name_of
from tangokg.train.display import Display
from tangokg.train.loop import Reporter, resolve
from tangokg.train.loop import fit as train
from tangokg.train.provenance import commit
from tangokg.train.warmstart import adopt, continue_dataset


def fit(
    data: Any,
    config: RunConfig | str = "tango",
    *,
    out: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    start_from: str | Path | None = None,
    reporter: Reporter | None = None,
    seed: int | None = None,
    **settings: Any,
) -> Forecaster:
    """Train a model and give back what forecasts with it.

    ``data`` is a :class:`Dataset`, facts (split 80/10/10 by time), a path, a known name or a table; ``config`` a model
    name, with further ``settings`` by keyword, or a whole config. With ``out`` the run is kept there: it can be resumed
    after an interruption, and the folder is what :func:`tangokg.load` reads. ``start_from`` names a run to go on from.
    """
    resolved = _with(make_config(config) if isinstance(config, str) else config, settings)
    resolved = resolved if seed is None else replace(resolved, seed=seed)
    dataset = as_dataset(data)
    start = None
    if start_from is None and out is not None and resume:
        start_from = _unstarted_origin(RunFolder(Path(out)))
    if start_from is not None:
        old, old_data, old_config = RunFolder(Path(start_from)).load()
        if (old_config.model, old_config.settings) != (resolved.model, resolved.settings):
            other = _differences(old_config, resolved)
            raise ConfigError(f"{start_from} holds {old_config.model} with other settings ({other}); take the same.")
        dataset = continue_dataset(old_data, dataset)
        start = partial(adopt, old=old, vocab=dataset.vocab, old_vocab=old_data.vocab)
    resolved = resolve(_as_begun(resolved, out) if resume and out is not None else resolved, dataset)
    folder = None if out is None else _open(out, dataset, resolved, resume, overwrite, start_from)
    if folder is not None and resume and folder.finished:
        return load(folder.path, resolved.train.device)
    try:
        forecaster = _train(dataset, resolved, folder, resume, start, reporter)
    except TangoError:
        if folder is not None and not folder.checkpoint.exists():
            folder.remove()  # nothing was learned yet: leave the disk as it was
        raise
    if folder is not None:
        folder.save_metrics(results(forecaster))
        save_chances(folder.path, forecaster.chances)
        folder.save_model(forecaster.model, forecaster.progress)  # last: it says that the run is finished
    return forecaster


def _train(
    dataset: Dataset, config: RunConfig, folder: RunFolder | None, resume: bool, start: Any, reporter: Reporter | None
) -> Forecaster:
    files = (None, None) if folder is None else (folder.checkpoint, folder.log)
    with nullcontext(reporter) if reporter is not None else Display() as heard:
        model, progress = train(dataset, config, files[0], resume, start, heard, files[1])
    return Forecaster(model, dataset, config, progress)


def _with(config: RunConfig, settings: dict[str, Any]) -> RunConfig:
    """Keyword settings, which may be the model's own or those of training."""
    if not settings:
        return config
    tables = {"settings": {}} | config.to_tables()
    for key, value in settings.items():
        table = next((table for table in ("settings", "train") if key in tables[table]), None)
        if table is None:
            raise unknown_setting("fit()", key, [*tables["settings"], *tables["train"]])
        tables[table][key] = value
    return make_config(tables=tables, where="fit()")


def _as_begun(config: RunConfig, out: str | Path) -> RunConfig:
    """What is left to a rule, as the run to resume has it: the rule may say otherwise on another device."""
    folder = RunFolder(Path(out))
    if not (folder.path / "config.toml").exists():
        return config
    begun, train = folder.config().train, config.train
    windows, rate = train.batch_windows or begun.batch_windows, train.learning_rate or begun.learning_rate
    return replace(config, train=replace(train, batch_windows=windows, learning_rate=rate))


def _unstarted_origin(folder: RunFolder) -> Path | None:
    """The run to go on from, where one was killed before it had a checkpoint."""
    there = (folder.path / "config.toml").exists() and not folder.finished and not folder.checkpoint.exists()
    return folder.origin if there else None


def _open(
    out: str | Path, dataset: Dataset, config: RunConfig, resume: bool, overwrite: bool, start_from: str | Path | None
) -> RunFolder:
    """A new run folder, or the one to resume, which must be of the same config and facts."""
    folder = RunFolder(Path(out))
    if resume and (folder.path / "config.toml").exists():
        if folder.config() != config:
            other = _differences(folder.config(), config)
            raise RunError(f"{folder.path} was made with other settings ({other}); take the same, or use --overwrite.")
        if not dataset.same_facts(folder.dataset()):
            raise RunError(f"{folder.path} was made with other data; resume with the same, or use --overwrite.")
        return folder
    folder.claim(overwrite)
    folder.create(dataset, config, None if start_from is None else Path(start_from))
    return folder


def _differences(there: RunConfig, here: RunConfig) -> str:
    """Which settings differ: ``dim: 32 there, 64 here``."""
    flat = []
    for config in (there, here):
        tables = config.to_tables()
        flat.append({"model": config.model, "seed": config.seed} | tables.get("settings", {}) | tables["train"])
    return ", ".join(
        f"{key}: {flat[0].get(key)} there, {flat[1].get(key)} here"
        for key in dict.fromkeys([*flat[0], *flat[1]])
        if flat[0].get(key) != flat[1].get(key)
    )


def as_dataset(data: Any) -> Dataset:
    """Whatever people hold, in three parts by time."""
    if isinstance(data, Dataset):
        return data
    if isinstance(data, Quadruples):
        return split(data)
    return find(data) if isinstance(data, str | Path) else split(read_table(data))


def results(forecaster: Forecaster) -> dict[str, Any]:
    """Validation and test metrics with what they came from: a file of ``results/``."""
    dataset, progress = forecaster.dataset, forecaster.progress
    measured = {
        name: forecaster.evaluate(part)
        for name, part in (("valid", dataset.valid), ("test", dataset.test))
        if len(part)
    }
    weights = (*forecaster.model.parameters(), *forecaster.model.buffers())
    device = next((tensor.device for tensor in weights), torch.device("cpu"))
    return {
        "model": forecaster.config.model,
        "dataset": dataset.name,
        "seed": forecaster.config.seed,
        "config": forecaster.config.to_tables(),
        **{name: metrics.to_dict() for name, metrics in measured.items()},
        "queries": {name: metrics.queries for name, metrics in measured.items()},
        "epochs": progress.epoch,
        "best_epoch": progress.best_epoch,
        "train_seconds": round(progress.seconds, 1),
        "device": name_of(device),
        "versions": {
            "python": sys.version.split()[0],
            "torch": torch.__version__,
            "tangokg": import_module("tangokg").__version__,
        },
        "commit": commit(),
    }
