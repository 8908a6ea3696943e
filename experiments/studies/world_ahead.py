"""The default model some steps ahead on the built-in world, whose times are irregular: ODE on, off, and counting.

``python -m experiments.studies.world_ahead [SEEDS]`` prints test MRR (time-aware), the mean over seeds of training.
"""

from __future__ import annotations

import statistics
import sys
from typing import Any

import torch

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
    found: list[list[float]] = []
    for seed in range(seeds if model == "tango" else 1):
        forecaster = fit(make_world(0).dataset, model, seed=seed, **settings)
        found.append([forecaster.evaluate(protocol=horizon(step))["time-aware"].mrr for step in HORIZONS])
    return [statistics.mean(values) for values in zip(*found, strict=True)]


def main(seeds: int) -> None:
    """Print the table."""
    torch.set_num_threads(1)
    print("| | " + " | ".join(map(str, HORIZONS)) + " |\n" + "|---" * (len(HORIZONS) + 1) + "|", flush=True)
    for name, (model, settings) in ROWS.items():
        print(f"| {name} | " + " | ".join(f"{mrr:.2f}" for mrr in measure(model, settings, seeds)) + " |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
