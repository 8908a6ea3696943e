"""A counter to compare a trained run with: what the model adds to counting earlier occurrences of a fact."""

from __future__ import annotations

from typing import Any

from tangokg.forecast.forecaster import Forecaster
from tangokg.models.counters import COUNTERS
from tangokg.snapshots.timeline import build_timeline
from tangokg.train import build_model, make_config

BESIDE = "frequency"


def make_counter(forecaster: Forecaster, name: str = BESIDE) -> Forecaster:
    """A counter that knows the same facts."""
    config = make_config(name)
    return Forecaster(build_model(config, build_timeline(forecaster.dataset.past)), forecaster.dataset, config)


def counter_for(forecaster: Forecaster) -> Forecaster | None:
    """``frequency``, unless the run is a counter itself."""
    return None if forecaster.config.model in COUNTERS else make_counter(forecaster)


def counted_parts(forecaster: Forecaster) -> dict[str, Any]:
    """Metrics of the counter on the validation and the test part, as a run keeps its own; nothing for a counter."""
    counter, dataset = counter_for(forecaster), forecaster.dataset
    if counter is None:
        return {}
    parts = {"valid": dataset.valid, "test": dataset.test}
    return {BESIDE: {name: counter.evaluate(part).to_dict() for name, part in parts.items() if len(part)}}
