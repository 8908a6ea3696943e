"""The figures of a run, with their provenance."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch

from tangokg.forecast.counters import counted_parts
from tangokg.forecast.forecaster import Forecaster
from tangokg.quads.values import Quadruples
from tangokg.rank import Metrics
from tangokg.train import RunFolder
from tangokg.train.devices import device_of, name_of
from tangokg.train.provenance import commit


def results(forecaster: Forecaster, evaluate: Callable[[Quadruples], Metrics] | None = None) -> dict[str, Any]:
    """Validation and test metrics with what they came from: the form of the files in ``experiments/results/``.

    ``evaluate`` replaces the forecaster's own way to measure a part.
    """
    dataset, progress = forecaster.dataset, forecaster.progress
    measured = {
        name: (evaluate or forecaster.evaluate)(part)
        for name, part in (("valid", dataset.valid), ("test", dataset.test))
        if len(part)
    }
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
        "device": name_of(device_of(forecaster.model)),
        "versions": {
            "python": sys.version.split()[0],
            "torch": torch.__version__,
            "tangokg": import_module("tangokg").__version__,
        },
        "commit": commit(),
    }


def kept_results(folder: RunFolder, forecaster: Forecaster) -> dict[str, Any]:
    """The figures that a run keeps, with those of the counter beside it; a run without them measures now."""
    if not (folder.path / "metrics.json").exists():
        folder.save_metrics(results(forecaster))
    return folder.metrics() | counted_parts(forecaster)
