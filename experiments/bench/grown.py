"""The generated world grown to a million names: an epoch, its memory, an exact evaluation, and what dominates.

Each size is measured in a process of its own. The seconds of an epoch are the median of some measured steps times the
number of its steps: all steps ask about as many questions. On a CPU seconds are those of the processor, which other
programs disturb little; with one thread they are those of a clock on a machine that does nothing else.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from experiments.bench.epochs import Epochs
from experiments.bench.form import Measured, Stopwatch, Times, alone, logger, now, peak_memory, warm_rounds
from experiments.bench.regions import grow_world
from tangokg.errors import TrainingError
from tangokg.quads.values import Dataset, concatenate
from tangokg.rank import examine, prepare
from tangokg.rank.evaluate import Exam, answering
from tangokg.snapshots.timeline import build_timeline
from tangokg.snapshots.windows import queries_at, windows_at
from tangokg.train import RunConfig, make_config, resolve
from tangokg.train.memory import free_bytes, needed_bytes

PARTS = ("windows", "states", "scores", "gradients", "optimiser")
CHECKED = 16  # questions whose ranks are counted anew
ROUNDING = 1e-4


def measure(
    *,
    model: str = "tango",
    settings: tuple[str, ...] = ("dim=200",),
    most_facts: int = 10_000_000,
    most_entities: int = 1_000_000,
    at_once: int = 300,
    steps: int = 3,
    questions: int = 100_000,
    only_most: bool = False,
    seed: int = 0,
    device: torch.device,
) -> Measured:
    """An epoch against facts, against entities, and with the most of both; or, with ``only_most``, that alone.

    Each axis has the most, a tenth and a hundredth; meanwhile there are a hundredth of the entities, a tenth of the
    facts. Of the test part ``questions`` are ranked among all entities.
    """
    config = make_config(model, assignments=[*settings, f"device={device.type}"], seed=seed)
    options = {"config": config, "at_once": at_once, "steps": steps, "questions": questions}
    measured: dict[tuple[int, int], dict[str, Any]] = {}  # equal sizes of two axes are measured once
    rows = []
    for axis, facts, entities in _sizes(most_facts, most_entities, only_most):
        if (facts, entities) not in measured:
            logger.info(f"{facts:,} facts, {entities:,} entities")
            row, resident = alone(measure_size, facts=facts, entities=entities, **options)
            measured[facts, entities] = row | {"resident_bytes": resident}
        rows.append({"axis": axis} | measured[facts, entities])
    return Measured(slopes(rows), rows, {"dim": getattr(config.settings, "dim", 0)})


def _sizes(facts: int, entities: int, only_most: bool) -> list[tuple[str, int, int]]:
    shares = () if only_most else (100, 10, 1)
    sizes = [("facts", facts // share, entities // 100) for share in shares]
    sizes += [("entities", facts // 10, entities // share) for share in shares]
    return [*sizes, ("both", facts, entities)]


def slopes(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Of each axis the power of its value that an epoch, a step and an evaluated question grow with.

    .. math:: \\log y = a + b \\log x, \\quad b \\text{ by least squares}
    """
    figures = {}
    for axis in ("facts", "entities"):
        of_axis = [row for row in rows if row["axis"] == axis]
        for name in ("epoch", "step", "question"):
            if len(of_axis) > 1:
                x, y = (np.log([row[key] for row in of_axis]) for key in (axis, f"{name}_seconds"))
                figures[f"{axis}_{name}_slope"] = float(np.polyfit(x, y, 1)[0])
    return figures


def measure_size(
    config: RunConfig, facts: int, entities: int, at_once: int, steps: int, questions: int
) -> dict[str, Any]:
    """The row of one size, without its axis."""
    dataset = grow_world(entities, facts, at_once, config.seed)
    config = resolve(config, dataset)
    start = time.process_time()
    run = Epochs(dataset, config)
    timeline, size = run.session.material.train, config.train.batch_windows
    row: dict[str, Any] = {"facts": sum(map(len, dataset.parts.values())), "entities": entities}
    row |= {"build_seconds": time.process_time() - start, "snapshots": len(timeline)}
    row |= {"batch_windows": size, "steps": math.ceil(len(run.targets) / size)}
    need, free = sum(needed_bytes(run.session.plain, timeline, config.train)), free_bytes(run.device)
    if free is not None and need > free:
        raise TrainingError(f"{facts:,} facts, {entities:,} entities need {need:,} bytes; {free:,} are free.")
    with peak_memory(run.device) as peak:
        for _ in range(warm_rounds(run.device)):
            run.seconds(run.draw(size))
        times = Times.of([_step_seconds(run, size) for _ in range(steps)])
    on_gpu = run.device.type == "cuda"  # there all memory counts, weights and moments included
    row |= times.to_dict("step_seconds") | {"measured_steps": min(steps, row["steps"])}
    row |= {"epoch_seconds": times.median * row["steps"]}
    row |= {"peak_bytes": torch.cuda.max_memory_allocated(run.device) if on_gpu else peak.bytes}
    parts = _measure_parts(run, size, steps)
    row |= {"dominates": max(parts, key=lambda part: parts[part])}
    row |= {f"{part}_seconds": seconds for part, seconds in parts.items()}
    return row | _measure_evaluation(run, dataset, questions)


def _clock(device: torch.device) -> float:
    """Seconds: of a GPU when it has done all it was given, of a CPU those that this process had it."""
    return now(device) if device.type == "cuda" else time.process_time()


def _step_seconds(run: Epochs, size: int) -> float:
    target = run.draw(size)
    start = _clock(run.device)
    run.seconds(target)
    return _clock(run.device) - start


def _measure_parts(run: Epochs, size: int, steps: int) -> dict[str, float]:
    """Median seconds of the parts of a step; where a loss is computed in parts, its gradients come with the scores."""
    session, watch = run.session, Stopwatch(run.device)
    model, timeline, masks = session.plain, session.material.train, session.generators["masks"]
    model.train()
    for _ in range(steps):
        target = run.draw(size)
        watch.look()
        windows, queries = windows_at(timeline, target), queries_at(timeline, target)
        watch.look("windows")
        with torch.no_grad():
            model.encode(timeline, windows)
        watch.look("states")
        with session.fabric.autocast():
            loss = model(timeline, windows, queries, masks)
        watch.look("scores")
        session.optimizer.zero_grad()
        session.fabric.backward(loss)
        watch.look("gradients")
        session.optimizer.step()
        watch.look("optimiser")
    medians = {part: Times.of(watch.times[part]).median for part in PARTS}
    return medians | {"scores": max(0.0, medians["scores"] - medians["states"])}


def _measure_evaluation(run: Epochs, dataset: Dataset, questions: int) -> dict[str, Any]:
    """Rank the answers of about so many questions of the test part among all entities, under all filters."""
    run.session.optimizer.state.clear()  # room for the scores, as after training
    run.session.optimizer.zero_grad()
    known = concatenate([dataset.past, dataset.valid])
    timeline = build_timeline(concatenate([known, dataset.test]))
    first = len(build_timeline(known))
    enough = int(torch.searchsorted(timeline.offset[first:] - timeline.offset[first], questions))
    target = torch.arange(first, min(first + max(1, enough), len(timeline)))
    model = run.session.plain
    timeline = timeline.to(run.device)
    model.settle(run.session.material.train)
    with peak_memory(run.device) as peak:
        start = _clock(run.device)
        exam = prepare(timeline, target)
        metrics = examine(model, exam)
        seconds = _clock(run.device) - start
    _check_ranks(run, exam, metrics.ranks["raw"].realistic)
    row = {"questions": len(exam), "evaluate_seconds": seconds, "question_seconds": seconds / len(exam)}
    return row | {"evaluate_peak_bytes": peak.bytes, "mrr": metrics["time-aware"].mrr}


def _check_ranks(run: Epochs, exam: Exam, ranks: torch.Tensor) -> None:
    """An error if a raw rank is not the number of larger scores, counted one by one, up to rounding."""
    model = run.session.plain
    stop = min(CHECKED, int(exam.border[1]))
    with answering(model):
        encoded = model.encode(exam.timeline, exam.windows.select(slice(0, 1)))
        scores = model.score(encoded, exam.part(0, stop, slice(0, 1))).double().cpu()  # (CHECKED, N)
    true = scores.gather(1, exam.queries.answer[:stop, None].cpu())
    room = ROUNDING * (1 + true.abs())
    least, most = (1 + (scores > bound).sum(1) for bound in (true + room, true - room))
    rank = ranks[:stop].cpu()
    if ((rank < least) | (rank > most)).any():
        raise TrainingError(f"evaluation: ranks {rank.tolist()}; counted {least.tolist()} to {most.tolist()}.")
