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
from experiments.bench.form import Stopwatch, Times, alone, logger, make_result, now, peak_memory, warm_rounds
from experiments.bench.regions import grow_world
from tangokg.errors import TrainingError
from tangokg.quads.values import Dataset, concatenate
from tangokg.rank import examine, prepare
from tangokg.rank.evaluate import Exam, answering
from tangokg.snapshots.timeline import build_timeline
from tangokg.snapshots.windows import queries_at, windows_at
from tangokg.train import make_config, resolve
from tangokg.train.memory import free_bytes, needed_bytes

CPU = torch.device("cpu")
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
    device: torch.device = CPU,
) -> dict[str, Any]:
    """An epoch against facts, against entities, and with the most of both; or, with ``only_most``, that alone.

    Each axis has the most, a tenth and a hundredth; meanwhile there are a hundredth of the entities, a tenth of the
    facts. Of the test part ``questions`` are ranked among all entities.
    """
    rows: list[dict[str, Any]] = []
    for axis, facts, entities in _sizes(most_facts, most_entities, only_most):
        logger.info(f"{facts:,} facts, {entities:,} entities")
        given: dict[str, Any] = {"facts": facts, "entities": entities, "at_once": at_once, "steps": steps}
        given |= {"questions": questions}
        given |= {"model": model, "settings": list(settings), "seed": seed, "device": device.type}
        done = next((row for row in rows if (row["facts"], row["entities"]) == (facts, entities)), None)
        if done is None:
            found, resident = alone("experiments.bench.grown:point", **given)
            found["resident_bytes"] = resident
        else:
            found = {key: value for key, value in done.items() if key != "axis"}
        rows.append({"axis": axis, **found})
    asked = {"model": model, "settings": list(settings), "at_once": at_once, "steps": steps, "questions": questions}
    asked |= {"dim": getattr(make_config(model, assignments=list(settings)).settings, "dim", 0)}
    return make_result("grown", asked, figures=slopes(rows), rows=rows, device=device)


def _sizes(facts: int, entities: int, only_most: bool) -> list[tuple[str, int, int]]:
    sizes = [] if only_most else [("facts", facts // by, entities // 100) for by in (100, 10, 1)]
    sizes += [] if only_most else [("entities", facts // 10, entities // by) for by in (100, 10, 1)]
    return [*sizes, ("both", facts, entities)]


def slopes(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Of each axis the power of its value that an epoch, a step and an evaluated question grow with.

    .. math:: \\log y = a + b \\log x, \\quad b \\text{ by least squares}
    """
    found = {}
    for axis in ("facts", "entities"):
        own = [row for row in rows if row["axis"] == axis]
        for name in ("epoch_seconds", "step_seconds", "question_seconds"):
            if len(own) > 1:
                x, y = (np.log([row[key] for row in own]) for key in (axis, name))
                found[f"{axis}_{name.removesuffix('_seconds')}_slope"] = float(np.polyfit(x, y, 1)[0])
    return found


def point(
    facts: int,
    entities: int,
    at_once: int,
    steps: int,
    questions: int,
    model: str,
    settings: Sequence[str],
    seed: int,
    device: str,
) -> dict[str, Any]:
    """One size: plain values, since it runs in a process of its own."""
    dataset = grow_world(entities, facts, at_once, seed)
    config = resolve(make_config(model, assignments=[*settings, f"device={device}"], seed=seed), dataset)
    start = _clock(CPU)
    run = Epochs(dataset, config)
    row: dict[str, Any] = {"facts": sum(map(len, dataset.parts.values())), "entities": entities}
    row |= {"build_seconds": _clock(run.device) - start, "snapshots": len(run.session.material.train)}
    size = config.train.batch_windows
    row |= {"batch_windows": size, "steps": math.ceil(len(run.targets) / size)}
    need, free = sum(needed_bytes(run.session.plain, run.session.material.train, config.train)), free_bytes(run.device)
    if free is not None and need > free:
        raise TrainingError(f"{facts:,} facts, {entities:,} entities need {need:,} bytes; {free:,} are free.")
    with peak_memory(run.device) as peak:
        for _ in range(warm_rounds(run.device)):
            run.seconds(run.draw(size))
        times = Times.of([_step_seconds(run, size) for _ in range(steps)])
    row |= times.to_dict("step_seconds") | {"measured_steps": min(steps, row["steps"])}
    row |= {"epoch_seconds": times.median * row["steps"], "peak_bytes": _whole_peak(run, peak.bytes)}
    parts = _parts(run, size, steps)
    row |= {"dominates": max(parts, key=lambda name: parts[name])} | {f"{k}_seconds": v for k, v in parts.items()}
    return row | _evaluate(run, dataset, questions)


def _clock(device: torch.device) -> float:
    """Seconds: of a GPU when it has done all it was given, of a CPU those that this process had it."""
    return now(device) if device.type == "cuda" else time.process_time()


def _step_seconds(run: Epochs, size: int) -> float:
    target = run.draw(size)
    start = _clock(run.device)
    run.seconds(target)
    return _clock(run.device) - start


def _whole_peak(run: Epochs, above: int | None) -> int | None:
    """On a GPU all memory of the steps, weights and moments included; elsewhere what the steps took on top."""
    return torch.cuda.max_memory_allocated(run.device) if run.device.type == "cuda" else above


def _parts(run: Epochs, size: int, steps: int) -> dict[str, float]:
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
    medians = {name: Times.of(watch.times[name]).median for name in PARTS}
    return medians | {"scores": max(0.0, medians["scores"] - medians["states"])}


def _evaluate(run: Epochs, dataset: Dataset, questions: int) -> dict[str, Any]:
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
    _check(run, exam, metrics.ranks["raw"].realistic)
    row = {"questions": len(exam), "evaluate_seconds": seconds, "question_seconds": seconds / len(exam)}
    return row | {"evaluate_peak_bytes": peak.bytes, "mrr": metrics["time-aware"].mrr}


def _check(run: Epochs, exam: Exam, ranks: torch.Tensor) -> None:
    """An error if a raw rank is not the number of larger scores, counted one by one, up to rounding."""
    model = run.session.plain
    stop = min(CHECKED, int(exam.border[1]))
    with answering(model):
        encoded = model.encode(exam.timeline, exam.windows.select(slice(0, 1)))
        scores = model.score(encoded, exam.part(0, stop, slice(0, 1))).double().cpu()
    for row, answer in enumerate(exam.queries.answer[:stop].tolist()):
        true = float(scores[row, answer])
        room = ROUNDING * (1 + abs(true))
        least, most = (1 + int((scores[row] > bound).sum()) for bound in (true + room, true - room))
        if not least <= float(ranks[row]) <= most:
            raise TrainingError(f"evaluation: rank {float(ranks[row])}; counted {least} to {most}.")
