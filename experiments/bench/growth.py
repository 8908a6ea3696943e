"""Growth of time: the encoder and the whole step over entities, history, dimension and events.

All values of one axis are measured in turns, round by round. The encoder's backward pass is measured to the rows that
it touches: in a training step their gradients are added into the dense one that the scores make anyway.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

import torch

from experiments.bench.form import Measured, Stopwatch, Times, interleaved, logger, warm_rounds
from experiments.bench.material import check_encoder, draw_events, make_tango
from tangokg.errors import ConfigError
from tangokg.models.tango import Encoded
from tangokg.snapshots.windows import queries_at, windows_at
from tangokg.train import TrainSettings, make_config
from tangokg.train.memory import free_bytes, keep_freed_memory, needed_bytes

AXES: dict[str, tuple[int, ...]] = {
    "entities": (10_000, 100_000, 1_000_000),
    "history": (1, 2, 4, 8, 16),
    "dim": (100, 200, 400, 800),
    "facts": (1, 3, 10),  # times as many as the parameter says
}


def measure(
    *,
    model: str = "tango-distmult",
    settings: tuple[str, ...] = (),
    facts: int = 300,
    entities: int = 10_000,
    axes: str = ",".join(AXES),
    repeats: int = 5,
    device: torch.device,
) -> Measured:
    """Seconds of the encoder, forward and backward to the touched rows, and of a whole step of one window.

    Events are drawn, ``facts`` at each time, on top of the model's ``settings``. Of ``axes`` (a list with commas) one
    changes at a time while the others stay. A step that does not fit the memory is left out.
    """
    config = make_config(model, assignments=settings)
    check_encoder(config)
    keep_freed_memory()
    chosen = [name.strip() for name in axes.split(",")]
    if unknown := [name for name in chosen if name not in AXES]:
        raise ConfigError(f"bench growth: unknown axis {unknown[0]!r}; choose from {', '.join(AXES)}.")
    rows: list[dict[str, Any]] = []
    for axis in chosen:
        values = [value * facts if axis == "facts" else value for value in AXES[axis]]
        logger.info(f"{axis}: {', '.join(f'{value:,}' for value in values)}")
        sizes = [{"facts": facts, "entities": entities, axis: value} for value in values]
        cases = [_Case(model, settings, size, device) for size in sizes]
        encoders = _measure_encoders(cases, repeats, device)
        for value, case, (forward, backward) in zip(values, cases, encoders, strict=True):
            step = case.measure_step(max(2, repeats // 2))
            row = {"axis": axis, "value": value}
            row |= forward.to_dict("forward_seconds") | backward.to_dict("backward_seconds")
            rows.append(row | (step.to_dict("step_seconds") if step else {"step_seconds": None}))
        del cases
        gc.collect()
    return Measured(_ratios(rows), rows, {key: getattr(config.settings, key) for key in ("dim", "layers", "history")})


def _ratios(rows: Sequence[dict[str, Any]]) -> dict[str, float | None]:
    """Of each axis the last value against the first."""
    ratios: dict[str, float | None] = {}
    for axis in dict.fromkeys(row["axis"] for row in rows):
        first, *_, last = [row for row in rows if row["axis"] == axis]
        for part in ("forward", "backward", "step"):
            ends = first[f"{part}_seconds"], last[f"{part}_seconds"]
            ratios[f"{axis}_{part}_ratio"] = ends[1] / ends[0] if None not in ends else None
    return ratios


class _Case:
    """A model and drawn events; ``sizes`` are the facts, the entities, and what else the axis changes."""

    def __init__(self, model: str, settings: Sequence[str], sizes: dict[str, int], device: torch.device) -> None:
        changed = [f"{key}={value}" for key, value in sizes.items() if key not in ("facts", "entities")]
        config = make_config(model, assignments=[*settings, *changed])
        train = draw_events(sizes["facts"], config.settings.history + 2, sizes["entities"])
        self.device, self.timeline = device, train.to(device)
        self.model = make_tango(config, train, device)
        self.masks = torch.Generator(device).manual_seed(0)
        self.target = torch.tensor([len(train) - 1])

    def encode(self) -> Encoded:
        """The states at the target time."""
        return self.model.encode(self.timeline, windows_at(self.timeline, self.target), self.masks)

    def back(self, encoded: Encoded) -> tuple[torch.Tensor, ...]:
        """Gradients from the touched rows at the target time to those at the start, and to all that moved them."""
        touched = encoded.states.touched
        inputs = [encoded.start, self.model.relations, *self.model.derivative.parameters()]
        return torch.autograd.grad(touched, inputs, torch.ones_like(touched), allow_unused=True)

    def measure_step(self, repeats: int) -> Times | None:
        """A training step; None if its scores do not fit in memory."""
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

        times = interleaved({"step": step}, repeats, self.device)
        optimizer.zero_grad()
        return times["step"]


def _measure_encoders(cases: Sequence[_Case], repeats: int, device: torch.device) -> list[tuple[Times, Times]]:
    """Forward and backward of each case, in turns."""
    watch = Stopwatch(device)
    warm = warm_rounds(device)
    for number in range(warm + repeats):
        for place, case in enumerate(cases):
            watch.look()
            encoded = case.encode()
            watch.look(f"forward {place}" if number >= warm else None)
            case.back(encoded)
            watch.look(f"backward {place}" if number >= warm else None)
            del encoded
    times = {name: Times.of(seconds) for name, seconds in watch.times.items()}
    return [(times[f"forward {place}"], times[f"backward {place}"]) for place in range(len(cases))]
