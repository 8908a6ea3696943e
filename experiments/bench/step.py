"""Time of a training step against its floor: decoder, scores and cross-entropy alone, measured in the same run.

The parts of a step are measured with the device waited for after each; a whole epoch as the training loop runs it,
waited for once, at its end: what the parts add up to is more than that on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from experiments.bench.epochs import Epochs
from experiments.bench.form import Measured, Stopwatch, Times, logger, now, peak_memory
from experiments.bench.material import WORLD, check_encoder, read_set, usual_config
from tangokg.models.tango import Tango
from tangokg.snapshots.windows import Queries, queries_at, windows_at
from tangokg.train import resolve

PARTS = ("windows", "encode", "decode and loss", "backward", "optimiser")


def measure(
    *,
    data: str = WORLD,
    model: str | None = None,
    settings: tuple[str, ...] = (),
    repeats: int = 10,
    epochs: int = 1,
    warm: int = 3,
    snapshots: int = 0,
    device: torch.device,
) -> Measured:
    """Seconds of each part of a step over ``repeats`` steps, and of whole epochs (of ``snapshots`` targets; 0: all).

    ``model`` and ``settings`` (``key=value``, those of training included: batch_windows, precision) go on top of what
    is usual for the set. The first step warms up, and on a GPU ``warm`` epochs before it, in which memory
    pools grow and steps are captured as graphs.
    """
    config = usual_config(data, model, settings, device)
    check_encoder(config)
    dataset = read_set(data)
    config = resolve(config, dataset)
    logger.info(f"{data}: setting up")
    run = Epochs(dataset, config)
    size = config.train.batch_windows
    for _ in range(warm if device.type == "cuda" else 0):
        run.seconds(run.draw(snapshots))
    step = _Step(run)
    for number in range(repeats + 1):
        step.measure(run.draw(size), counted=number > 0)
        logger.info(f"{data}: step {number} of {repeats}")
    steps = -(-len(run.targets) // size)
    figures = _step_figures(step.watch.times) | _measure_epochs(run, step, epochs, snapshots)
    figures |= {"steps": steps, "queries_a_step": _count_queries(run, run.targets) / steps}
    about = {"model": config.model, "batch_windows": size, "precision": config.train.precision}
    about |= {key: getattr(config.settings, key) for key in ("dim", "layers", "history", "transition", "solver")}
    return Measured(figures, _part_rows(step.watch.times), about)


def _count_queries(run: Epochs, target: Tensor) -> int:
    offset = run.session.material.train.offset.cpu()
    return int((offset[target + 1] - offset[target]).sum())


def _part_rows(times: Mapping[str, list[float]]) -> list[dict[str, Any]]:
    """Seconds of each part, and as shares of the floor."""
    of_parts = {part: Times.of(seconds) for part, seconds in times.items()}
    floor = of_parts["floor"].median
    return [{"part": part, **times.to_dict(), "of_floor": times.median / floor} for part, times in of_parts.items()]


def _step_figures(times: Mapping[str, list[float]]) -> dict[str, Any]:
    """The total of a step, and its ratio to its own floor."""
    steps = [sum(seconds) for seconds in zip(*(times[part] for part in PARTS), strict=True)]
    ratios = Times.of([step / floor for step, floor in zip(steps, times["floor"], strict=True)])
    figures = {"step_seconds": Times.of(steps).median, "floor_seconds": Times.of(times["floor"]).median}
    return figures | ratios.to_dict("ratio")


def _measure_epochs(run: Epochs, step: _Step, epochs: int, snapshots: int) -> dict[str, Any]:
    """Epochs of the training loop, each with the floors of its targets, one after the other."""
    totals, floors = [], []
    for number in range(epochs):
        order = run.draw(snapshots)
        scale = _count_queries(run, run.targets) / _count_queries(run, order)
        logger.info(f"epoch {number + 1} of {epochs}, {len(order)} snapshots")
        with peak_memory(run.device) as peak:
            totals.append(scale * run.seconds(order))
        floors.append(scale * step.measure_floors(order))
    ratios = Times.of([total / floor for total, floor in zip(totals, floors, strict=True)])
    figures = Times.of(totals).to_dict("epoch_seconds") | {"floor_epoch_seconds": Times.of(floors).median}
    return figures | {"epoch_ratio": ratios.median, "peak_bytes": peak.bytes}


class _Step:
    """Runs one step at a time, and reads the clock after each part."""

    def __init__(self, run: Epochs) -> None:
        assert isinstance(run.session.plain, Tango)
        self.model, self.session, self.device = run.session.plain, run.session, run.device
        self.timeline, self.masks = run.session.material.train, run.session.generators["masks"]
        self.watch = Stopwatch(run.device)

    def measure(self, target: Tensor, counted: bool) -> None:
        """A step as the training loop makes it, then its floor."""
        session, model = self.session, self.model

        def look(part: str) -> None:
            self.watch.look(part if counted else None)

        self.watch.look()
        windows, queries = windows_at(self.timeline, target), queries_at(self.timeline, target)
        look("windows")
        with session.fabric.autocast():
            encoded = model.encode(self.timeline, windows, self.masks)
            look("encode")
            query, states = model._ask(encoded, queries, self.masks)
            loss = states.cross_entropy(query, queries)
        look("decode and loss")
        session.optimizer.zero_grad()
        session.fabric.backward(loss)
        look("backward")
        if clip := session.settings.clip:
            session.fabric.clip_gradients(session.loss, session.optimizer, max_norm=clip, error_if_nonfinite=False)
        session.optimizer.step()
        look("optimiser")
        floor = self._make_floor(len(windows))
        self.watch.look()
        floor(queries)
        look("floor")

    def measure_floors(self, order: Tensor) -> float:
        """Seconds of the floors of all steps over ``order``, waited for once."""
        targets = order.split(self.session.settings.batch_windows)
        floors = {windows: self._make_floor(windows) for windows in set(map(len, targets))}
        start = now(self.device)
        for target in targets:
            floors[len(target)](queries_at(self.timeline, target))
        return now(self.device) - start

    def _make_floor(self, windows: int) -> Callable[[Queries], None]:
        """Forward and backward of what no encoder can avoid: fresh subject states against the embeddings alone."""
        model, session = self.model, self.session
        with torch.no_grad():  # before the first snapshot nothing is known: no entity has moved
            encoded = model.encode(self.timeline, windows_at(self.timeline, torch.zeros(windows, dtype=torch.int64)))
        base, relations = (table.detach().requires_grad_() for table in (model.entities, encoded.relations))
        states = replace(encoded.states, base=base)

        def floor(queries: Queries) -> None:
            subjects = torch.randn(len(queries), base.shape[1], device=base.device, dtype=base.dtype).requires_grad_()
            with session.fabric.autocast():
                query = model.decoder(subjects, relations, queries.r, self.masks)
                loss = states.cross_entropy(query, queries)
            session.fabric.backward(loss)
            base.grad = relations.grad = None

        return floor
