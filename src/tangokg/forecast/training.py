"""Data in, a forecaster out: all steps from facts to a finished run."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from tangokg.config import parse_duration
from tangokg.errors import ConfigError, DataError, RunError, checked
from tangokg.forecast.chances import save_chances
from tangokg.forecast.forecaster import Forecaster
from tangokg.forecast.loading import load
from tangokg.forecast.outcome import results
from tangokg.models import Model
from tangokg.quads import find, read_events
from tangokg.quads.differing import what_differs
from tangokg.quads.reading import TableKeywords, TableOptions
from tangokg.quads.splits import split
from tangokg.quads.values import Dataset, Quadruples
from tangokg.train import Interrupted, Progress, Reporter, RunConfig, RunFolder, Stop, make_config, resolve
from tangokg.train.display import print_end, print_refit
from tangokg.train.exposure import Exposure, check_start, everything
from tangokg.train.loggers import Tracking, choose_loggers, tracking
from tangokg.train.loop import fit as train
from tangokg.train.notebook import default_display
from tangokg.train.processes import Group, joined
from tangokg.train.replacing import owning_run, removing_failed, replacing
from tangokg.train.settings import LIMITS, NO_LIMIT, change, inherit
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
    loggers: str | Sequence[Any] | None = None,
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
    ``forecaster`` has the best weights so far. ``loggers`` are trackers by name (``"csv,tensorboard,wandb,mlflow"``) or
    Lightning loggers, which receive settings, epochs and test metrics. ``columns`` to ``overlap`` say how a table or
    folder is read, as in :func:`tangokg.read_events`. With ``verbose=False`` nothing is shown; each epoch is logged in
    any case (``logging.getLogger("tangokg")``, level INFO). Started by torchrun or Slurm in several processes, they
    train together: each gets the same weights, the first one alone writes and measures.
    """
    if "model" in settings:
        raise ConfigError(f"the model is the second argument of fit: fit(data, {settings['model']!r}).")
    trackers = choose_loggers(loggers, out is not None)
    if budget is not None:
        settings["budget"] = NO_LIMIT if budget == "none" else parse_duration(budget, "budget")
    resolved = change(make_config(config) if isinstance(config, str) else config, settings.items(), "fit()")
    resolved = resolved if seed is None else replace(resolved, seed=seed)
    reading = TableKeywords(
        columns=columns, unit=unit, timezone=timezone, date_format=date_format, skip_bad=skip_bad, relation=relation
    )
    with joined() as group, watching(), nullcontext() if out is None or not group.first else owning_run(out):
        training = _prepare(as_dataset(data, overlap, **reading), resolved, out, resume, start_from, allow_seen)
        if not group.first:
            return _help(training, group, None if out is None else RunFolder(Path(out)), resume, stop or never)
        with nullcontext() if out is None else replacing(out, overwrite):
            new = out is not None and not RunFolder(Path(out)).begun
            folder = None if out is None else _open(out, training, resume, overwrite)
            finished = folder is not None and resume and folder.finished
            group.largest(int(finished))
            if folder is not None and finished:
                return load(folder.path, training.config.train.device)
            shown = nullcontext(reporter) if reporter is not None else default_display(verbose)
            run, name = (None, resolved.model) if folder is None else (folder.path, folder.path.name)
            with (
                removing_failed(folder.path) if folder is not None and new else nullcontext(),
                shown as display,
                tracking(trackers, run, name, display, training.dataset, training.config) as tracked,
            ):
                trained = _train(training, folder, resume, tracked, stop or never, group)
        kept = folder is not None and resume and folder.dataset().own is not None  # facts observed before it went on
        return load(folder.path, training.config.train.device) if folder is not None and kept else trained


@dataclass(frozen=True)
class _Training:
    """What to train, on which data, and from which weights."""

    dataset: Dataset
    config: RunConfig
    exposure: Exposure
    origin: Path | None = None
    start: Callable[[Model], None] | None = None


def _prepare(
    dataset: Dataset,
    config: RunConfig,
    out: str | Path | None,
    resume: bool,
    start_from: str | Path | None,
    allow_seen: bool,
) -> _Training:
    """Resolve the settings left to a rule: from the run that is resumed or started from, else by the rule."""
    dataset = replace(dataset, own=None)  # it is made with all of them
    begun = RunFolder(Path(out)) if resume and out is not None and RunFolder(Path(out)).begun else None
    if start_from is None and begun is not None and not begun.finished:
        begins = not begun.checkpoint.exists()  # killed before it had a checkpoint
        start_from = begun.origin if begins or config.train.refit else None
    if begun is not None:
        config, allow_seen = inherit(config, begun.config()), allow_seen or bool(begun.seen)
    if start_from is None:
        exposure = Exposure.of(dataset) if begun is None else begun.planned_exposure(dataset)
        return _Training(dataset, resolve(config, dataset), exposure)
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
    return _Training(dataset, resolve(config, dataset), exposure, Path(start_from), start)


def _help(training: _Training, group: Group, folder: RunFolder | None, resume: bool, stop: Stop) -> Forecaster:
    """The work of every process but the first: it takes part in training, and writes nothing."""
    if group.largest(0) and folder is not None:  # the first process found a finished run
        return load(folder.path, training.config.train.device)
    checkpoint, config = None if folder is None else folder.checkpoint, training.config
    model, progress = train(training.dataset, config, checkpoint, resume, training.start, None, None, stop, group=group)
    if config.train.refit and any(True for _ in model.parameters()):
        group.wait()  # the first process measures
        model = _train_whole(training, folder, resume, None, stop, progress, group)
    return Forecaster(model, training.dataset, config, progress, training.exposure)


def _train(
    training: _Training, folder: RunFolder | None, resume: bool, reporter: Tracking, stop: Stop, group: Group
) -> Forecaster:
    """Train, measure and, if the settings say so, refit; a stop in between keeps the best so far."""
    files = (None, None) if folder is None else (folder.checkpoint, folder.log)
    best, saved = None, False
    try:
        model, progress = train(
            training.dataset, training.config, files[0], resume, training.start, reporter, files[1], stop, group=group
        )
        best = Forecaster(model, training.dataset, training.config, progress, training.exposure)
        refit = training.config.train.refit and any(True for _ in model.parameters())
        print_end(reporter.shown, progress, training.config.train)
        metrics = results(best)
        reporter.end(metrics, progress)
        if training.config.train.refit and not refit:
            logger.warning(f"{training.config.model} counts all facts that it knows: there is nothing to refit.")
        if refit and len(training.dataset.test):
            metrics["reliability"] = {kind: calibration.to_dict() for kind, calibration in best.calibration().items()}
        if folder is not None:
            folder.save_metrics(metrics)
            save_chances(folder.path, best.chances)
            folder.save_model(model, replace(progress, ended=CHOSEN) if refit else progress, training.exposure)
            saved = True
        return _refit(training, best, folder, resume, reporter.shown, stop, group) if refit else best
    except KeyboardInterrupt as interrupt:
        raise _keep(training, interrupt, best, None if saved else folder) from None


def _refit(
    training: _Training,
    chosen: Forecaster,
    folder: RunFolder | None,
    resume: bool,
    reporter: Reporter,
    stop: Stop,
    group: Group,
) -> Forecaster:
    """The same model trained on all parts for the best number of epochs; its figures stay those of ``chosen``."""
    print_refit(reporter, chosen.progress)
    group.wait()
    model = _train_whole(training, folder, resume, reporter, stop, chosen.progress, group)
    exposure = training.exposure.after_refit(training.dataset)
    if folder is not None:
        folder.save_model(model, chosen.progress, exposure)
    return Forecaster(model, training.dataset, training.config, chosen.progress, exposure, chosen.chances)


def _train_whole(
    training: _Training,
    folder: RunFolder | None,
    resume: bool,
    reporter: Reporter | None,
    stop: Stop,
    like: Progress,
    group: Group,
) -> Model:
    """The model trained on all parts."""
    config = replace(training.config, train=replace(training.config.train, budget=NO_LIMIT))
    checkpoint, whole = None if folder is None else folder.refit_checkpoint, everything(training.dataset)
    return train(whole, config, checkpoint, resume, training.start, reporter, stop=stop, like=like, group=group)[0]


def _keep(
    training: _Training, interrupt: KeyboardInterrupt, best: Forecaster | None, folder: RunFolder | None
) -> KeyboardInterrupt:
    """The exception to raise, with the best forecaster so far; its weights go into ``folder``, where one is given."""
    stopped = interrupt if isinstance(interrupt, Interrupted) else Interrupted(signal.SIGINT)
    if best is None and stopped.model is not None:
        best = Forecaster(stopped.model, training.dataset, training.config, stopped.progress, training.exposure)
    if best is None:
        return interrupt
    if folder is not None:
        folder.save_stopped(best.model, replace(best.progress, ended=STOPPED), training.exposure)
    stopped.forecaster = best
    return stopped


def _open(out: str | Path, training: _Training, resume: bool, overwrite: bool) -> RunFolder:
    """A new run folder, or the one to resume; its facts and config, except for limits, must be the same."""
    folder, config = RunFolder(Path(out)), training.config
    if resume and folder.begun:
        existing = folder.config()
        limits = {name: getattr(config.train, name) for name in LIMITS}
        if replace(existing, train=replace(existing.train, **limits)) != config:
            other = _differences(existing, config)
            raise RunError(f"{folder.path} was made with other settings ({other}); take the same, or use --overwrite.")
        if not training.dataset.same_facts(known := folder.dataset().made_with):
            other = what_differs(known, training.dataset)
            raise RunError(
                f"{folder.path} was made with other data ({other}); resume with the same, or use --overwrite."
            )
        if existing != config:
            if folder.finished and not folder.checkpoint.exists():
                raise RunError(f"{folder.path} has no checkpoint to resume from; use --overwrite.")
            folder.reopen(config)
        return folder
    folder.claim(overwrite)
    folder.create(training.dataset, config, training.origin, training.exposure)
    return folder


def _differences(existing: RunConfig, config: RunConfig) -> str:
    """Which settings differ: ``dim: 32 there, 64 here``."""
    flat = []
    for run in (existing, config):
        tables = run.to_tables()
        flat.append({"model": run.model, "seed": run.seed} | tables.get("settings", {}) | tables["train"])
    return ", ".join(
        f"{key}: {flat[0].get(key)} there, {flat[1].get(key)} here"
        for key in dict.fromkeys([*flat[0], *flat[1]])
        if flat[0].get(key) != flat[1].get(key)
    )


def as_dataset(data: Any, overlap: str | None = None, **reading: Unpack[TableKeywords]) -> Dataset:
    """Data in any form as three parts by time; the keywords say how to read a table or folder."""
    if isinstance(data, Dataset | Quadruples):
        options = [*TableOptions(**reading).given(), *(["overlap"] if overlap is not None else [])]
        if options:
            raise DataError(f"these facts are read already: give {', '.join(options)} to read_events.")
        return data if isinstance(data, Dataset) else split(data)
    if isinstance(data, str | Path):
        return find(data, overlap=overlap, **reading)
    return split(read_events(data, overlap=overlap, **reading))


def read_with(data: Any, settings: dict[str, Any]) -> tuple[Dataset, dict[str, Any]]:
    """The data as :func:`fit` reads it, with the keywords for reading, and the remaining keywords."""
    names = {*TableKeywords.__annotations__, "overlap"}
    reading = {key: value for key, value in settings.items() if key in names}
    return as_dataset(data, **reading), {key: value for key, value in settings.items() if key not in names}
