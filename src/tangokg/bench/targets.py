"""What the project set itself to reach, beside what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tangokg.bench.shown import cell

Result = Mapping[str, Any]


@dataclass(frozen=True)
class Target:
    """A figure of a benchmark and its bound; of several results that match, the best one counts."""

    text: str
    benchmark: str
    figures: tuple[str, ...]  # each has to keep the bound
    bound: float
    kind: str  # cuda or cpu
    asked: Mapping[str, Any] = field(default_factory=dict)
    at_least: bool = False

    def matching(self, results: Sequence[Result]) -> list[Result]:
        return [
            result
            for result in results
            if (result["benchmark"], result["kind"]) == (self.benchmark, self.kind)
            and ("H200" in result["device"] if self.kind == "cuda" else result["threads"] == 2)
            and all(result["asked"].get(key, value) == value for key, value in self.asked.items())
            and all(result["figures"].get(name) is not None for name in self.figures)
        ]

    def worst(self, result: Result) -> float:
        values = [float(result["figures"][name]) for name in self.figures]
        return min(values) if self.at_least else max(values)

    def row(self, results: Sequence[Result]) -> list[str]:
        """Target, bound, measured, and whether it is met."""
        sign = "at least" if self.at_least else "at most"
        bound = f"{sign} {cell(self.figures[0], self.bound)}"
        found = self.matching(results)
        if not found:
            return [self.text, bound, "not measured", ""]
        best = (max if self.at_least else min)(found, key=self.worst)
        measured = ", ".join(cell(name, best["figures"][name]) for name in self.figures)
        if high := best["figures"].get(f"{self.figures[0]}_high"):
            low = best["figures"][f"{self.figures[0]}_low"]
            measured += f", half of them {cell(self.figures[0], low)} to {cell(self.figures[0], high)}"
        if "batch_windows" in best["asked"]:
            measured += f" ({_how(best['asked'])})"
        met = self.worst(best) >= self.bound if self.at_least else self.worst(best) <= self.bound
        return [self.text, bound, measured, "met" if met else "**missed**"]


def _how(asked: Mapping[str, Any]) -> str:
    """What of the training settings bears on speed; an epoch that was not run whole is told."""
    part = f", from {asked['snapshots']} snapshots" if asked.get("snapshots") else ""
    windows = asked["batch_windows"]
    return f"{windows} window{'' if windows == 1 else 's'} a step, {asked['precision']}{part}"


def _size(dim: int = 200, layers: int = 2) -> dict[str, Any]:
    return {"dim": dim, "layers": layers, "history": 4, "transition": 1.0, "solver": "rk4"}


def _epoch(data: str, model: str, bound: float, kind: str = "cuda", dim: int = 200, layers: int = 2) -> Target:
    text = f"an epoch of {data}, {model} ({dim}, {layers} layers)"
    asked = {"data": data, "model": model} | _size(dim, layers)
    return Target(text, "step", ("epoch_seconds",), bound, kind, asked)


def _observed(data: str, factor: int) -> list[Target]:
    """Bounds for new facts, ``factor`` times those of ICEWS18."""
    bounds = {"observe": ("ten new facts", 0.02), "first": ("the first forecast after them", 0.2)}
    bounds |= {"further": ("a further forecast", 0.05)}
    asked = {"data": data, "model": "tango", "new": 10}
    return [
        Target(f"{what}, {data}", "observe", (f"{part}_seconds",), factor * bound, "cpu", asked)
        for part, (what, bound) in bounds.items()
    ]


_FACTS = {"facts": 15_000_000}

TARGETS = (
    _epoch("ICEWS18", "tango-tucker", 1.2),
    _epoch("ICEWS05-15", "tango-tucker", 1.5),
    _epoch("WIKI", "tango-distmult", 1.0),
    _epoch("YAGO", "tango-distmult", 0.8, dim=300, layers=3),
    Target(
        "the test part of ICEWS18 evaluated, three filters",
        "evaluate",
        ("seconds",),
        0.5,
        "cuda",
        {"data": "ICEWS18", "model": "tango-tucker", "split": "test"},
    ),
    Target(
        "a training step on ICEWS18 beside its floor",
        "step",
        ("ratio",),
        1.25,
        "cpu",
        {"data": "ICEWS18", "model": "tango-tucker"} | _size(),
    ),
    _epoch("ICEWS18", "tango-tucker", 250.0, "cpu"),
    Target(
        "the dense twin beside the encoder, ICEWS18",
        "twin",
        ("ratio",),
        6.0,
        "cpu",
        {"data": "ICEWS18", "windows": 1} | _size(),
        at_least=True,
    ),
    Target(
        "the encoder with 10⁶ entities beside 10⁴, forward and backward",
        "growth",
        ("entities_forward_ratio", "entities_backward_ratio"),
        1.3,
        "cpu",
    ),
    Target("15 million facts with integer ids read into snapshots", "load", ("seconds",), 30.0, "cpu", _FACTS),
    Target("peak memory of that", "load", ("peak_bytes",), 6e9, "cpu", _FACTS),
    *_observed("ICEWS18", 1),
    *_observed("retrosheet", 2),
)
