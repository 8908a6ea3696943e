"""The space of a search, and how a point becomes a config."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from itertools import product
from math import prod
from typing import Any

import numpy as np

from tangokg.config import parse_assignment, split_key, to_toml
from tangokg.decode import make_decoding
from tangokg.errors import ConfigError, DataError, nearest, offer
from tangokg.models import MODELS
from tangokg.quads.values import Dataset
from tangokg.train import RunConfig, TrainSettings, make_config, resolve
from tangokg.train.settings import NO_LIMIT

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Choice:
    """One of some values."""

    values: tuple[Any, ...]

    def clip(self, value: Any) -> Any:
        """The value itself if it is one of the choices, else the first of them."""
        return value if value in self.values else self.values[0]


@dataclass(frozen=True)
class Range:
    """A number between two ends, both included."""

    low: float
    high: float
    log: bool = False  # each factor is as likely as another
    whole: bool = False

    def clip(self, value: Any) -> Any:
        """The nearest value within the range."""
        return min(max(value, self.low), self.high)


Space = Mapping[str, Choice | Range]


@dataclass(frozen=True)
class Preset:
    """A search by name."""

    about: str
    sampler: str  # a name in SAMPLERS
    space: Space  # keys are settings, or "model", or "scale": the paper's length of the whole range of time
    fixed: Values  # settings of every trial
    trials: int  # at most, unless asked for otherwise


_PAPER_MODELS = Choice(("tango-tucker", "tango-distmult"))

PRESETS = {
    "paper-grid": Preset(
        "every point of the paper's grid, in the paper's form of the derivative",
        "grid",
        {
            "model": _PAPER_MODELS,
            "dim": Choice((200, 300)),
            "layers": Choice((2, 3)),
            "scale": Choice((0.001, 0.01, 0.1)),
            "transition": Choice((0.01, 0.1, 1.0)),
            "dropout": Choice((0.3, 0.5)),
            "history": Choice((4, 6, 10)),
        },
        {"identity": True, "epochs": 20, "patience": 0},
        432,
    ),
    "search": Preset(
        "a sampler that learns from the trials so far, within the paper's space and somewhat beyond",
        "tpe",
        {
            "model": _PAPER_MODELS,
            "dim": Choice((200, 300)),
            "layers": Range(1, 3, whole=True),
            "step_time": Range(1e-5, 3.0, log=True),
            "transition": Range(0.01, 1.0, log=True),
            "dropout": Range(0.2, 0.6),
            "history": Range(1, 10, whole=True),
            "learning_rate": Range(3e-4, 4e-3, log=True),
            "batch_windows": Range(1, 32, log=True, whole=True),
        },
        {"epochs": 30},
        24,
    ),
}


@dataclass(frozen=True)
class Plan:
    """A search, resolved: two workers with equal plans may share a study."""

    preset: str
    space: Space
    fixed: Values
    scale_step: float  # solver time of one usual gap where the whole range is 1 long
    seed: int = 0

    @property
    def sampler(self) -> str:
        return PRESETS[self.preset].sampler

    @property
    def size(self) -> int | None:
        """The number of points of a grid; None if a sampler chooses among them."""
        return self.points if self.sampler == "grid" else None

    @property
    def points(self) -> int | None:
        """The number of different points; None if it is infinite."""
        choices = [len(set(choice.values)) for choice in self.space.values() if isinstance(choice, Choice)]
        return prod(choices) if len(choices) == len(self.space) else None

    def shuffled(self) -> Iterator[dict[str, Any]]:
        """All points of a space of choices, in an order drawn from the seed."""
        choices = [choice.values for choice in self.space.values() if isinstance(choice, Choice)]
        every = list(product(*choices))
        for place in np.random.default_rng(self.seed).permutation(len(every)):
            yield dict(zip(self.space, every[place], strict=True))

    def config(self, values: Values) -> RunConfig:
        """The config of one point of the space."""
        chosen = {"budget": NO_LIMIT, **self.fixed, **values}  # a trial may take the time that its epochs take
        model, scale = chosen.pop("model", None), chosen.pop("scale", None)
        if scale is not None:
            chosen["step_time"] = scale * self.scale_step
        return make_config(model, assignments=[to_toml({key: value}) for key, value in chosen.items()], seed=self.seed)

    def final(self, values: Values) -> RunConfig:
        """The config of a point for the final training: until it converges, on any device."""
        config, usual = self.config(values), TrainSettings()
        names = ("epochs", "budget", "patience", "device")
        return replace(config, train=replace(config.train, **{name: getattr(usual, name) for name in names}))

    def usual(self, dataset: Dataset) -> dict[str, Any]:
        """The point of the space nearest to the model's defaults."""
        model = self.fixed.get("model") or next(iter(getattr(self.space.get("model"), "values", ("tango",))))
        config = resolve(make_config(model), dataset)
        known = {"model": model, "scale": 0.1} | asdict(config.settings) | asdict(config.train)
        if hasattr(config.settings, "decoding"):
            known |= {f"decoding.{key}": value for key, value in asdict(make_decoding(config.settings)).items()}
        return {name: choice.clip(known[name]) for name, choice in self.space.items()}

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON values for the study, without the device and the checkpoint interval."""
        fixed = {key: value for key, value in self.fixed.items() if key not in ("device", "checkpoint_seconds")}
        space = {name: list(c.values) if isinstance(c, Choice) else asdict(c) for name, c in self.space.items()}
        return {"preset": self.preset, "seed": self.seed, **fixed, **space}


def make_plan(
    dataset: Dataset, preset: str, model: str | None = None, assignments: Iterable[str] = (), seed: int = 0
) -> Plan:
    """A preset with the user's assignments: ``key=value`` fixes a setting, ``key=[a, b]`` gives its choices."""
    if preset not in PRESETS:
        raise ConfigError(f"unknown preset {preset!r}.{offer(nearest(preset, PRESETS))} Known: {', '.join(PRESETS)}.")
    if not len(dataset.valid):
        raise DataError(f"{dataset.name}: tuning needs a validation part; this data set has none.")
    space, fixed = dict(PRESETS[preset].space), dict(PRESETS[preset].fixed)
    assigned = [("model", model)] if model is not None else []
    assigned += [_parse_setting(text) for text in assignments]
    for key, value in assigned:
        for other in ({"scale", "step_time"} - {key}) if key in ("scale", "step_time") else ():
            space.pop(other, None)  # both set the same thing
            fixed.pop(other, None)
        if isinstance(value, list) and not value:
            raise ConfigError(f"--set {key}=[]: expected one value at least.")
        if isinstance(value, list):
            space[key] = Choice(tuple(value))
            fixed.pop(key, None)
        else:
            fixed[key] = value
            space.pop(key, None)
    if not space:
        raise ConfigError(
            "every setting is fixed, so nothing is left to search; give one of them a list: dim=[100, 200]."
        )
    plan = Plan(preset, space, fixed, scale_step(dataset), seed)
    _check(plan)
    return plan


def _parse_setting(text: str) -> tuple[str, Any]:
    """``train.epochs=3`` -> epochs, 3; the table is checked and left out."""
    key, value = parse_assignment(text)
    table, name, part = split_key(key)
    if table == "train" and name not in {f.name for f in fields(TrainSettings)}:
        raise ConfigError(f"--set {text!r}: there is no such setting.")
    return f"{name}.{part}" if part else name, value


def _check(plan: Plan) -> None:
    """Raise an error if a value gives no valid config, or if a model lacks a setting of the space."""
    first = {name: next(_ends(choice)) for name, choice in plan.space.items()}
    for model in _ends(plan.space["model"]) if "model" in plan.space else (plan.fixed.get("model"),):
        name = make_config(model).model
        known = {f.name for f in (*fields(MODELS[name].settings), *fields(TrainSettings))} | {"model", "scale"}
        if missing := [key for key in PRESETS[plan.preset].space if key in plan.space and key not in known]:
            able = [name for name, recipe in MODELS.items() if hasattr(recipe.settings, "dim")]
            raise ConfigError(
                f"{name} has no {', '.join(missing)}, which the preset {plan.preset} varies; "
                f"choose one of {', '.join(able)}."
            )
    for name, choice in plan.space.items():
        for value in _ends(choice):
            plan.config(first | {name: value})


def _ends(choice: Choice | Range) -> Iterator[Any]:
    """All values of a choice; the two ends of a range."""
    if isinstance(choice, Choice):
        return iter(choice.values)
    kind = int if choice.whole else float
    return iter((kind(choice.low), kind(choice.high)))


def scale_step(dataset: Dataset) -> float:
    r"""Solver time of the usual gap between training snapshots where the whole range of time is 1 long.

    .. math::
        \mathrm{step\_time} = \mathrm{scale} \cdot \frac{\mathrm{median}_j (t_{j+1} - t_j)}{t_\mathrm{last} - t_0}

    The range is that of the training and validation parts. The paper's is of the test part too, so that its time is
    shorter by the test part's share; a search does not look there.
    """
    t = np.unique(dataset.train.t)
    duration = float(dataset.valid.t.max()) - float(t[0])
    gaps = np.diff(t)
    usual = float(np.sort(gaps)[(len(gaps) - 1) // 2]) if len(gaps) else 1.0  # the lower median, as in the model
    return usual / duration
