"""The data of benchmarks: a known set, the built-in world, or drawn events; and the usual settings of each set."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from tangokg.errors import ConfigError
from tangokg.models.tango import Tango, TangoSettings
from tangokg.quads import find
from tangokg.quads.clock import Clock
from tangokg.quads.values import Dataset, Ids, Quadruples
from tangokg.quads.vocabulary import Vocabulary
from tangokg.quads.world import make_world
from tangokg.snapshots.timeline import Timeline, build_timeline
from tangokg.train import RunConfig, build_model, make_config

WORLD = "world"

USUAL_MODEL = "tango-tucker"
# The paper's model and size for a set; what is not named here runs with the usual model as it is.
USUAL: dict[str, tuple[str, tuple[str, ...]]] = {
    "WIKI": ("tango-distmult", ()),
    "YAGO": ("tango-distmult", ("dim=300", "layers=3")),
}


def read_set(data: str) -> Dataset:
    """A known set, a folder, or the built-in world."""
    return make_world().dataset if data == WORLD else find(data)


def usual_config(data: str, model: str | None, settings: Sequence[str], device: torch.device) -> RunConfig:
    """The usual settings of a set, overridden by the requested ones."""
    name, usual = USUAL.get(data, (USUAL_MODEL, ()))
    if model is not None and model != name:
        name, usual = model, ()
    return make_config(name, assignments=[*usual, *settings, f"device={device.type}"])


def check_encoder(config: RunConfig) -> None:
    """Raise an error for a counter, before anything is set up."""
    if not isinstance(config.settings, TangoSettings):
        raise ConfigError(f"{config.model} has no encoder to measure; choose tango-tucker or tango-distmult.")


def make_tango(config: RunConfig, train: Timeline, device: torch.device) -> Tango:
    """A model with its first weights, settled, in training mode; steps are replayed where the settings say so."""
    model = build_model(config, train)
    assert isinstance(model, Tango)
    model.cuda_graphs = config.train.cuda_graphs
    model.settle(train)
    return model.to(device).train()


def draw_events(facts: int, snapshots: int, num_entities: int, names: int = 10_000, seed: int = 0) -> Timeline:
    """Drawn events: ``facts`` at each of ``snapshots`` days, between ``names`` actors spread evenly over the entities.

    Few actors act often (the share of actor i falls as i^(-5/6)), and half of a day's facts hold on the next, about as
    in ICEWS18. With another ``num_entities`` the events are the same up to the ids.
    """
    rng = np.random.default_rng(seed)
    relations, stride = 256, max(1, num_entities // names)

    def draw(size: int, most: int) -> Ids:
        return (most * rng.random(size) ** 6).astype(np.int64)

    days: list[Ids] = []
    repeated = np.empty((0, 3), dtype=np.int64)
    shuffled = rng.permutation(names)
    for _ in range(snapshots):
        new = facts - len(repeated)
        drawn = np.stack([shuffled[draw(new, names)], draw(new, relations), shuffled[draw(new, names)]], axis=1)
        day = np.concatenate([repeated, drawn])
        days.append(day)
        repeated = day[rng.random(len(day)) < 0.5]
    s, r, o = np.concatenate(days).T
    t = np.repeat(np.arange(snapshots), facts)
    events = Quadruples(s * stride, r.copy(), o * stride, t, Vocabulary((), ()), Clock("day"))
    return build_timeline(events, max(num_entities, math.ceil(names * stride)), relations)
