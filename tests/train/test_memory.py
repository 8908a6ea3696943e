"""What a run will need is told before it starts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from conftest import N, make_timeline
from tangokg.cli import _out_of_memory
from tangokg.errors import MemoryShort, TrainingError
from tangokg.models.counters import Frequency
from tangokg.models.tango import Tango, TangoSettings
from tangokg.quads import find
from tangokg.snapshots.timeline import Timeline, build_timeline
from tangokg.snapshots.windows import queries_at, windows_at
from tangokg.train import TrainSettings, make_config, memory
from tangokg.train.material import build_model
from tangokg.train.memory import (
    check_memory,
    free_bytes,
    give_memory_back,
    keep_freed_memory,
    needed_bytes,
)

WORLD = find("world")
CPU = torch.device("cpu")


def small_model(timeline: Timeline) -> Tango:
    return Tango(TangoSettings(decoder="distmult", dim=4), timeline, torch.Generator())


def test_the_need_is_weights_and_the_scores_of_the_largest_step() -> None:
    timeline = make_timeline()
    model = small_model(timeline)
    weights = 4 * sum(p.numel() for p in model.parameters())
    sizes = sorted(timeline.offset.diff().tolist(), reverse=True)
    for windows in (1, 2, 100):
        need = sum(needed_bytes(model, timeline, TrainSettings(batch_windows=windows)))
        assert need >= 5 * weights + 2 * 4 * sum(sizes[:windows]) * N
    two = TrainSettings(batch_windows=2)
    assert sum(needed_bytes(model.double(), timeline, two)) > sum(needed_bytes(model.float(), timeline, two))


def test_scores_in_parts_need_no_more_than_their_memory_or_one_question() -> None:
    timeline = make_timeline()
    model = small_model(timeline)
    weights, one = 5 * 4 * sum(p.numel() for p in model.parameters()), 2 * 4 * N
    for room, scores in ((1, one), (3 * one, 3 * one), (2**30, one * int(timeline.offset.diff().max()))):
        settings = TrainSettings(batch_windows=1, score_memory=room / 2**30)
        needed = needed_bytes(model, timeline, settings)
        assert (needed.weights, needed.scores) == (weights, scores)


def test_processes_divide_what_is_needed() -> None:
    timeline, three = make_timeline(), TrainSettings(batch_windows=3)
    model = small_model(timeline)
    one, windows = needed_bytes(model, timeline, three), needed_bytes(model, timeline, three, processes=2)
    entities = needed_bytes(model, timeline, replace(three, shard_entities=True), processes=2)
    assert windows.weights == one.weights > entities.weights
    assert one.scores > windows.scores > one.scores / 2.2 < entities.scores < one.scores
    assert one.questions == entities.questions > windows.questions


def in_memory(value: Any, seen: dict[int, int]) -> dict[int, int]:
    """Bytes of all tensors and arrays in a value, by their place."""
    if isinstance(value, torch.Tensor):
        seen[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
    elif isinstance(value, np.ndarray):
        seen[id(value)] = value.nbytes
    elif isinstance(value, list | tuple | dict) or hasattr(value, "__dict__"):
        inner = value if isinstance(value, list | tuple) else value if isinstance(value, dict) else vars(value)
        for one in inner.values() if isinstance(inner, dict) else inner:
            in_memory(one, seen)
    return seen


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("tango", ["decoder=distmult"]),
        ("tango", ["hops=2", "runs=true", "width=16"]),
        ("tango", ["ode=true", "subject=false"]),
        ("tango-tucker", []),
        ("tango-distmult", []),
    ],
)
def test_the_estimate_is_about_what_a_step_holds(name: str, settings: list[str]) -> None:
    """Neither too little, so that a run that is let through fits, nor many times as much."""
    config = make_config(name, assignments=["dim=32", "device=cpu", *settings])
    timeline = build_timeline(WORLD.train)
    model = build_model(config, timeline)
    model.settle(timeline)
    model.train()
    target = torch.arange(len(timeline) - 3, len(timeline))
    queries = queries_at(timeline, target)
    before, weights = in_memory(timeline, {}), {p.untyped_storage().data_ptr() for p in model.parameters()}
    saved: dict[int, int] = {}

    def keep(x: torch.Tensor) -> torch.Tensor:
        in_memory(x, saved)
        return x

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        model(timeline, windows_at(timeline, target), queries, torch.Generator().manual_seed(0))
    history = {place: size for place, size in in_memory(timeline, {}).items() if place not in before}
    held = model.held(timeline)
    assert sum(history.values()) < held.edge * len(timeline.s) < 8 * sum(history.values())
    step = sum(size for place, size in saved.items() if place not in {*before, *history, *weights})
    assert step < (held.scores + held.question) * len(queries) < 8 * step


def test_a_run_that_fits_passes_and_one_byte_less_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    timeline = make_timeline()
    three, drawn = TrainSettings(batch_windows=3, score_memory=2.0), TrainSettings(batch_queries=64)
    tango, other = small_model(timeline), build_model(make_config("distmult", assignments=["dim=4"]), timeline)
    for model in (tango, other):
        need = sum(needed_bytes(model, timeline, three))
        monkeypatch.setattr(memory, "free_bytes", lambda device, need=need: need)
        check_memory(model, timeline, three, CPU)
        monkeypatch.setattr(memory, "free_bytes", lambda device, need=need: need - 1)
        changes = "score_memory=.*, now 2" if model is tango else "batch_windows=1, now 3"
        with pytest.raises(MemoryShort, match=rf"--set {changes}.*--set dim"):
            check_memory(model, timeline, three, CPU)
    with pytest.raises(MemoryShort, match=r"--set batch_queries=16, now 64.*--set dim"):
        check_memory(other, timeline, drawn, CPU)
    monkeypatch.setattr(memory, "free_bytes", lambda device: 10)
    with pytest.raises(MemoryShort, match=r"Take a smaller state"):  # the weights alone do not fit
        check_memory(tango, timeline, three, CPU)
    monkeypatch.setattr(memory, "free_bytes", lambda device: None)
    check_memory(tango, timeline, three, CPU)


def test_a_model_without_weights_needs_no_more_than_its_scores() -> None:
    timeline = make_timeline()
    one = TrainSettings(batch_windows=1)
    assert needed_bytes(Frequency(), timeline, one)[1] == 2 * 4 * int(timeline.offset.diff().max()) * N


def test_free_memory_is_a_number_or_unknown() -> None:
    free = free_bytes(CPU)
    assert free is None or free > 2**20
    assert free_bytes(torch.device("meta")) is None
    keep_freed_memory()
    assert torch.ones(1000).sum() == 1000


@pytest.mark.parametrize(("free", "given"), [(0.9, False), (0.1, True), (None, False)])
def test_kept_memory_is_given_back_where_little_is_left(
    free: float | None, given: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    trimmed: list[int] = []

    class System:
        def malloc_trim(self, pad: int) -> int:
            trimmed.append(pad)
            return 1

    rows = {"MemTotal": 1000, "MemAvailable": None if free is None else int(1000 * free)}
    monkeypatch.setattr(memory, "_meminfo", rows.get)
    monkeypatch.setattr("ctypes.CDLL", lambda name: System())
    assert give_memory_back(CPU) == given == bool(trimmed)
    assert not give_memory_back(torch.device("meta"))


def test_what_says_that_memory_ran_out() -> None:
    texts = ("CUDA error: out of memory", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")
    with pytest.raises(RuntimeError) as too_much:
        torch.empty(2**50, dtype=torch.float64)
    short = [too_much.value, MemoryError(), torch.OutOfMemoryError("CUDA out of memory"), *map(RuntimeError, texts)]
    assert all(map(_out_of_memory, short))
    assert not any(map(_out_of_memory, [TrainingError("out of memory"), RuntimeError("no luck"), ValueError()]))
