"""What a run will need is told before it starts."""

from __future__ import annotations

import pytest
import torch

from conftest import N, make_timeline
from tangokg.cli import _out_of_memory
from tangokg.errors import MemoryShort, TrainingError
from tangokg.models.counters import Frequency
from tangokg.models.tango import Tango, TangoSettings
from tangokg.train import memory
from tangokg.train.memory import (
    check_memory,
    free_bytes,
    give_memory_back,
    keep_freed_memory,
    needed_bytes,
)

CPU = torch.device("cpu")


def test_the_need_is_weights_and_the_scores_of_the_largest_step() -> None:
    timeline = make_timeline()
    model = Tango(TangoSettings(decoder="distmult", dim=4), timeline, torch.Generator())
    weights = 4 * sum(p.numel() for p in model.parameters())
    sizes = sorted(timeline.offset.diff().tolist(), reverse=True)
    for windows in (1, 2, 100):
        assert needed_bytes(model, timeline, windows) >= 5 * weights + 2 * 4 * sum(sizes[:windows]) * N
    assert needed_bytes(model.double(), timeline, 2) > needed_bytes(model.float(), timeline, 2)


def test_a_run_that_fits_passes_and_one_byte_less_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    timeline = make_timeline()
    model = Tango(TangoSettings(decoder="distmult", dim=4), timeline, torch.Generator())
    need = needed_bytes(model, timeline, 3)
    monkeypatch.setattr(memory, "free_bytes", lambda device: need)
    check_memory(model, timeline, 3, CPU)
    monkeypatch.setattr(memory, "free_bytes", lambda device: need - 1)
    with pytest.raises(MemoryShort, match=r"--set batch_windows=1, now 3.*--set dim"):
        check_memory(model, timeline, 3, CPU)
    with pytest.raises(MemoryShort, match=r"--set batch_queries=16, now 64.*--set dim"):
        check_memory(model, timeline, 3, CPU, batch_queries=64)
    monkeypatch.setattr(memory, "free_bytes", lambda device: None)
    check_memory(model, timeline, 3, CPU)


def test_a_model_without_weights_needs_no_more_than_its_scores() -> None:
    timeline = make_timeline()
    assert needed_bytes(Frequency(), timeline, 1) == 2 * 4 * int(timeline.offset.diff().max()) * N


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
