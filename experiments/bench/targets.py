"""The targets of the project (``targets.toml``), compared with measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.bench.shown import cell
from tangokg.config import read_toml

Result = Mapping[str, Any]
Target = Mapping[str, Any]  # figures of a benchmark, each of which has to keep the bound: at_most or at_least


def targets(kind: str) -> list[Target]:
    """All targets for a kind of device, cuda or cpu."""
    every: list[Target] = read_toml(Path(__file__).parent / "targets.toml")["target"]
    return [target for target in every if target["kind"] == kind]


def target_row(target: Target, results: Sequence[Result]) -> list[str]:
    """Target, bound, measured, and whether it is met."""
    names, least = target["figures"], "at_least" in target
    bound = target["at_least"] if least else target["at_most"]
    shown = f"{'at least' if least else 'at most'} {cell(names[0], bound)}"
    results = [result for result in results if _matches(target, result)]
    if not results:
        return [target["text"], shown, "not measured", ""]
    worst, best = (min, max) if least else (max, min)

    def worst_figure(result: Result) -> float:
        return worst(float(result["figures"][name]) for name in names)

    chosen = best(results, key=worst_figure)
    measured = worst_figure(chosen)
    met = measured >= bound if least else measured <= bound
    return [target["text"], shown, _figures(names, chosen), "met" if met else "**missed**"]


def _matches(target: Target, result: Result) -> bool:
    """Whether a result measured the quantity of the target, on its device."""
    return (
        (result["benchmark"], result["kind"]) == (target["benchmark"], target["kind"])
        and ("H200" in result["device"] if target["kind"] == "cuda" else result["threads"] == 2)
        and all(result["asked"].get(key, value) == value for key, value in target.get("asked", {}).items())
        and all(result["figures"].get(name) is not None for name in target["figures"])
    )


def _figures(names: Sequence[str], result: Result) -> str:
    """Figures with their quartiles, and what of the training settings bears on speed."""
    figures, parameters, name = result["figures"], result["asked"], names[0]
    text = ", ".join(cell(name, figures[name]) for name in names)
    if high := figures.get(f"{name}_high"):
        text += f", half of them {cell(name, figures[f'{name}_low'])} to {cell(name, high)}"
    if windows := parameters.get("batch_windows"):
        part = f", from {parameters['snapshots']} snapshots" if parameters.get("snapshots") else ""
        text += f" ({windows} window{'s' * (windows > 1)} a step, {parameters['precision']}{part})"
    return text
