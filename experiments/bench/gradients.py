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

from experiments.bench.form import interleaved, logger, make_result, peak_memory
from experiments.bench.material import draw_events, make_tango
from tangokg.models.tango import Tango
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import windows_at
from tangokg.solve import GRADIENTS
from tangokg.train import RunConfig, make_config

CPU = torch.device("cpu")


def measure(
    *,
    settings: tuple[str, ...] = ("dim=64",),
    facts: int = 300,
    entities: int = 2_000,
    most_steps: int = 64,
    repeats: int = 3,
    device: torch.device = CPU,
) -> dict[str, Any]:
    """Seconds, peak bytes and relative error of each gradient of one window, for 1, 2, 4 .. ``most_steps`` steps.

    Events are drawn, ``facts`` at each time; ``settings`` are those of the model (dim, history, nodes of irdm).
    """
    counts = [2**i for i in range(most_steps.bit_length()) if 2**i <= most_steps]
    config = make_config("tango-distmult", assignments=[*settings, "dropout=0.0", "cuda_graphs=false"])
    train = draw_events(facts, config.settings.history + 2, entities, names=min(entities, 10_000))
    rows = []
    for steps in counts:
        logger.info(f"{steps} steps in an interval")
        rows += _at(config, train, steps, repeats, device)
    asked = {"settings": list(settings), "facts": facts, "entities": entities, "repeats": repeats}
    asked |= {key: getattr(config.settings, key) for key in ("dim", "layers", "history", "solver", "nodes")}
    return make_result("gradients", asked, figures=_summary(rows), rows=rows, device=device)


def _at(config: RunConfig, train: Timeline, steps: int, repeats: int, device: torch.device) -> list[dict[str, Any]]:
    """A row for each method."""
    timeline = train.to(device)

    def model_of(gradient: str) -> Tango:
        return make_tango(
            replace(config, settings=replace(config.settings, gradient=gradient, steps=steps)), train, device
        )

    exact = _gradient(model_of("direct").double(), timeline)
    models = {gradient: model_of(gradient) for gradient in GRADIENTS}
    errors_of: dict[str, dict[str, Any]] = {}
    for name, model in models.items():
        errors = {"error": _apart(_gradient(model, timeline), exact)}
        errors["error_in_float64"] = _apart(_gradient(model_of(name).double(), timeline), exact)
        with peak_memory(device) as peak:
            _gradient(model, timeline)
        errors_of[name] = {"peak_bytes": peak.bytes} | errors
    del exact
    tasks = {name: partial(_gradient, model, timeline) for name, model in models.items()}
    times = interleaved(tasks, repeats, device, warm=0)
    return [{"steps": steps, "gradient": name} | times[name].to_dict() | errors_of[name] for name in GRADIENTS]


def _apart(gradient: Tensor, exact: Tensor) -> float:
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


def _summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """At most steps, how each compares with direct."""
    last = [row for row in rows if row["steps"] == rows[-1]["steps"]]
    direct = next(row for row in last if row["gradient"] == "direct")
    figures: dict[str, Any] = {"steps": direct["steps"]}
    for row in last:
        figures[f"{row['gradient']}_time_ratio"] = row["seconds"] / direct["seconds"]
        if row["peak_bytes"] and direct["peak_bytes"]:
            figures[f"{row['gradient']}_memory_ratio"] = row["peak_bytes"] / direct["peak_bytes"]
    return figures
