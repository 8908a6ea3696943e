"""Every argument of the public functions is checked by its type hint, and numbers by their range."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import tangokg as tk
from conftest import dated, make_dataset, make_forecaster
from tangokg.errors import ConfigError, TangoError, checked
from tangokg.rank import Metrics

DATA = dated(make_dataset(1))
TABLE = DATA.facts.to_pandas()
QUESTIONS = pd.DataFrame({"subject": ["e1"], "relation": ["r1"]})

# Function and the arguments that it needs
CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "fit": (tk.fit, {"data": DATA, "config": "recurrence"}),
    "load": (tk.load, {"path": "run"}),
    "compare": (tk.compare, {"data": DATA, "models": ["recurrence"]}),
    "tune": (tk.tune, {"data": DATA, "model": "tango", "trials": 1}),
    "read_events": (tk.read_events, {"source": TABLE}),
    "plot": (tk.plot, {"what": 5, "path": "x.svg"}),
    "split": (DATA.facts.split, {}),
    "forecast": (tk.Forecaster.forecast, {"subject": "e1", "relation": "r1"}),
    "forecast_table": (tk.Forecaster.forecast_table, {"queries": QUESTIONS}),
    "observe": (tk.Forecaster.observe, {"events": TABLE}),
    "evaluate": (tk.Forecaster.evaluate, {}),
    "calibration": (tk.Forecaster.calibration, {}),
    "save": (tk.Forecaster.save, {"path": "saved"}),
    "by_time": (Metrics.by_time, {"filter_name": "raw"}),
    "by_relation": (Metrics.by_relation, {"filter_name": "raw"}),
}
# Options that are passed on, which no signature shows
MORE = {
    "evaluate": ["cells", "windows_at_once", "progress", "candidates"],
    "observe": ["columns", "unit", "timezone", "date_format", "skip_bad", "relation", "overlap"],
    "tune": ["unit", "overlap", "skip_bad"],
    "compare": ["unit", "overlap", "skip_bad"],
}
FREE = {"self", "settings", "options", "what"}


def parameters() -> list[tuple[str, str]]:
    return [
        (name, parameter)
        for name, (function, _) in CALLS.items()
        for parameter in [*inspect.signature(function).parameters, *MORE.get(name, [])]
        if parameter not in FREE
    ]


def call(name: str, arguments: dict[str, Any]) -> Any:
    function, needed = CALLS[name]
    whose: list[Any] = []
    if "self" in inspect.signature(function).parameters:
        forecaster = make_forecaster("recurrence", DATA)
        whose = [forecaster.evaluate() if function in (Metrics.by_time, Metrics.by_relation) else forecaster]
    return function(*whose, **needed | arguments)


@pytest.mark.parametrize(("name", "parameter"), parameters())
def test_an_argument_of_another_type_is_our_error(
    name: str, parameter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if name == "tune":
        pytest.importorskip("optuna")
    for wrong in (object(), [object()], b"x", {"a": object()}):
        with pytest.raises(TangoError):
            call(name, {parameter: wrong})


# (function, argument, value): of a type that a neighbour takes, out of range, or with a meaning that is not there
NONSENSE: list[tuple[str, dict[str, Any]]] = [
    ("fit", {"stop": 5}),
    ("fit", {"reporter": 5}),
    ("fit", {"start_from": 5}),
    ("fit", {"seed": True}),
    ("fit", {"seed": -1}),
    ("fit", {"seed": 2**63}),
    ("fit", {"skip_bad": "no"}),
    ("fit", {"resume": "yes"}),
    ("fit", {"overwrite": 1}),
    ("fit", {"allow_seen": "no"}),
    ("fit", {"verbose": None}),
    ("fit", {"overlap": ""}),
    ("fit", {"config": ""}),
    ("fit", {"out": ""}),
    ("compare", {"out": 5}),
    ("compare", {"seed": -1}),
    ("compare", {"seed": None}),
    ("tune", {"study": ""}),
    ("tune", {"model": ""}),
    ("tune", {"workers": 0}),
    ("tune", {"trials": 0}),
    ("tune", {"budget": math.nan}),
    ("tune", {"budget": 0}),
    ("tune", {"pruner": 5}),
    ("read_events", {"overlap": "both"}),
    ("read_events", {"overlap": "later"}),
    ("read_events", {"skip_bad": 1}),
    ("read_events", {"timezone": ""}),
    ("observe", {"overlap": "later"}),
    ("forecast", {"top": True}),
    ("forecast_table", {"skip_bad": "no"}),
    ("evaluate", {"cells": "x"}),
    ("evaluate", {"cells": 0}),
    ("evaluate", {"progress": 5}),
    ("evaluate", {"candidates": 5}),
    ("evaluate", {"windows_at_once": 0}),
    ("calibration", {"recent": 0}),
    ("calibration", {"recent": -1}),
    ("calibration", {"recent": math.nan}),
    ("calibration", {"recent": math.inf}),
    ("calibration", {"horizon": -1}),
    ("calibration", {"horizon": math.nan}),
    ("calibration", {"horizon": True}),
    ("plot", {"clock": 5}),
    ("by_time", {"filter_name": [1]}),
    ("by_relation", {"direction": [1]}),
    ("forecast", {"colour": 5}),
    ("load", {"folder": "run"}),
]


@pytest.mark.parametrize(("name", "arguments"), NONSENSE, ids=str)
def test_nonsense_is_refused_by_name(
    name: str, arguments: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if name == "tune":
        pytest.importorskip("optuna")
    with pytest.raises(TangoError) as caught:
        call(name, arguments)
    key = next(iter(arguments))
    assert key in str(caught.value) or key in ("config", "model", "direction", "filter_name", "timezone")
    assert not list(tmp_path.iterdir()), "nothing is left behind"


def test_a_reporter_with_other_methods_is_refused() -> None:
    class Half:
        def step(self, *_: Any) -> None: ...

    with pytest.raises(ConfigError, match="reporter"):
        tk.fit(DATA, "recurrence", reporter=Half())  # type: ignore[arg-type]


def test_hints_of_all_kinds_are_understood() -> None:
    @checked
    def take(
        a: int, b: float | None = None, c: Mapping[str, int] | None = None, d: Callable[[], int] | None = None, **e: Any
    ) -> int:
        return a

    assert take(3, 2, {"x": 1}, lambda: 1, e=object()) == 3
    assert take(a=3, b=0.5) == 3
    wrong: list[dict[str, Any]] = [{"a": "3"}, {"a": True}, {"a": 3, "b": "2"}, {"a": 3, "c": [1]}, {"a": 3, "d": 5}]
    for arguments in [*wrong, {}]:
        with pytest.raises(ConfigError, match=r"take\(\): "):
            take(**arguments)
