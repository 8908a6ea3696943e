"""Three gradients through the solver: direct, adjoint, irdm. Time, peak memory and error over the steps in an interval.

An error is that of the whole gradient, of all weights and embeddings together, relative to ``direct`` in float64 with
as many steps: in float32, as one trains, and in float64, where only the method's own way back is left. The methods
take turns, none of them replayed as a graph of the GPU.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from experiments.bench.form import Measured, interleaved, logger, peak_memory
from experiments.bench.material import draw_events, make_tango
from tangokg.models.tango import Tango
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import windows_at
from tangokg.solve import GRADIENTS
from tangokg.train import RunConfig, make_config


def measure(
    *,
    settings: tuple[str, ...] = ("dim=64",),
    facts: int = 300,
    entities: int = 2_000,
    most_steps: int = 64,
    repeats: int = 3,
    device: torch.device,
) -> Measured:
    """Seconds, peak bytes and relative error of each gradient of one window, for 1, 2, 4 .. ``most_steps`` steps.

    Events are drawn, ``facts`` at each time; ``settings`` are those of the model (dim, history, nodes of irdm).
    """
    config = make_config("tango-distmult", assignments=[*settings, "dropout=0.0", "cuda_graphs=false"])
    train = draw_events(facts, config.settings.history + 2, entities, names=min(entities, 10_000))
    rows = []
    for steps in (2**power for power in range(most_steps.bit_length())):
        logger.info(f"{steps} steps in an interval")
        rows += _measure_methods(config, train, steps, repeats, device)
    about = {key: getattr(config.settings, key) for key in ("dim", "layers", "history", "solver", "nodes")}
    return Measured(_compare_with_direct(rows), rows, about)


def _measure_methods(
    config: RunConfig, train: Timeline, steps: int, repeats: int, device: torch.device
) -> list[dict[str, Any]]:
    """A row for each method."""
    timeline = train.to(device)

    def model_of(gradient: str) -> Tango:
        settings = replace(config.settings, gradient=gradient, steps=steps)
        return make_tango(replace(config, settings=settings), train, device)

    exact = _gradient(model_of("direct").double(), timeline)
    models = {gradient: model_of(gradient) for gradient in GRADIENTS}
    figures: dict[str, dict[str, Any]] = {}
    for name, model in models.items():
        errors = {
            "error": _difference(_gradient(model, timeline), exact),
            "error_in_float64": _difference(_gradient(model_of(name).double(), timeline), exact),
        }
        with peak_memory(device) as peak:
            _gradient(model, timeline)
        figures[name] = {"peak_bytes": peak.bytes} | errors
    del exact
    tasks = {name: partial(_gradient, model, timeline) for name, model in models.items()}
    times = interleaved(tasks, repeats, device, warm=0)
    return [{"steps": steps, "gradient": name} | times[name].to_dict() | figures[name] for name in GRADIENTS]


def _difference(gradient: Tensor, exact: Tensor) -> float:
    return float((gradient.double() - exact).norm() / exact.norm())


def _gradient(model: Tango, timeline: Timeline) -> Tensor:
    """The gradient of all parameters that the encoder reads, as one vector: of the mean square of the touched rows."""
    model.zero_grad()
    states = model.encode(timeline, windows_at(timeline, torch.tensor([len(timeline) - 1]))).states
    states.touched.square().mean().backward()
    parameters = [model.entities, model.relations, *model.derivative.parameters()]
    gradient = torch.cat([p.grad.flatten() for p in parameters if p.grad is not None])
    model.zero_grad()
    return gradient


def _compare_with_direct(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Time and memory of each method at most steps, as ratios."""
    last = {row["gradient"]: row for row in rows if row["steps"] == rows[-1]["steps"]}
    direct = last["direct"]
    figures: dict[str, Any] = {"steps": direct["steps"]}
    for name, row in last.items():
        figures[f"{name}_time_ratio"] = row["seconds"] / direct["seconds"]
        if row["peak_bytes"] and direct["peak_bytes"]:
            figures[f"{name}_memory_ratio"] = row["peak_bytes"] / direct["peak_bytes"]
    return figures
