"""The configuration of a run in one TOML file: a model with its settings, how to train it, and a seed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch

from tangokg.config import TABLES, parse_assignment, read_toml, split_key, unknown_setting, update
from tangokg.decode import make_decoding
from tangokg.errors import ConfigError, nearest, offer
from tangokg.models import MODELS
from tangokg.models.sizes import is_left

SCHEMA = 1  # of config.toml and the run folder around it
DEVICES = ("auto", "cpu", "cuda")
STEP_SCORES = 2**29  # at most, of all its queries against all entities
EPOCH_STEPS = 25  # at least
RUN_QUERIES, RUN_EPOCHS = 1_200_000, (8, 60)  # of a whole training by rule
BUDGET = 420.0  # seconds by rule on a CPU: with reading and measuring, a model within ten minutes
FEW_FACTS, FEW_RATE = 2_000, 0.01  # to train on, and the learning rate below
SCORE_MEMORY = {"cpu": 2.0, "cuda": 16.0}  # GiB by rule, the same on every machine, so that runs can be repeated
NO_LIMIT = -1.0
LIMITS = ("epochs", "budget", "refit", "shard_entities")  # may change when a run is resumed
SCHEDULES = ("plateau", "cosine")
OPTIMIZERS = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
PRECISIONS = ("32-true", "tf32", "64-true", "bf16-mixed", "16-mixed")


@dataclass(frozen=True)
class TrainSettings:
    """How weights are fitted; every model uses the same loop."""

    epochs: int = 100  # at most; 0: as many as ask 1,200,000 questions, 8 to 60
    budget: float = 0.0  # seconds of training, over all sessions; 0: 7 minutes on a CPU, else no limit; -1: no limit
    patience: int = 6  # epochs without a better validation MRR before training stops, after twice as many; 0: never
    learning_rate: float = 0.0  # of Adam; 0: 0.01 below 2,000 facts, 0.001 for steps of two windows, 0.002 for more
    schedule: str = "plateau"  # of the learning rate: plateau (see rate_decay), or cosine over all epochs
    warmup: float = 0.05  # share of all steps in which a cosine schedule rises to the learning rate
    rate_decay: float = 0.5  # factor of the learning rate after an epoch that is no better; not in the first (patience)
    batch_windows: int = 0  # target snapshots in one step; 0: as many as have step_queries, on a CPU two at most
    step_queries: int = 10_000  # about so many questions in a step, where batch_windows is left to the rule
    batch_queries: int = 0  # questions in one step, drawn from all snapshots; 0: those of whole snapshots
    score_memory: float = 0.0  # GiB for the scores of a step and what leads to them; 0: 2 on a CPU, 16 on a GPU
    horizons: int = 1  # questions are up to this many steps ahead, about half of them one step; so is validation
    clip: float = 1.0  # largest norm of the gradient; 0: no limit
    optimizer: str = "adam"  # adam or adamw, which keeps the weight decay apart from the gradient
    weight_decay: float = 0.0
    device: str = "auto"  # cpu, cuda, or auto: cuda where there is one
    precision: str = "32-true"  # 32-true, tf32 (products of a GPU alone), bf16-mixed, 16-mixed or 64-true
    cuda_graphs: bool = True  # steps on a GPU are replayed where the model can; only what dropout draws is another
    shard_entities: bool = False  # several processes divide the entities, not the windows: for tables that do not fit
    checkpoint_seconds: float = 60.0  # at least this long between two checkpoints
    refit: bool = False  # then train again on all parts, for as many epochs as were best; for use, not for figures

    def __post_init__(self) -> None:
        for name in (
            "epochs",
            "patience",
            "learning_rate",
            "batch_windows",
            "step_queries",
            "batch_queries",
            "score_memory",
            "clip",
            "weight_decay",
            "checkpoint_seconds",
        ):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} must not be negative, found {getattr(self, name)}.")
        if self.budget < 0 and self.budget != NO_LIMIT:
            raise ConfigError(f"budget must be seconds, 0 (by rule) or -1 (no limit), found {self.budget}.")
        if not 0 < self.rate_decay <= 1:
            raise ConfigError(f"rate_decay must lie in (0, 1], found {self.rate_decay}.")
        if not 0 <= self.warmup < 1:
            raise ConfigError(f"warmup must lie in [0, 1), found {self.warmup}.")
        if self.horizons < 1 or (self.horizons > 1 and self.batch_queries):
            raise ConfigError(f"horizons must be at least 1, and 1 where batch_queries is set, found {self.horizons}.")
        choices = {"device": DEVICES, "precision": PRECISIONS, "schedule": SCHEDULES, "optimizer": tuple(OPTIMIZERS)}
        for name, known in choices.items():
            if (value := getattr(self, name)) not in known:
                raise ConfigError(f"{name} {value!r} is unknown; choose one of {', '.join(known)}.")


def by_rule(train: TrainSettings, queries: int, snapshots: int, num_entities: int, device_type: str) -> TrainSettings:
    """The settings with values in place of what was left to the rule: the batch of windows, its rate, the time.

    A step gets as many windows as fit into its queries; on a GPU as long as an epoch has some steps and the scores have
    room, on a CPU two at most, as more are no gain there. ``queries`` are all of the training part, which has
    ``snapshots``. The rate is larger for few facts, whose epochs have few steps.
    """
    each = max(1.0, queries / max(1, snapshots))  # queries of a window
    limits = [2.0] if device_type == "cpu" else [snapshots / EPOCH_STEPS, STEP_SCORES / (each * max(1, num_entities))]
    windows = train.batch_windows or max(1, int(min(train.step_queries / each, *limits)))
    usual = 1e-3 if windows <= 2 or train.batch_queries else 2e-3
    rate = train.learning_rate or (FEW_RATE if queries < 2 * FEW_FACTS else usual)
    budget = train.budget or (BUDGET if device_type == "cpu" else NO_LIMIT)
    epochs = train.epochs or min(max(RUN_QUERIES // max(1, queries), RUN_EPOCHS[0]), RUN_EPOCHS[1])
    memory = train.score_memory or SCORE_MEMORY[device_type]
    return replace(train, epochs=epochs, batch_windows=windows, learning_rate=rate, budget=budget, score_memory=memory)


RULED = ("epochs", "batch_windows", "learning_rate", "budget", "score_memory")  # 0: by rule


@dataclass(frozen=True)
class RunConfig:
    """A whole run, resolved: every setting has its value."""

    model: str
    settings: Any  # the model's own settings
    train: TrainSettings
    seed: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.seed, int) or isinstance(self.seed, bool) or not 0 <= self.seed < 2**63:
            raise ConfigError(f"seed must be a whole number from 0 to 2**63 - 1, found {self.seed!r}.")

    def to_tables(self) -> dict[str, Any]:
        """Plain values for TOML and JSON; empty tables are left out."""
        values = {key: value for key, value in asdict(self.settings).items() if value != {}}
        settings = {"settings": values} if values else {}
        return {"schema": SCHEMA, "model": self.model, "seed": self.seed, **settings, "train": asdict(self.train)}


def make_config(
    model: str | None = None,
    tables: Mapping[str, Any] | None = None,
    assignments: Iterable[str] = (),
    seed: int | None = None,
    where: str = "config",
) -> RunConfig:
    """Defaults of the model, then the tables of a config file, then ``key=value`` texts; later ones win."""
    tables = dict(tables or {})
    if (schema := tables.pop("schema", SCHEMA)) != SCHEMA:
        raise ConfigError(f"{where}: schema {schema!r} is not the one this version reads ({SCHEMA}).")
    name = tables.get("model", "tango") if model is None else model
    if not isinstance(name, str) or name not in MODELS:
        close = offer(nearest(str(name), MODELS))
        raise ConfigError(f"unknown model {name!r}.{close} Known: {', '.join(MODELS)}.")
    for key in tables:
        if key not in (known := ("model", "seed", "settings", "train", "clock", "data")):
            raise ConfigError(f"{where}: unknown table or key {key!r}; expected {', '.join(known)}.")
    for key in TABLES:
        if not isinstance(tables.get(key, {}), Mapping):
            raise ConfigError(f"{where}: [{key}] must be a table, found {tables[key]!r}.")
    of_model = tables.get("settings", {}) if tables.get("model", name) == name else {}  # of this model only
    settings = update(MODELS[name].settings, of_model, f"{where} [settings]")
    usual = update(TrainSettings(), MODELS[name].train, f"the model {name}")
    table = tables.get("train", {})
    train = update(usual, {"budget": NO_LIMIT, **table} if "epochs" in table else table, f"{where} [train]")
    config = RunConfig(name, settings, train, seed if seed is not None else tables.get("seed", 0))
    return change(config, map(parse_assignment, assignments), "--set")


def inherit(config: RunConfig, begun: RunConfig) -> RunConfig:
    """``config`` with the values that an existing run got by rule: on another machine the rule may give others."""
    train = {name: getattr(config.train, name) or getattr(begun.train, name) for name in RULED}
    settings, known = config.settings, {f.name for f in fields(config.settings)}
    if type(settings) is type(begun.settings):
        ruled = known & {"unit", "origin", *getattr(settings, "ruled", ())}
        names = [name for name in ruled if is_left(getattr(settings, name))]
        settings = replace(settings, **{name: getattr(begun.settings, name) for name in names})
    return replace(config, settings=settings, train=replace(config.train, **train))


def change(config: RunConfig, assignments: Iterable[tuple[str, Any]], where: str) -> RunConfig:
    """``config`` with changed settings of the model or of training, by key, all at once.

    So a decoder may be chosen after its settings. A number of epochs lifts the limit of time, unless both are given.
    The message about an unknown key offers those of both tables.
    """
    of_model, of_train = ([f.name for f in fields(table)] for table in (config.settings, config.train))
    changed: dict[str, dict[str, Any]] = {table: {} for table in TABLES}
    for key, value in assignments:
        table, name, part = split_key(key)
        table = table or ("train" if name in of_train else "settings")
        if part:
            inner = changed[table].get(name, getattr(config.settings, name, None))
            if not isinstance(inner, Mapping):
                raise ConfigError(f"{where} {key!r}: unknown table {name!r}; expected settings or train.")
            value = {**inner, part: value}
        if table == "settings" and name not in of_model:
            raise unknown_setting(where, name, [*of_model, *of_train])
        changed[table][name] = value
    if "epochs" in changed["train"]:
        changed["train"].setdefault("budget", NO_LIMIT)
    settings, train = (update(getattr(config, table), changed[table], where) for table in TABLES)
    return replace(config, settings=settings, train=train)


def load_config(
    path: Path, model: str | None = None, assignments: Iterable[str] = (), seed: int | None = None
) -> RunConfig:
    """A config file, with a model, settings and a seed given on top of it."""
    return make_config(model, read_toml(path), assignments, seed, where=str(path))


def list_settings(model: str) -> list[dict[str, Any]]:
    """The settings of a model and of its training, with their defaults."""
    config = make_config(model)
    of_model = [(field.name, getattr(config.settings, field.name)) for field in fields(config.settings)]
    if hasattr(config.settings, "decoding"):
        decoding = asdict(make_decoding(config.settings))
        of_model[1:2] = [(f"decoding.{name}", value) for name, value in decoding.items()]
    of_train = [(field.name, getattr(config.train, field.name)) for field in fields(config.train)]
    return [
        {"setting": name, "default": value, "table": table}
        for table, pairs in (("model", of_model), ("training", of_train))
        for name, value in pairs
    ]
