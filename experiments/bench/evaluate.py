"""Queries ranked a second: a part of a set under all filters, from the first fact to the metrics."""

from __future__ import annotations

import torch

from experiments.bench.form import Measured, interleaved, logger, peak_memory
from experiments.bench.material import WORLD, read_set, usual_config
from tangokg.errors import ConfigError
from tangokg.quads.values import concatenate
from tangokg.rank import FILTERS, evaluate, examine, prepare
from tangokg.snapshots.timeline import build_timeline
from tangokg.train import build_model
from tangokg.train.memory import keep_freed_memory

SPLITS = ("valid", "test")


def measure(
    *,
    data: str = WORLD,
    model: str | None = None,
    settings: tuple[str, ...] = (),
    split: str = "test",
    repeats: int = 3,
    device: torch.device,
) -> Measured:
    """Seconds of an evaluation of ``split`` with first weights: whole, and with what data alone say prepared."""
    if split not in SPLITS:
        raise ConfigError(f"bench evaluate: unknown split {split!r}; choose one of {', '.join(SPLITS)}.")
    logger.info(f"{data}: setting up")
    keep_freed_memory()
    config = usual_config(data, model, settings, device)
    torch.backends.cuda.matmul.allow_tf32 = config.train.precision == "tf32"  # products as precise as in training
    dataset = read_set(data)
    before = dataset.past if split == "valid" else concatenate([dataset.past, dataset.valid])
    first, train = len(build_timeline(before)), build_timeline(dataset.train)
    timeline = build_timeline(concatenate([before, getattr(dataset, split)])).to(device)
    target = torch.arange(first, len(timeline))
    scorer = build_model(config, train).to(device)
    scorer.settle(train.to(device))
    exam = prepare(timeline, target)

    tasks = {"everything": lambda: evaluate(scorer, timeline, target), "prepared": lambda: examine(scorer, exam)}
    with peak_memory(device) as peak:
        times = interleaved(tasks, repeats, device, warm=2 if device.type == "cuda" else 0)
    rows = [
        {"what": name, "queries": len(exam)} | seconds.to_dict() | {"queries_a_second": len(exam) / seconds.median}
        for name, seconds in times.items()
    ]
    total = times["everything"].median
    figures = {
        "queries": len(exam),
        "seconds": total,
        "peak_bytes": peak.bytes,
        "queries_a_second": len(exam) / total,
    }
    about = {"model": config.model, "entities": timeline.num_entities, "precision": config.train.precision}
    return Measured(figures, rows, about | {"filters": list(FILTERS)})
