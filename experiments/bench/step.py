"""What a training step takes beside its floor: decoder, scores and cross-entropy alone, measured in the same run.

The parts of a step are measured with the device waited for after each; a whole epoch as the training loop runs it,
waited for once, at its end: what the parts add up to is more than that on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from experiments.bench.epochs import Epochs
from experiments.bench.form import Stopwatch, Times, logger, make_result, now, peak_memory
from experiments.bench.material import WORLD, check_encoder, read_set, usual_config
from tangokg.models.tango import Tango
from tangokg.snapshots.windows import Queries, queries_at, windows_at
from tangokg.train import resolve

PARTS = ("windows", "encode", "decode and loss", "backward", "optimiser")
CPU = torch.device("cpu")


def measure(
    *,
    data: str = WORLD,
    model: str | None = None,
    settings: tuple[str, ...] = (),
    repeats: int = 10,
    epochs: int = 1,
    warm: int = 3,
    snapshots: int = 0,
    device: torch.device = CPU,
) -> dict[str, Any]:
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
    parts = _Parts(run)
    for number in range(repeats + 1):
        parts.step(run.draw(size), counted=number > 0)
        logger.info(f"{data}: step {number} of {repeats}")
    whole = _whole(run, parts, epochs, snapshots)
    steps = -(-len(run.targets) // size)
    figures = parts.figures() | {
        **whole,
        "steps": steps,
        "queries_a_step": _queries(run, run.targets) / steps,
    }
    asked = {"data": data, "model": config.model, "settings": list(settings), "batch_windows": size}
    asked |= {"precision": config.train.precision, "repeats": repeats, "epochs": epochs, "snapshots": snapshots}
    asked |= {key: getattr(config.settings, key) for key in ("dim", "layers", "history", "transition", "solver")}
    return make_result("step", asked, figures=figures, rows=parts.rows(), device=device)


def _queries(run: Epochs, target: Tensor) -> int:
    offset = run.session.material.train.offset.cpu()
    return int((offset[target + 1] - offset[target]).sum())


def _whole(run: Epochs, parts: _Parts, epochs: int, snapshots: int) -> dict[str, Any]:
    """Epochs of the training loop, each with the floors of its targets, one after the other."""
    wholes, floors = [], []
    for number in range(epochs):
        order = run.draw(snapshots)
        scale = _queries(run, run.targets) / _queries(run, order)
        logger.info(f"epoch {number + 1} of {epochs}, {len(order)} snapshots")
        with peak_memory(run.device) as peak:
            wholes.append(scale * run.seconds(order))
        floors.append(scale * parts.floors(order))
    ratios = Times.of([whole / floor for whole, floor in zip(wholes, floors, strict=True)])
    figures = Times.of(wholes).to_dict("epoch_seconds") | {"floor_epoch_seconds": Times.of(floors).median}
    return figures | {"epoch_ratio": ratios.median, "peak_bytes": peak.bytes}


class _Parts:
    """One step at a time, with a look at the watch after each part."""

    def __init__(self, run: Epochs) -> None:
        self.run, self.session = run, run.session
        assert isinstance(run.session.plain, Tango)
        self.model = run.session.plain
        self.masks = run.session.generators["masks"]
        self.watch = Stopwatch(run.device)

    def step(self, target: Tensor, counted: bool) -> None:
        """A step as the training loop makes it, then its floor."""
        session, model, look = self.session, self.model, self.watch.look
        timeline = session.material.train
        name = (lambda part: part) if counted else (lambda part: None)
        look()
        windows, queries = windows_at(timeline, target), queries_at(timeline, target)
        look(name("windows"))
        with session.fabric.autocast():
            encoded = model.encode(timeline, windows, self.masks)
            look(name("encode"))
            query, states = model._ask(encoded, queries, self.masks)
            loss = states.cross_entropy(query, queries)
        look(name("decode and loss"))
        session.optimizer.zero_grad()
        session.fabric.backward(loss)
        look(name("backward"))
        if clip := session.settings.clip:
            session.fabric.clip_gradients(session.loss, session.optimizer, max_norm=clip, error_if_nonfinite=False)
        session.optimizer.step()
        look(name("optimiser"))
        floor = self._floor(len(windows))
        look()
        floor(queries)
        look(name("floor"))

    def rows(self) -> list[dict[str, Any]]:
        """Seconds of each part, and as shares of the floor."""
        times = {part: Times.of(seconds) for part, seconds in self.watch.times.items()}
        floor = times["floor"].median
        return [
            {"part": part} | seconds.to_dict() | {"of_floor": seconds.median / floor} for part, seconds in times.items()
        ]

    def figures(self) -> dict[str, Any]:
        """A step in all, and beside its own floor."""
        times = self.watch.times
        each = [sum(seconds) for seconds in zip(*(times[part] for part in PARTS), strict=True)]
        ratios = Times.of([step / floor for step, floor in zip(each, times["floor"], strict=True)])
        floor = Times.of(times["floor"]).median
        return {"step_seconds": Times.of(each).median, "floor_seconds": floor} | ratios.to_dict("ratio")

    def floors(self, order: Tensor) -> float:
        """Seconds of the floors of all steps over ``order``, waited for once."""
        timeline, size = self.session.material.train, self.session.settings.batch_windows
        floor_of = {windows: self._floor(windows) for windows in {min(size, len(order)), len(order) % size} - {0}}
        start = now(self.run.device)
        for target in order.split(size):
            floor_of[len(target)](queries_at(timeline, target))
        return now(self.run.device) - start

    def _floor(self, windows: int) -> Callable[[Queries], None]:
        """Forward and backward of what no encoder can avoid: fresh subject states against the embeddings alone."""
        model, session, timeline = self.model, self.session, self.session.material.train
        with torch.no_grad():  # before the first snapshot nothing is known: no entity has moved
            encoded = model.encode(timeline, windows_at(timeline, torch.zeros(windows, dtype=torch.int64)))
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
