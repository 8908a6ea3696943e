"""The default model some steps ahead on the built-in world, whose times are irregular: ODE on, off, and counting.

``python -m experiments.studies.world_ahead [SEEDS]`` prints test MRR (time-aware), the mean over seeds of training.
"""

from __future__ import annotations

import statistics
import sys
from typing import Any

import torch

from experiments.bench.shown import markdown
from tangokg.forecast import fit
from tangokg.quads.world import make_world
from tangokg.rank import horizon

HORIZONS = (1, 2, 4, 8)
SIZES: dict[str, Any] = {"dim": 32, "width": 16, "newcomers": 0.1, "batch_windows": 4}
TANGO = SIZES | {"epochs": 8, "learning_rate": 0.005, "device": "cpu"}
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "tango": ("tango", TANGO),
    "tango, horizons=1": ("tango", TANGO | {"horizons": 1}),
    "tango, ode=true": ("tango", TANGO | {"ode": True}),
    "tango, ode=true, graphs of another window": ("tango", TANGO | {"ode": True, "graphs": "other"}),
    "recurrency": ("recurrency", {"device": "cpu"}),
}


def measure(model: str, settings: dict[str, Any], seeds: int) -> list[float]:
    """Mean test MRR at each horizon."""
    dataset = make_world(0).dataset
    trained = [fit(dataset, model, seed=seed, **settings) for seed in range(seeds if model == "tango" else 1)]
    return [
        statistics.mean(forecaster.evaluate(protocol=horizon(step))["time-aware"].mrr for forecaster in trained)
        for step in HORIZONS
    ]


def main(seeds: int) -> None:
    """Print the table."""
    torch.set_num_threads(1)
    rows = [(name, *(f"{mrr:.2f}" for mrr in measure(*about, seeds))) for name, about in ROWS.items()]
    print(markdown(("", *map(str, HORIZONS)), rows))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
