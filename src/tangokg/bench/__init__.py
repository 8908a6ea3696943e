"""How fast it is: one module for each question, each with a function ``measure``; ``tango bench`` is their command.

A new benchmark is one file, one line here, and its section of :mod:`tangokg.bench.page`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, get_type_hints


@dataclass(frozen=True)
class Benchmark:
    """A question, and the module whose ``measure`` answers it; loaded when it is asked."""

    question: str
    module: str

    @property
    def measure(self) -> Callable[..., dict[str, Any]]:
        function: Callable[..., dict[str, Any]] = import_module(self.module).measure
        return function

    def parameters(self) -> dict[str, tuple[Any, Any]]:
        """Name -> (type, default) of everything that ``measure`` can be asked, the device and who listens left out."""
        function = self.measure
        hints = get_type_hints(function)
        found = inspect.signature(function).parameters.values()
        return {p.name: (hints[p.name], p.default) for p in found if p.name not in ("device", "tell")}


BENCHMARKS: dict[str, Benchmark] = {
    "step": Benchmark("what a training step and an epoch take, beside the scores alone", "tangokg.bench.step"),
    "twin": Benchmark("the encoder on touched rows against all rows, same result", "tangokg.bench.twin"),
    "growth": Benchmark("cost over the number of entities, history, dimension, events", "tangokg.bench.growth"),
    "gradients": Benchmark("direct, adjoint and irdm: time, memory, error", "tangokg.bench.gradients"),
    "evaluate": Benchmark("queries ranked a second, all filters", "tangokg.bench.ranking"),
    "load": Benchmark("facts read a second from text and Parquet, and put into snapshots", "tangokg.bench.load"),
    "observe": Benchmark("new facts taken in, and the forecasts after them", "tangokg.bench.observing"),
}

__all__ = ["BENCHMARKS", "Benchmark"]
