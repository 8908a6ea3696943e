"""What is compared: models by name and runs by folder, each with the run that is there or is to be made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from tangokg.config import parse_assignment, split_key, unknown_setting
from tangokg.errors import ConfigError, RunError, nearest, offer
from tangokg.models import MODELS
from tangokg.quads import Dataset
from tangokg.quads.differing import what_differs
from tangokg.train import RunConfig, RunFolder, TrainSettings, make_config

USUAL = ("frequency", "recurrency", "tango")  # quick and telling
ALL = "all"


@dataclass(frozen=True)
class Entry:
    """A model of the comparison: where its run is or will be, and how it is trained."""

    name: str
    path: Path
    config: RunConfig
    there: bool  # whether a run is in its folder, finished or not
    given: bool = False  # by its folder: taken as it is, be it that it was stopped early

    @property
    def finished(self) -> bool:
        folder = RunFolder(self.path)
        return self.there and (folder.usable if self.given else folder.finished)

    def check(self, dataset: Dataset, allow_seen: bool = False) -> None:
        """A run that is there must be of the same facts in the same parts, and must not have seen the test part."""
        folder = RunFolder(self.path)
        if self.there and not dataset.same_facts(there := folder.dataset().made_with):
            raise RunError(
                f"{self.path} was made with other data than these ({what_differs(there, dataset)}): "
                "leave it out, or choose another --out."
            )
        if self.config.train.refit or (self.there and folder.usable and folder.exposure().refit):
            raise RunError(
                f"{self.path}: a run that is trained on all parts (refit) cannot be compared on one of them."
            )
        if self.there and not allow_seen and (seen := folder.planned_exposure(dataset).seen):
            raise RunError(f"{self.path} is not comparable: {seen}. Leave it out, or mark it with --allow-seen.")


@dataclass(frozen=True)
class Plan:
    """What was asked for, checked before any data are read."""

    given: dict[Path, RunConfig]  # finished runs
    own: dict[str, list[str]]  # model to train, or to load where it was trained before -> its settings
    seed: int | None
    device: str

    def entries(self, folder: Path) -> list[Entry]:
        """Given runs, then models, whose runs lie in ``folder`` under their names."""
        models = [config.model for config in self.given.values()]
        labels = [c.model if models.count(c.model) == 1 else f"{c.model} ({path})" for path, c in self.given.items()]
        runs = zip(labels, self.given.items(), strict=True)
        return [
            *(Entry(label, path, config, True, given=True) for label, (path, config) in runs),
            *(self._entry(name, folder / name) for name in self.own),
        ]

    def _entry(self, name: str, path: Path) -> Entry:
        """A model to train; where a run of it is there, that run, whose settings must agree with those given."""
        if not (path / "config.toml").exists():
            texts = [*self.own[name], f"train.device={self.device}"]
            return Entry(name, path, make_config(name, {}, texts, self.seed), False)
        there = RunFolder(path).config()
        if there.model != name:
            raise RunError(f"{path} holds a run of {there.model}, expected one of {name}: choose another --out.")
        other = [f"--set {text}" for text in self.own[name] if not _agrees(there, text)]
        other += [f"--seed {self.seed}"] if self.seed not in (None, there.seed) else []
        if other:
            raise RunError(f"{path} was made with other settings than {', '.join(other)}: choose another --out.")
        return Entry(name, path, there, True)


def _agrees(config: RunConfig, text: str) -> bool:
    """Whether a config has this setting already; that epochs alone would lift the budget does not count."""
    found = make_config(config.model, config.to_tables(), [text])
    key = parse_assignment(text)[0].rpartition(".")[2]
    kept = found.train if key == "budget" else replace(found.train, budget=config.train.budget)
    return replace(found, train=kept) == config


def make_plan(
    models: Sequence[str], runs: Iterable[Path], assignments: Sequence[str], seed: int | None, device: str
) -> Plan:
    """Models and runs as they were named; a model of which a run is given is not trained."""
    given = {path: RunFolder(path).config() for path in runs}
    for path in given:
        if not RunFolder(path).usable:
            raise RunError(f"{path}: the run is not finished. Go on with `tango train --out {path} --resume`.")
    for name in models:
        if name not in (ALL, *MODELS):
            known = ", ".join([*MODELS, ALL])
            raise ConfigError(f"unknown model {name!r}.{offer(nearest(name, MODELS))} Known: {known}.")
    chosen = models or ([] if given else USUAL)
    names = dict.fromkeys(name for word in chosen for name in (MODELS if word == ALL else [word]))
    trained = {config.model for config in given.values()}
    return Plan(given, own_settings([name for name in names if name not in trained], assignments), seed, device)


def own_settings(names: Sequence[str], assignments: Sequence[str]) -> dict[str, list[str]]:
    """Model -> those of the settings that it has; one that no model has is an error."""
    if assignments and not names:
        raise ConfigError("--set and --epochs are for models that are trained; the given runs have their settings.")
    of_train = [f.name for f in fields(TrainSettings)]
    known = {name: [*of_train, *(f.name for f in fields(MODELS[name].settings))] for name in names}
    own: dict[str, list[str]] = {name: [] for name in names}
    for text in assignments:
        key = split_key(parse_assignment(text)[0])[1]
        having = [name for name in names if key in known[name]]
        if not having:
            raise unknown_setting("--set", key, list(dict.fromkeys(k for keys in known.values() for k in keys)))
        for name in having:
            own[name].append(text)
    return own
