"""What the project aims at (``targets.toml``), beside what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.bench.shown import cell
from tangokg.config import read_toml

Result = Mapping[str, Any]


@dataclass(frozen=True)
class Target:
    """Figures of a benchmark, each of which has to keep the bound: ``at_most`` or ``at_least``."""

    text: str
    benchmark: str
    figures: list[str]
    kind: str  # cuda or cpu
    at_most: float | None = None
    at_least: float | None = None
    asked: Mapping[str, Any] = field(default_factory=dict)

    def matching(self, results: Sequence[Result]) -> list[Result]:
        """The results that measured what the target is about, on its device."""
        return [
            result
            for result in results
            if (result["benchmark"], result["kind"]) == (self.benchmark, self.kind)
            and ("H200" in result["device"] if self.kind == "cuda" else result["threads"] == 2)
            and all(result["asked"].get(key, value) == value for key, value in self.asked.items())
            and all(result["figures"].get(name) is not None for name in self.figures)
        ]

    def row(self, results: Sequence[Result]) -> list[str]:
        """Target, bound, measured, and whether it is met."""
        bound, worst, best = (self.at_most, max, min) if self.at_least is None else (self.at_least, min, max)
        assert bound is not None
        shown = f"{'at most' if self.at_least is None else 'at least'} {cell(self.figures[0], bound)}"
        results = self.matching(results)
        if not results:
            return [self.text, shown, "not measured", ""]

        def worst_figure(result: Result) -> float:
            return worst(float(result["figures"][name]) for name in self.figures)

        chosen = best(results, key=worst_figure)
        measured = worst_figure(chosen)
        met = measured <= bound if self.at_least is None else measured >= bound
        return [self.text, shown, self._shown(chosen), "met" if met else "**missed**"]

    def _shown(self, result: Result) -> str:
        """The figures with their quartiles, and what of the training settings bears on speed."""
        figures, asked, name = result["figures"], result["asked"], self.figures[0]
        text = ", ".join(cell(name, figures[name]) for name in self.figures)
        if high := figures.get(f"{name}_high"):
            text += f", half of them {cell(name, figures[f'{name}_low'])} to {cell(name, high)}"
        if windows := asked.get("batch_windows"):
            part = f", from {asked['snapshots']} snapshots" if asked.get("snapshots") else ""
            text += f" ({windows} window{'s' * (windows > 1)} a step, {asked['precision']}{part})"
        return text


def targets() -> list[Target]:
    """All targets."""
    return [Target(**entry) for entry in read_toml(Path(__file__).parent / "targets.toml")["target"]]
