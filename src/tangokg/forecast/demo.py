"""The demo: TANGO on the built-in world, beside counters and the oracle, which knows the world's laws."""

from __future__ import annotations

from typing import Any

import numpy as np

from tangokg.forecast.answers import Forecast
from tangokg.forecast.counters import make_counter
from tangokg.forecast.forecaster import Forecaster
from tangokg.models.counters import COUNTERS
from tangokg.models.oracle import Oracle
from tangokg.quads.world import World
from tangokg.rank import inductive
from tangokg.train import RunConfig, make_config


def demo_config(seed: int = 0) -> RunConfig:
    """The settings of the demo, chosen on the validation part of the world of seed 0."""
    tables: dict[str, Any] = {
        "settings": {"dim": 32, "width": 16, "newcomers": 0.1},
        "train": {"epochs": 8, "learning_rate": 0.005, "batch_windows": 4, "device": "cpu"},
    }
    return make_config("tango", tables, seed=seed)


def compare_on_world(world: World, tango: Forecaster) -> list[dict[str, Any]]:
    """Every model on the test part: all queries, and those with a newcomer; the best MRR first."""
    models = {tango.config.model: tango, "oracle": Forecaster(Oracle(world), world.dataset, tango.config)}
    models |= {name: make_counter(tango, name) for name in COUNTERS}
    newcomers = inductive(tango.seen)
    compared = []
    for name, forecaster in models.items():
        everyone, new = forecaster.evaluate(), forecaster.evaluate(protocol=newcomers)
        compared.append(
            {
                "model": name,
                **everyone["time-aware"].to_dict(),
                "queries": everyone.queries,
                "newcomers_mrr": new["time-aware"].mrr,
                "newcomers_queries": new.queries,
            }
        )
    return sorted(compared, key=lambda row: -row["mrr"])


def example_forecasts(world: World, tango: Forecaster) -> list[tuple[str, Forecast, frozenset[str]]]:
    """Forecasts of what the most active newcomer of the test part, and the most active other actor, did last."""
    facts, newcomer = world.dataset.test, world.since > 0
    names, relations = facts.vocab.entities, facts.vocab.relations
    forecasts = []
    for who, mask in (("A newcomer, whom training never saw", newcomer), ("One who was always there", ~newcomer)):
        acts = facts.select(mask[facts.s])
        if not len(acts):
            continue
        acts = acts.select(acts.s == np.bincount(acts.s).argmax())
        acts = acts.select(acts.r == np.bincount(acts.r).argmax())
        last = acts.select(acts.t == acts.t.max())
        answer = tango.forecast(names[last.s[0]], relations[last.r[0]], at=int(last.t[0]), top=5)
        forecasts.append((who, answer, frozenset(names[o] for o in last.o)))
    return forecasts
