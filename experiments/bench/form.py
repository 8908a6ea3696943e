"""What a benchmark gives: plain values with its parameters, where it ran and with which versions; and how one measures.

A benchmark is a function ``measure(*, ..., device) -> Measured`` with a default for every parameter but the device.
Seconds are seconds, memory is bytes; a table is a list of rows with the same keys.
"""

from __future__ import annotations

import ctypes
import logging
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch

import tangokg
from experiments.store import read_json, write_json
from tangokg.errors import DataError
from tangokg.train.devices import name_of
from tangokg.train.provenance import commit

T = TypeVar("T")
logger = logging.getLogger("experiments")  # receives what is being measured

SCHEMA = 1
KEYS = ("schema", "benchmark", "asked", "figures", "rows", "kind", "device", "threads", "versions", "commit", "date")

# What a result is


class Measured(NamedTuple):
    """What ``measure`` returns."""

    figures: dict[str, Any]  # the few numbers that answer the question
    rows: list[dict[str, Any]]  # the table
    about: dict[str, Any]  # what was measured, beside the parameters


def make_result(
    benchmark: str, parameters: Mapping[str, Any], measured: Measured, device: torch.device
) -> dict[str, Any]:
    """A result with where it was measured; ``asked`` are the parameters and what was measured."""
    versions = {"python": platform.python_version(), "torch": str(torch.__version__), "tangokg": tangokg.__version__}
    return {
        "schema": SCHEMA,
        "benchmark": benchmark,
        "asked": {**parameters, **measured.about},
        "figures": measured.figures,
        "rows": measured.rows,
        "kind": device.type,
        "device": name_of(device),
        "threads": torch.get_num_threads(),
        "versions": versions,
        "commit": commit(),
        "date": datetime.now(UTC).date().isoformat(),
    }


def write(result: Mapping[str, Any], path: Path) -> None:
    """A result as JSON, numbers to six significant digits."""
    write_json(path, result, lambda number: float(f"{number:.6g}"))


def read(path: Path) -> dict[str, Any]:
    """A result from JSON; another file is an error that says so."""
    result = read_json(path)
    if result.get("schema") != SCHEMA or any(key not in result for key in KEYS):
        raise DataError(f"{path}: expected a result of schema {SCHEMA} with {', '.join(KEYS)}. Measure it again.")
    return result


# Time


def now(device: torch.device) -> float:
    """Seconds of a clock, read after all work of the device is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


class Stopwatch:
    """Adds up the time between two readings by name, including the work of the device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.times: dict[str, list[float]] = {}
        self.last = now(device)

    def look(self, name: str | None = None) -> None:
        """Add the time since the last reading to ``name``; without a name it is dropped."""
        moment = now(self.device)
        if name is not None:
            self.times.setdefault(name, []).append(moment - self.last)
        self.last = moment


@dataclass(frozen=True)
class Times:
    """Repeated measurements in seconds: the median, and the quartiles around it."""

    median: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Times:
        quartiles = statistics.quantiles(seconds, n=4, method="inclusive") if len(seconds) > 1 else [seconds[0]] * 3
        low, median, high = quartiles
        return cls(median, low, high, len(seconds))

    def to_dict(self, name: str = "seconds") -> dict[str, float]:
        """``name``, ``name_low``, ``name_high``."""
        return {name: self.median, f"{name}_low": self.low, f"{name}_high": self.high}


def warm_rounds(device: torch.device) -> int:
    """Rounds that do not count: on a GPU kernels are compiled and steps captured in the first few."""
    return 5 if device.type == "cuda" else 1


def interleaved(
    tasks: Mapping[str, Callable[[], Any]], repeats: int, device: torch.device, warm: int | None = None
) -> dict[str, Times]:
    """Run each task once per round, so that load on the machine affects all equally; ``warm`` rounds first."""
    watch = Stopwatch(device)
    warm = warm_rounds(device) if warm is None else warm
    for number in range(warm + repeats):
        for name, task in tasks.items():
            watch.look()
            task()
            watch.look(name if number >= warm else None)
    return {name: Times.of(seconds) for name, seconds in watch.times.items()}


# Memory


class Peak:
    """Peak memory of a section in bytes, above what was in use when it began; see :func:`peak_memory`."""

    bytes: int | None = None


@contextmanager
def peak_memory(device: torch.device) -> Iterator[Peak]:
    """On a GPU what torch allocated; on Linux the resident set; elsewhere None. Read it after the section."""
    peak = Peak()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        yield peak
        torch.cuda.synchronize(device)
        peak.bytes = torch.cuda.max_memory_allocated(device) - before
        return
    start = None
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # what an earlier section freed does not hide what this one takes
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the kernel forgets the largest resident set so far
        start = status_bytes("VmRSS")
    yield peak
    if start is not None:
        peak.bytes = max(0, (status_bytes("VmHWM") or 0) - start)


def status_bytes(name: str, process: int | str = "self") -> int | None:
    """A row of ``/proc/PROCESS/status`` in bytes; None if the system lacks it."""
    with suppress(OSError, StopIteration):
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))
    return None


def alone(function: Callable[..., T], **options: Any) -> tuple[T, int]:
    """A function called in a fresh process: what it returns, and the peak resident bytes of the process."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        try:
            return pool.submit(_with_peak, function, options).result()
        except BrokenProcessPool as error:
            raise DataError(f"{function.__name__}: its process was killed, most often for memory.") from error


def _with_peak(function: Callable[..., T], options: Mapping[str, Any]) -> tuple[T, int]:
    return function(**options), _largest_resident()


def _largest_resident() -> int:
    """Peak resident bytes of this process; ``ru_maxrss`` counts the process that started it too, on Linux."""
    if (peak := status_bytes("VmHWM")) is not None:
        return peak
    import resource  # not on every system

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
