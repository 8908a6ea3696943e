"""Several models on the same data: each is given, loaded or trained, and ranks the test part."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from tangokg.config import parse_assignment, parse_duration, split_key, to_toml, unknown_setting
from tangokg.errors import ConfigError, DataError, RunError, checked, nearest, offer
from tangokg.forecast.forecaster import Forecaster
from tangokg.forecast.loading import load
from tangokg.forecast.training import fit, read_with
from tangokg.models import MODELS
from tangokg.quads.differing import what_differs
from tangokg.quads.values import Dataset, Quadruples
from tangokg.rank import SINGLE_STEP, Protocol
from tangokg.report.compare import Comparison, Measured
from tangokg.report.compare import compare as compare_measured
from tangokg.train import RunConfig, RunFolder, TrainSettings, make_config
from tangokg.train.exposure import MARK

USUAL = ("frequency", "recurrency", "tango")  # quick, and enough to judge the default model by
ALL = "all"


@checked
def compare(
    data: Any,
    models: Sequence[str | Path | Forecaster] | Mapping[str, Forecaster] = USUAL,
    *,
    seed: int = 0,
    verbose: bool = True,
    out: str | Path | None = None,
    allow_seen: bool = False,
    **settings: Any,
) -> Comparison:
    """Rank the test part of ``data`` with each model: a name is trained, a ``Path`` is a finished run, or a forecaster.

    ``settings`` go to every model that has them; those of :func:`tangokg.read_events` (``unit``, ``columns``, ...) say
    how a table or folder is read. With ``out`` each run is kept there, under the name of its model; one that exists is
    loaded, or resumed if it was interrupted. The rows of the result have the best first, with a 95 % interval;
    ``test`` compares the first two on the same queries. A model that saw the facts by which it is judged is refused, or
    with ``allow_seen`` marked "not comparable".
    """
    dataset, settings = read_with(data, settings)
    device = str(settings.pop("device", "auto"))
    if isinstance(settings.get("budget"), str):
        settings["budget"] = parse_duration(settings["budget"], "budget")
    chosen = _by_name(models)
    texts = [to_toml({key: value}).strip().replace(" = ", "=", 1) for key, value in settings.items()]
    names = [name for name, model in chosen.items() if isinstance(model, str)]
    runs = [model for model in chosen.values() if isinstance(model, Path)]
    selection = select_models(names, runs, texts, seed, device)
    ready = [Entry(name, f.config, forecaster=f.as_made) for name, f in chosen.items() if isinstance(f, Forecaster)]
    entries = [*selection.entries(None if out is None else Path(out)), *ready]
    check_entries(entries, dataset, allow_seen)
    train = partial(fit, verbose=verbose)
    return compare_measured([entry.measure(entry.obtain(dataset, device, train)) for entry in entries], seed)


@dataclass(frozen=True)
class Entry:
    """A model of a comparison: a forecaster, a finished run, or a model to train."""

    name: str
    config: RunConfig
    path: Path | None = None  # the folder of its run; None: it is not kept
    accept_stopped: bool = False  # named by its folder: used even if its training was stopped early
    forecaster: Forecaster | None = None

    @property
    def labels(self) -> tuple[str, str]:
        """The label of its row: the name, marked if the model saw the facts that it is evaluated on."""
        return self.name, f"{self.name} ({MARK})"

    @property
    def existing(self) -> bool:
        """Whether a run is in its folder, finished or not."""
        return self.path is not None and RunFolder(self.path).begun

    @property
    def finished(self) -> bool:
        """Whether its run can be used without training."""
        folder = RunFolder(self.path) if self.path is not None and self.existing else None
        return folder is not None and (folder.usable if self.accept_stopped else folder.finished)

    def check(self, dataset: Dataset, allow_seen: bool, advice: str = "leave it out, or choose another --out") -> None:
        """Check that it was made with the same facts and parts, and has not seen the test part."""
        name, made_with, seen, refit = f"the forecaster {self.name}", None, "", self.config.train.refit
        if self.forecaster is not None:
            made_with, seen = self.forecaster.dataset, self.forecaster.exposure.seen
        elif self.path is not None and self.existing:
            name, folder = str(self.path), RunFolder(self.path)
            made_with, seen = folder.dataset().made_with, folder.planned_exposure(dataset).seen
            refit = refit or (folder.usable and folder.exposure().refit)
        if made_with is not None and not dataset.same_facts(made_with):
            raise RunError(
                f"{name} was made with other data than these ({what_differs(made_with, dataset)}): {advice}."
            )
        if refit:
            raise RunError(f"{name}: a run that is trained on all parts (--refit) cannot be compared on one of them.")
        if seen and not allow_seen:
            raise RunError(f"{name} is {MARK}: {seen}. Leave it out, or mark it with --allow-seen (allow_seen=True).")

    def obtain(self, dataset: Dataset, device: str = "auto", train: Callable[..., Forecaster] = fit) -> Forecaster:
        """The forecaster, loaded or trained; a newly trained one stays in its folder, whatever happens later."""
        if self.forecaster is not None:
            return self.forecaster
        if self.path is not None and self.finished:
            return load(self.path, device).as_made
        return train(dataset, self.config, out=self.path, resume=self.existing)

    def measure(
        self,
        forecaster: Forecaster,
        progress: Callable[[int, int], None] | None = None,
        part: Quadruples | None = None,
        protocol: Protocol = SINGLE_STEP,
    ) -> Measured:
        """Rank the test part, or another one, with its forecaster."""
        began = time.perf_counter()
        metrics = forecaster.evaluate(part, protocol, progress=progress)
        label = self.labels[bool(metrics.not_comparable)]
        trained = forecaster.progress.seconds if self.path is None else _train_seconds(self.path)
        return Measured(label, metrics, trained, time.perf_counter() - began)


def check_entries(entries: Sequence[Entry], dataset: Dataset, allow_seen: bool) -> None:
    """Raise an error, before anything is trained, if models cannot be compared on the test part."""
    if not len(dataset.test):
        raise DataError(f"{dataset.name}: there is no test part to compare models on. Give dates with --valid-from.")
    for entry in entries:
        entry.check(dataset, allow_seen)


@dataclass(frozen=True)
class Selection:
    """The models of a comparison by name, checked before any data are read."""

    runs: dict[Path, RunConfig]  # finished runs
    own: dict[str, list[str]]  # model to train, or to load where it was trained before -> its settings
    seed: int | None = None
    device: str = "auto"

    def entries(self, folder: Path | None) -> list[Entry]:
        """The finished runs, then the models, whose runs lie in ``folder`` under their names."""
        models = [config.model for config in self.runs.values()]
        labels = [c.model if models.count(c.model) == 1 else f"{c.model} ({path})" for path, c in self.runs.items()]
        runs = zip(labels, self.runs.items(), strict=True)
        return [
            *(Entry(label, config, path, accept_stopped=True) for label, (path, config) in runs),
            *(self._entry(name, None if folder is None else folder / name) for name in self.own),
        ]

    def _entry(self, name: str, path: Path | None) -> Entry:
        """A model to train; if its run exists, that run, whose settings must agree with those given."""
        if path is None or not RunFolder(path).begun:
            texts = [*self.own[name], f"train.device={self.device}"]
            return Entry(name, make_config(name, {}, texts, self.seed), path)
        existing = RunFolder(path).config()
        if existing.model != name:
            raise RunError(f"{path} holds a run of {existing.model}, expected one of {name}: choose another --out.")
        other = [f"--set {text}" for text in self.own[name] if not _agrees(existing, text)]
        other += [f"--seed {self.seed}"] if self.seed not in (None, existing.seed) else []
        if other:
            raise RunError(f"{path} was made with other settings than {', '.join(other)}: choose another --out.")
        return Entry(name, existing, path)


def select_models(
    models: Sequence[str] | None = None,
    runs: Iterable[Path] = (),
    assignments: Sequence[str] = (),
    seed: int | None = None,
    device: str = "auto",
) -> Selection:
    """Models and finished runs; a model is not trained if a run of it is given. ``assignments`` are ``key=value``.

    Without ``models`` and ``runs`` they are the usual ones.
    """
    finished = {path: RunFolder(path).config() for path in runs}
    for path in finished:
        if not RunFolder(path).usable:
            raise RunError(f"{path}: the run is not finished. Resume it with `tango train --out {path} --resume`.")
    if models is None:
        models = () if finished else USUAL
    for name in models:
        if name not in (ALL, *MODELS):
            known = ", ".join([*MODELS, ALL])
            raise ConfigError(f"unknown model {name!r}.{offer(nearest(name, MODELS))} Known: {known}.")
    names = dict.fromkeys(name for word in models for name in (MODELS if word == ALL else [word]))
    trained = {config.model for config in finished.values()}
    by_model = _settings_by_model([name for name in names if name not in trained], assignments)
    return Selection(finished, by_model, seed, device)


def _settings_by_model(names: Sequence[str], assignments: Sequence[str]) -> dict[str, list[str]]:
    """Model -> the settings that apply to it; a setting of no model is an error."""
    if assignments and not names:
        raise ConfigError("--set and --epochs are for models that are trained; the given runs have their settings.")
    of_train = [f.name for f in fields(TrainSettings)]
    known = {name: [*of_train, *(f.name for f in fields(MODELS[name].settings))] for name in names}
    by_model: dict[str, list[str]] = {name: [] for name in names}
    for text in assignments:
        key = split_key(parse_assignment(text)[0])[1]
        having = [name for name in names if key in known[name]]
        if not having:
            raise unknown_setting("--set", key, list(dict.fromkeys(k for keys in known.values() for k in keys)))
        for name in having:
            by_model[name].append(text)
    return by_model


def _agrees(config: RunConfig, text: str) -> bool:
    """Whether a config already has this setting, apart from the budget that a number of epochs lifts."""
    changed = make_config(config.model, config.to_tables(), [text])
    key = parse_assignment(text)[0].rpartition(".")[2]
    kept = changed.train if key == "budget" else replace(changed.train, budget=config.train.budget)
    return replace(changed, train=kept) == config


def _by_name(models: Any) -> dict[str, str | Path | Forecaster]:
    """Name -> model; a wrong kind of thing, or two models of one name, is an error."""
    if isinstance(models, str | Path | Forecaster):
        models = [models]
    pairs: list[tuple[str, Any]] = []
    if isinstance(models, Mapping):
        pairs = list(models.items())
    elif isinstance(models, Sequence):
        pairs = [(model.config.model if isinstance(model, Forecaster) else str(model), model) for model in models]
    if not pairs:
        raise ConfigError(f"compare(): models is {models!r:.60}, expected names of models, runs or forecasters.")
    for name, model in pairs:
        if not isinstance(model, str | Path | Forecaster):
            raise ConfigError(
                f"compare(): {model!r:.60} is not a model: expected a name such as 'tango', the Path of a run, or a "
                "forecaster."
            )
        if sum(name == other for other, _ in pairs) > 1:
            raise ConfigError(f"compare(): two models are called {name!r}; give a dictionary, name by name.")
    return dict(pairs)


def _train_seconds(path: Path) -> float | None:
    """How long training took, over all its sessions; None if the run does not say."""
    seconds = RunFolder(path).metrics().get("train_seconds")
    return float(seconds) if isinstance(seconds, int | float) else None
