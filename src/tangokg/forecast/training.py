"""Data in, a forecaster out: the whole way from facts to a finished run."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Unpack

import torch

from tangokg.config import parse_duration, unknown_setting
from tangokg.errors import ConfigError, DataError, RunError, TangoError, checked
from tangokg.forecast.chances import save_chances
from tangokg.forecast.forecaster import Forecaster, load
from tangokg.models import Model
from tangokg.quads import find, read_table
from tangokg.quads.differing import what_differs
from tangokg.quads.reading import TableKeywords, TableOptions
from tangokg.quads.splits import split
from tangokg.quads.values import Dataset, Quadruples
from tangokg.train import Interrupted, Reporter, RunConfig, RunFolder, Stop, make_config, resolve
from tangokg.train.devices import name_of
from tangokg.train.display import tell_end, tell_refit
from tangokg.train.exposure import Exposure, check_start, everything
from tangokg.train.locks import owning
from tangokg.train.loop import fit as train
from tangokg.train.notebook import default_display
from tangokg.train.provenance import commit
from tangokg.train.settings import LIMITS, NO_LIMIT, inherit
from tangokg.train.signals import watching
from tangokg.train.stopping import CHOSEN, STOPPED, never
from tangokg.train.warmstart import adopt, continue_dataset

logger = logging.getLogger("tangokg")


@checked
def fit(
    data: Any,
    config: RunConfig | str = "tango",
    *,
    out: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    start_from: str | Path | None = None,
    allow_seen: bool = False,
    reporter: Reporter | None = None,
    seed: int | None = None,
    budget: str | float | None = None,
    stop: Stop | None = None,
    verbose: bool = True,
    columns: Mapping[str, str] | None = None,
    unit: str | None = None,
    timezone: str | None = None,
    date_format: str | None = None,
    skip_bad: bool = False,
    relation: str | None = None,
    overlap: str | None = None,
    **settings: Any,
) -> Forecaster:
    """Train a model and give back what forecasts with it.

    ``data`` is a :class:`Dataset`, facts (split 80/10/10 by time), a path, a known name or a table; ``config`` a model
    name, with further ``settings`` by keyword, or a whole config. With ``out`` the run is kept there: it can be resumed
    after an interruption, and the folder is what :func:`tangokg.load` reads. ``start_from`` names a run to go on from;
    where it saw what is held back now, this is refused, or with ``allow_seen`` marked. ``budget`` is a time ("10m", or
    seconds), ``stop`` a callback that is asked after each step. Ctrl-C raises :class:`tangokg.Interrupted`, whose
    ``forecaster`` has the best weights so far. ``columns`` to ``overlap`` say how a table or folder is read, as in
    :func:`tangokg.read_events`. With ``verbose=False`` nothing is shown; each epoch is logged in any case
    (``logging.getLogger("tangokg")``, level INFO).
    """
    if "model" in settings:
        raise ConfigError(f"the model is the second argument of fit: fit(data, {settings['model']!r}).")
    if budget is not None:
        settings["budget"] = NO_LIMIT if budget == "none" else parse_duration(budget, "budget")
    resolved = _with(make_config(config) if isinstance(config, str) else config, settings)
    resolved = resolved if seed is None else replace(resolved, seed=seed)
    reading = TableKeywords(
        columns=columns, unit=unit, timezone=timezone, date_format=date_format, skip_bad=skip_bad, relation=relation
    )
    with watching(), nullcontext() if out is None else owning(Path(out)):
        plan = _plan(as_dataset(data, overlap, **reading), resolved, out, resume, start_from, allow_seen)
        folder = None if out is None else _open(out, plan, resume, overwrite)
        if folder is not None and resume and folder.finished:
            return load(folder.path, plan.config.train.device)
        with nullcontext(reporter) if reporter is not None else default_display(verbose) as heard:
            trained = _train(plan, folder, resume, heard, stop or never)
        kept = folder is not None and resume and folder.dataset().own is not None  # facts observed before it went on
        return load(folder.path, plan.config.train.device) if folder is not None and kept else trained


@dataclass(frozen=True)
class _Plan:
    """What is to be trained, on what, and from where."""

    dataset: Dataset
    config: RunConfig
    exposure: Exposure
    origin: Path | None = None
    start: Callable[[Model], None] | None = None


def _plan(
    dataset: Dataset,
    config: RunConfig,
    out: str | Path | None,
    resume: bool,
    start_from: str | Path | None,
    allow_seen: bool,
) -> _Plan:
    """Settings left to a rule are those of the run that is resumed or started from, else by rule."""
    dataset = replace(dataset, own=None)  # it is made with all of them
    begun = RunFolder(Path(out)) if resume and out is not None and RunFolder(Path(out)).begun else None
    if start_from is None and begun is not None and not begun.finished:
        begins = not begun.checkpoint.exists()  # killed before it had a checkpoint
        start_from = begun.origin if begins or config.train.refit else None
    if begun is not None:
        config, allow_seen = inherit(config, begun.config()), allow_seen or bool(begun.seen)
    if start_from is None:
        exposure = Exposure.of(dataset) if begun is None else begun.planned_exposure(dataset)
        return _Plan(dataset, resolve(config, dataset), exposure)
    folder = RunFolder(Path(start_from))
    old, old_data, old_config = folder.load()
    config = replace(config, settings=inherit(config, old_config).settings)
    if (old_config.model, old_config.settings) != (config.model, config.settings):
        other = _differences(old_config, config)
        raise ConfigError(f"{start_from} holds {old_config.model} with other settings ({other}); take the same.")
    dataset = continue_dataset(old_data, dataset)
    before = folder.exposure()
    exposure = Exposure.of(dataset, before, check_start(before, dataset, allow_seen))
    start = partial(adopt, old=old, vocab=dataset.vocab, old_vocab=old_data.vocab)
    return _Plan(dataset, resolve(config, dataset), exposure, Path(start_from), start)


def _train(plan: _Plan, folder: RunFolder | None, resume: bool, reporter: Reporter, stop: Stop) -> Forecaster:
    """Train, measure, and where it is wanted refit; whatever stops it early leaves the best so far."""
    files = (None, None) if folder is None else (folder.checkpoint, folder.log)
    best, saved = None, False
    try:
        model, progress = train(plan.dataset, plan.config, files[0], resume, plan.start, reporter, files[1], stop)
        best = Forecaster(model, plan.dataset, plan.config, progress, plan.exposure)
        refit = plan.config.train.refit and any(True for _ in model.parameters())
        tell_end(reporter, progress, plan.config.train)
        found = results(best)
        if plan.config.train.refit and not refit:
            logger.warning(f"{plan.config.model} counts all facts that it knows: there is nothing to refit.")
        if refit and len(plan.dataset.test):
            found["reliability"] = {kind: one.to_dict() for kind, one in best.calibration().items()}
        if folder is not None:
            folder.save_metrics(found)
            save_chances(folder.path, best.chances)
            folder.save_model(model, replace(progress, ended=CHOSEN) if refit else progress, plan.exposure)
            saved = True
        return _refit(plan, best, folder, resume, reporter, stop) if refit else best
    except KeyboardInterrupt as interrupt:
        raise _keep(plan, interrupt, best, None if saved else folder) from None
    except TangoError:
        if folder is not None and not folder.checkpoint.exists() and not folder.usable:
            folder.remove()  # nothing was learned yet: leave the disk as it was
        raise


def _refit(
    plan: _Plan, chosen: Forecaster, folder: RunFolder | None, resume: bool, reporter: Reporter, stop: Stop
) -> Forecaster:
    """The same model trained on all parts, for as many epochs as were best; its figures stay those of ``chosen``."""
    config = replace(plan.config, train=replace(plan.config.train, budget=NO_LIMIT))
    checkpoint = None if folder is None else folder.refit_checkpoint
    whole = everything(plan.dataset)
    tell_refit(reporter, chosen.progress)
    model, _ = train(whole, config, checkpoint, resume, plan.start, reporter, stop=stop, like=chosen.progress)
    exposure = plan.exposure.after_refit(plan.dataset)
    if folder is not None:
        folder.save_model(model, chosen.progress, exposure)
    return Forecaster(model, plan.dataset, plan.config, chosen.progress, exposure, chosen.chances)


def _keep(
    plan: _Plan, interrupt: KeyboardInterrupt, best: Forecaster | None, folder: RunFolder | None
) -> KeyboardInterrupt:
    """What to raise: with the best forecaster so far, which the folder, where it lacks it, then has too."""
    stopped = interrupt if isinstance(interrupt, Interrupted) else Interrupted(signal.SIGINT)
    if best is None and stopped.model is not None:
        best = Forecaster(stopped.model, plan.dataset, plan.config, stopped.progress, plan.exposure)
    if best is None:
        return interrupt
    if folder is not None:
        folder.save_stopped(best.model, replace(best.progress, ended=STOPPED), plan.exposure)
    stopped.forecaster = best
    return stopped


def _with(config: RunConfig, settings: dict[str, Any]) -> RunConfig:
    """Keyword settings, which may be the model's own or those of training."""
    if not settings:
        return config
    tables = {"settings": {}} | config.to_tables()
    if "epochs" in settings:  # who says how many epochs wants no other limit, unless he says that too
        settings = {"budget": NO_LIMIT} | settings
    known = {"settings": [f.name for f in fields(config.settings)], "train": [f.name for f in fields(config.train)]}
    for key, value in settings.items():
        table = next((table for table, names in known.items() if key in names), None)
        if table is None:
            raise unknown_setting("fit()", key, [*known["settings"], *known["train"]])
        tables[table][key] = value
    return make_config(tables=tables, where="fit()")


def _open(out: str | Path, plan: _Plan, resume: bool, overwrite: bool) -> RunFolder:
    """A new run folder, or the one to resume, which must be of the same config and facts, its limits apart."""
    folder, config = RunFolder(Path(out)), plan.config
    if resume and folder.begun:
        there = folder.config()
        limits = {name: getattr(config.train, name) for name in LIMITS}
        if replace(there, train=replace(there.train, **limits)) != config:
            other = _differences(there, config)
            raise RunError(f"{folder.path} was made with other settings ({other}); take the same, or use --overwrite.")
        if not plan.dataset.same_facts(known := folder.dataset().made_with):
            other = what_differs(known, plan.dataset)
            raise RunError(
                f"{folder.path} was made with other data ({other}); resume with the same, or use --overwrite."
            )
        if there != config:
            if folder.finished and not folder.checkpoint.exists():
                raise RunError(f"{folder.path} has no checkpoint any more to go on from; use --overwrite.")
            folder.reopen(config)
        return folder
    folder.claim(overwrite)
    folder.create(plan.dataset, config, plan.origin, plan.exposure)
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


def as_dataset(data: Any, overlap: str | None = None, **reading: Unpack[TableKeywords]) -> Dataset:
    """Whatever people hold, in three parts by time; how it is read can be said of what is not read yet."""
    if isinstance(data, Dataset | Quadruples):
        given = [*TableOptions(**reading).given(), *(["overlap"] if overlap is not None else [])]
        if given:
            raise DataError(f"these facts are read already: give {', '.join(given)} to read_events.")
        return data if isinstance(data, Dataset) else split(data)
    if isinstance(data, str | Path):
        return find(data, overlap=overlap, **reading)
    if overlap is not None:
        raise DataError("an overlap is settled for a benchmark folder only, and this is a table.")
    return split(read_table(data, **reading))


def read_with(data: Any, settings: dict[str, Any]) -> tuple[Dataset, dict[str, Any]]:
    """The data as :func:`fit` reads it, by those of the keywords that say how, and the other keywords."""
    names = {*TableKeywords.__annotations__, "overlap"}
    reading = {key: value for key, value in settings.items() if key in names}
    return as_dataset(data, **reading), {key: value for key, value in settings.items() if key not in names}


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
        "files": dict(dataset.files),
        "seed": forecaster.config.seed,
        "config": forecaster.config.to_tables(),
        **{name: metrics.to_dict() for name, metrics in measured.items()},
        **({"not_comparable": forecaster.exposure.seen} if forecaster.exposure.seen else {}),
        "queries": {name: metrics.queries for name, metrics in measured.items()},
        "epochs": progress.epoch,
        "best_epoch": progress.best_epoch,
        "ended": progress.ended,
        "train_seconds": round(progress.seconds, 1),
        "device": name_of(device),
        "versions": {
            "python": sys.version.split()[0],
            "torch": torch.__version__,
            "tangokg": import_module("tangokg").__version__,
        },
        "commit": commit(),
    }
