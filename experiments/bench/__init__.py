"""Speed benchmarks: one module for each question, each with a function ``measure``.

A new benchmark is one file, one line here, and a table in ``page.py``.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import fields
from types import ModuleType
from typing import Any

import torch

from experiments.bench import evaluate, gradients, grown, growth, load, observe, serve, step, twin
from experiments.bench.form import make_result
from experiments.bench.material import USUAL_MODEL
from tangokg.config import parse_assignment, unknown_setting
from tangokg.errors import ConfigError
from tangokg.train import make_config

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


def parameters(name: str) -> dict[str, Any]:
    """The parameters of a benchmark with their defaults, without the device."""
    signature = inspect.signature(BENCHMARKS[name].measure).parameters.values()
    return {parameter.name: parameter.default for parameter in signature if parameter.name != "device"}


def read_options(name: str, assignments: Iterable[str]) -> dict[str, Any]:
    """``key=value`` texts as options of a benchmark: its parameters, and settings of model and training."""
    values = {text: parse_assignment(text) for text in assignments}
    known, options, further = parameters(name), dict[str, Any](), []
    model = dict(values.values()).get("model") or known.get("model") or USUAL_MODEL
    config = make_config(model)
    parts = (config.settings, config.train) if "settings" in known else ()
    settings = [field.name for part in parts for field in fields(part)]
    for text, (key, value) in values.items():
        if key in known and key != "settings":
            options[key] = _check_option(f"bench {name}: {key}", value, known[key])
        elif key.rpartition(".")[2] in settings:
            further.append(text)
        else:
            raise unknown_setting(f"bench {name}", key, [*known, *settings])
    return options | ({"settings": (*known["settings"], *further)} if further else {})


def _check_option(where: str, value: Any, default: Any) -> Any:
    """The value, if it has the type of the default; numbers are at least 1, or 0 where that is the default."""
    kind = str if default is None else type(default)
    least = min(1, default) if kind is int else None
    if type(value) is not kind or (least is not None and value < least):
        bound = "" if least is None else f", at least {least}"
        raise ConfigError(f"{where} must be {kind.__name__}{bound}, found {value!r}.")
    return value


def run_benchmark(name: str, device: torch.device, **options: Any) -> dict[str, Any]:
    """The result of a benchmark with its parameters; one that takes no device runs on the CPU alone."""
    measure = BENCHMARKS[name].measure
    chosen = parameters(name) | options
    if "device" not in inspect.signature(measure).parameters:
        return make_result(name, chosen, measure(**chosen), torch.device("cpu"))
    return make_result(name, chosen, measure(**chosen, device=device), device)
