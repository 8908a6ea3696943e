"""What grows with what: the encoder and the whole step over entities, history, dimension and events.

All values of one axis are measured in turns, round by round. The encoder's backward pass is measured to the rows that
it touches: in a training step their gradients are added into the dense one that the scores make anyway.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge

from experiments.bench.form import Stopwatch, Times, interleaved, logger, make_result, warm_rounds
from experiments.bench.material import check_encoder, draw_events, make_tango
from tangokg.errors import ConfigError
from tangokg.snapshots.windows import queries_at, windows_at
from tangokg.train import RunConfig, TrainSettings, make_config
from tangokg.train.memory import free_bytes, keep_freed_memory, needed_bytes

CPU = torch.device("cpu")
AXES: dict[str, tuple[int, ...]] = {
    "entities": (10_000, 100_000, 1_000_000),
    "history": (1, 2, 4, 8, 16),
    "dim": (100, 200, 400, 800),
    "facts": (1, 3, 10),  # times as many as asked for
}


def measure(
    *,
    model: str = "tango-distmult",
    settings: tuple[str, ...] = (),
    facts: int = 300,
    entities: int = 10_000,
    axes: str = ",".join(AXES),
    repeats: int = 5,
    device: torch.device = CPU,
) -> dict[str, Any]:
    """Seconds of the encoder, forward and backward to the touched rows, and of a whole step of one window.

    Events are drawn, ``facts`` at each time, on top of the model's ``settings``. Of ``axes`` (a list with commas) one
    changes at a time while the others stay. A step that does not fit the memory is left out.
    """
    config = _config(model, settings, {})
    check_encoder(config)
    keep_freed_memory()
    chosen = [name.strip() for name in axes.split(",")]
    if unknown := [name for name in chosen if name not in AXES]:
        raise ConfigError(f"bench growth: unknown axis {unknown[0]!r}; choose from {', '.join(AXES)}.")
    rows: list[dict[str, Any]] = []
    for name in chosen:
        cases = [_Case(name, value, model, settings, facts, entities, device) for value in AXES[name]]
        logger.info(f"{name}: {', '.join(f'{case.shown:,}' for case in cases)}")
        for case, (forward, backward) in zip(cases, _encoders(cases, repeats, device), strict=True):
            row = {"axis": name, "value": case.shown}
            row |= forward.to_dict("forward_seconds") | backward.to_dict("backward_seconds")
            step = case.step(max(2, repeats // 2))
            rows.append(row | (step.to_dict("step_seconds") if step else {"step_seconds": None}))
        del cases
        gc.collect()
    asked = {"model": model, "settings": list(settings), "facts": facts, "entities": entities, "repeats": repeats}
    asked |= {key: getattr(config.settings, key) for key in ("dim", "layers", "history")}
    return make_result("growth", asked, figures=_ratios(rows), rows=rows, device=device)


def _ratios(rows: Sequence[dict[str, Any]]) -> dict[str, float | None]:
    """Of each axis the last value against the first."""
    ratios: dict[str, float | None] = {}
    for axis in dict.fromkeys(row["axis"] for row in rows):
        first, *_, last = [row for row in rows if row["axis"] == axis]
        for part in ("forward", "backward", "step"):
            ends = first[f"{part}_seconds"], last[f"{part}_seconds"]
            ratios[f"{axis}_{part}_ratio"] = ends[1] / ends[0] if None not in ends else None
    return ratios


def _config(model: str, settings: Sequence[str], changed: dict[str, int]) -> RunConfig:
    return make_config(model, assignments=[*settings, *(f"{key}={value}" for key, value in changed.items())])


class _Case:
    """A model and drawn events, with one value other than asked for."""

    def __init__(
        self,
        axis: str,
        value: int,
        model: str,
        settings: Sequence[str],
        facts: int,
        entities: int,
        device: torch.device,
    ) -> None:
        self.shown = value * facts if axis == "facts" else value
        facts, entities = (self.shown if axis == "facts" else facts), (value if axis == "entities" else entities)
        config = _config(model, settings, {axis: value} if axis in ("history", "dim") else {})
        train = draw_events(facts, config.settings.history + 2, entities)
        self.device, self.timeline = device, train.to(device)
        self.model = make_tango(config, train, device)
        self.masks = torch.Generator(device).manual_seed(0)
        self.target = torch.tensor([len(train) - 1])

    def encode(self) -> Tensor:
        """The touched rows (M, D)."""
        return self.model.encode(self.timeline, windows_at(self.timeline, self.target), self.masks).states.touched

    def back(self, touched: Tensor) -> None:
        """From the touched rows at the target time to the rows at the start, and to all that moved them."""
        start = rows_edge(touched, self.model.entities)
        wanted: list[Any] = [start, self.model.relations, *self.model.derivative.parameters()]
        torch.autograd.grad(touched, wanted, torch.ones_like(touched), allow_unused=True)

    def step(self, repeats: int) -> Times | None:
        """A training step; None where its scores do not fit."""
        free = free_bytes(self.device)
        if free is not None and sum(needed_bytes(self.model, self.timeline, TrainSettings(batch_windows=1))) > free:
            return None
        optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3, fused=True)

        def step() -> None:
            windows, queries = windows_at(self.timeline, self.target), queries_at(self.timeline, self.target)
            loss = self.model(self.timeline, windows, queries, self.masks)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

        times = interleaved({"step": step}, repeats, self.device)["step"]
        optimizer.zero_grad()
        return times


def rows_edge(touched: Tensor, entities: Tensor) -> GradientEdge:
    """Where the rows that were taken out of ``entities`` enter the graph of ``touched``."""
    assert touched.grad_fn is not None
    waiting, seen = [GradientEdge(touched.grad_fn, touched.output_nr)], set()
    while waiting:
        edge = waiting.pop()
        for node, place in edge.node.next_functions:
            if node is None:
                continue
            if getattr(node, "variable", None) is entities:
                return edge
            if (node, place) not in seen:
                seen.add((node, place))
                waiting.append(GradientEdge(node, place))
    raise AssertionError("the touched rows do not come from the embeddings")


def _encoders(cases: Sequence[_Case], repeats: int, device: torch.device) -> list[tuple[Times, Times]]:
    """Forward and backward of each case, in turns."""
    watch = Stopwatch(device)
    warm = warm_rounds(device)
    for number in range(warm + repeats):
        for place, case in enumerate(cases):
            watch.look()
            touched = case.encode()
            watch.look(f"forward {place}" if number >= warm else None)
            case.back(touched)
            watch.look(f"backward {place}" if number >= warm else None)
            del touched
    return [
        (Times.of(watch.times[f"forward {place}"]), Times.of(watch.times[f"backward {place}"]))
        for place in range(len(cases))
    ]
