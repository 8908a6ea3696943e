"""How fast it is: one module for each question, each with a function ``measure``.

A new benchmark is one file, one line here, and a table in ``page.py``.
"""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any, get_type_hints

from experiments.bench import evaluate, gradients, grown, growth, load, observe, serve, step, twin

BENCHMARKS: dict[str, ModuleType] = {
    "step": step,
    "twin": twin,
    "growth": growth,
    "grown": grown,
    "gradients": gradients,
    "evaluate": evaluate,
    "load": load,
    "observe": observe,
    "serve": serve,
}


def parameters(name: str) -> dict[str, tuple[Any, Any]]:
    """Name -> (type, default) of everything that a benchmark can be asked, the device left out."""
    measure = BENCHMARKS[name].measure
    hints = get_type_hints(measure)
    return {
        p.name: (hints[p.name], p.default) for p in inspect.signature(measure).parameters.values() if p.name != "device"
    }
