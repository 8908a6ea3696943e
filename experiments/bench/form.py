"""What a benchmark gives: plain values with what was asked, where it ran and with which versions; and how one measures.

A benchmark is a function ``measure(*, ..., device) -> dict`` with a default for every parameter; what it returns is
made by :func:`make_result`. Seconds are seconds, memory is bytes; a table is a list of rows with the same keys.
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from tangokg.errors import DataError
from tangokg.train.devices import name_of
from tangokg.train.provenance import commit

logger = logging.getLogger("experiments")  # hears what is being measured

SCHEMA = 1
KEYS = ("schema", "benchmark", "asked", "figures", "rows", "kind", "device", "threads", "versions", "commit", "date")

# What a result is


def make_result(
    benchmark: str,
    asked: Mapping[str, Any],
    *,
    figures: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    device: torch.device,
) -> dict[str, Any]:
    """``asked`` are the parameters, ``figures`` the few numbers that answer the question, ``rows`` the table."""
    return {
        "schema": SCHEMA,
        "benchmark": benchmark,
        "asked": dict(asked),
        "figures": dict(figures),
        "rows": [dict(row) for row in rows],
        "kind": device.type,
        "device": name_of(device),
        "threads": torch.get_num_threads(),
        "versions": {
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "tangokg": import_module("tangokg").__version__,
        },
        "commit": commit(),
        "date": datetime.now(UTC).date().isoformat(),
    }


def write(result: Mapping[str, Any], path: Path) -> None:
    """A result as JSON, numbers to six digits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(_rounded(result), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def read(path: Path) -> dict[str, Any]:
    """A result from JSON; another file is an error that says so."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: not the result of a benchmark: {error}.") from None
    if not isinstance(result, dict) or result.get("schema") != SCHEMA or any(key not in result for key in KEYS):
        raise DataError(f"{path}: expected a result of schema {SCHEMA} with {', '.join(KEYS)}. Measure it again.")
    return result


# Time


def now(device: torch.device) -> float:
    """Seconds of a clock, read when the device has done all it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


class Stopwatch:
    """Adds up by name what passes between two looks, the device's work included."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.times: dict[str, list[float]] = {}
        self.last = now(device)

    def look(self, name: str | None = None) -> None:
        """What passed since the last look belongs to ``name``; without one it is left out."""
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
        low, _, high = statistics.quantiles(seconds, n=4, method="inclusive") if len(seconds) > 1 else [seconds[0]] * 3
        return cls(statistics.median(seconds), low, high, len(seconds))

    def to_dict(self, name: str = "seconds") -> dict[str, float]:
        """``name``, ``name_low``, ``name_high``."""
        return {name: self.median, f"{name}_low": self.low, f"{name}_high": self.high}


def warm_rounds(device: torch.device) -> int:
    """Rounds that do not count: on a GPU kernels are compiled and steps captured in the first few."""
    return 5 if device.type == "cuda" else 1


def interleaved(
    tasks: Mapping[str, Callable[[], Any]], repeats: int, device: torch.device, warm: int | None = None
) -> dict[str, Times]:
    """Each task once in every round, so that a busy moment of the machine hits all alike; ``warm`` rounds first."""
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
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # what an earlier section freed does not hide what this one takes
    start = _reset_resident_peak()
    yield peak
    if start is not None:
        peak.bytes = max(0, _status("VmHWM") - start)


def _reset_resident_peak() -> int | None:
    """Let the kernel forget the largest resident set so far; the present one in bytes, None where it cannot."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
        return _status("VmRSS")
    except (OSError, StopIteration):
        return None


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def alone(function: str, **asked: Any) -> tuple[Any, int]:
    """``module:function`` called in a fresh interpreter: what it returns (plain values), its peak resident bytes."""
    command = [sys.executable, "-c", "from experiments.bench.form import _answer; _answer()"]
    done = subprocess.run(
        command,
        input=json.dumps([function, asked]),
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise DataError(f"{function}: ended with status {done.returncode}; see its messages above.")
    value, peak = json.loads(done.stdout.splitlines()[-1])
    return value, peak


def _answer() -> None:
    """The other side of :func:`alone`."""
    function, asked = json.loads(sys.stdin.read())
    module, _, name = function.partition(":")
    value = getattr(import_module(module), name)(**asked)
    peak = _largest_resident()
    sys.stdout.write(json.dumps([value, peak]) + "\n")


def _largest_resident() -> int:
    """Peak resident bytes of this process; ``ru_maxrss`` counts the process that started it too, on Linux."""
    with suppress(OSError, StopIteration):
        return _status("VmHWM")
    import resource  # not on every system

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
