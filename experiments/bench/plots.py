"""The figures of the page on speed, each from one or more results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from experiments.bench.step import PARTS

COLOURS = ("#0b5394", "#c27800", "#3d7a3d")  # of lines
Result = Mapping[str, Any]
SHADES = ("#9db8d2", "#0b5394", "#c27800", "#3d7a3d", "#8a3b8f")  # of the parts of a step
AXES = {
    "entities": "entities N",
    "history": "snapshots in a window, k",
    "dim": "dimension d",
    "facts": "facts at each time",
}
LINES = {"forward": "encoder, forward", "backward": "encoder, backward to the touched rows", "step": "whole step"}


def plot_step(path: Path, results: Sequence[Result]) -> None:
    """The parts of a step as shares of its floor, a bar for each set."""
    figure = Figure(figsize=(7.2, 1.3 + 0.55 * len(results)), dpi=150, layout="constrained")
    axes = figure.subplots()
    for place, result in enumerate(results):
        left = 0.0
        shares = {row["part"]: row["of_floor"] for row in result["rows"]}
        for part, colour in zip(PARTS, SHADES, strict=True):
            label = ("assembling windows" if part == "windows" else part) if place == 0 else None
            axes.barh(place, shares[part], left=left, color=colour, height=0.62, label=label)
            left += shares[part]
        axes.annotate(f" {left:.2f}", (left, place), va="center")
    axes.axvline(1.0, color="black", linewidth=1, linestyle="--", label="floor")
    axes.set_yticks(range(len(results)), [_step_label(result["asked"]) for result in results])
    axes.invert_yaxis()
    axes.margins(x=0.08)
    axes.set_xlabel("time of a step, its floor being 1")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3, axis="x")
    axes.set_axisbelow(True)
    figure.legend(frameon=False, ncols=3, loc="outside lower center", fontsize="small")
    _write(figure, path)


def _step_label(asked: Mapping[str, Any]) -> str:
    windows = asked["batch_windows"]
    precision = "" if asked["precision"] == "32-true" else f", {asked['precision']}"
    return f"{asked['data']}\n{windows} window{'' if windows == 1 else 's'} a step{precision}"


def plot_growth(path: Path, results: Sequence[Result]) -> None:
    """A panel for each axis: time over its value, both logarithmic."""
    result = results[0]
    names = list(dict.fromkeys(row["axis"] for row in result["rows"]))
    lines = -(-len(names) // 2)
    figure = Figure(figsize=(7.2, 2.7 * lines + 0.5), dpi=150, layout="constrained")
    panels = figure.subplots(lines, 2, squeeze=False, sharey=True).flatten()
    for axes, name in zip(panels, names, strict=False):
        rows = [row for row in result["rows"] if row["axis"] == name]
        for (part, label), colour in zip(LINES.items(), COLOURS, strict=False):
            measured = [row for row in rows if row.get(f"{part}_seconds") is not None]
            _line(axes, [row["value"] for row in measured], measured, f"{part}_seconds", 1e3, colour, label)
        _logarithmic(axes, AXES[name], "milliseconds" if axes in panels[::2] else "")
        _tick_at(axes, [row["value"] for row in rows])
    for axes in panels[len(names) :]:
        axes.set_visible(False)
    figure.legend(*panels[0].get_legend_handles_labels(), frameon=False, ncols=3, loc="outside lower center")
    _write(figure, path)


def plot_grown(path: Path, results: Sequence[Result]) -> None:
    """An epoch, and a thousand of its steps, over facts and over entities, with their slopes."""
    result = results[0]
    figure = Figure(figsize=(7.2, 3.6), dpi=150, layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    most = [row for row in result["rows"] if row["axis"] == "both"]
    lines = (("epoch", "epoch", 1), ("step", "1,000 steps", 1000))
    for axes, name in zip(panels, ("facts", "entities"), strict=True):
        rows = [row for row in result["rows"] if row["axis"] == name]
        slopes = []
        for (part, label, factor), colour in zip(lines, COLOURS, strict=False):
            key, slope = f"{part}_seconds", result["figures"].get(f"{name}_{part}_slope")
            axes.plot(
                [row[name] for row in rows], [factor * row[key] for row in rows], "o-", ms=4, color=colour, label=label
            )
            axes.plot([row[name] for row in most], [factor * row[key] for row in most], "*", ms=9, color=colour)
            slopes += [] if slope is None else [f"{part} {slope:.2f}"]
        axes.set_title(f"slope: {', '.join(slopes)}" if slopes else "", fontsize="medium", loc="left")
        _logarithmic(axes, name, "seconds" if name == "facts" else "")
        _tick_at(axes, [row[name] for row in rows] or [row[name] for row in most])
    handles, labels = panels[0].get_legend_handles_labels()
    handles += panels[0].plot([], [], "*", ms=9, color="grey")
    figure.legend(handles, [*labels, "most of both"], frameon=False, ncols=3, loc="outside lower center")
    _write(figure, path)


def plot_gradients(path: Path, results: Sequence[Result]) -> None:
    """Time, peak memory and error over the steps in an interval, a line for each method."""
    result = results[0]
    figure = Figure(figsize=(7.2, 3.0), dpi=150, layout="constrained")
    panels = figure.subplots(1, 3)
    methods = list(dict.fromkeys(row["gradient"] for row in result["rows"]))
    shown = (
        ("seconds", 1e3, "time (ms)"),
        ("peak_bytes", 1e-6, "peak memory (MB)"),
        ("error", 1.0, "relative error"),
    )
    for axes, (key, factor, label) in zip(panels, shown, strict=True):
        for method, colour, mark in zip(methods, COLOURS, "osd", strict=False):
            rows = [row for row in result["rows"] if row["gradient"] == method and row.get(key) is not None]
            steps = [row["steps"] for row in rows]
            _line(axes, steps, rows, key, factor, colour, method, mark)
            if key == "error":
                errors = [(row["steps"], row["error_in_float64"]) for row in rows if row["error_in_float64"] > 0]
                axes.plot([x for x, _ in errors], [y for _, y in errors], color=colour, linestyle=":", linewidth=1.2)
        _logarithmic(axes, "solver steps", "")
        axes.set_title(label, loc="left", fontsize="medium")
        _tick_at(axes, [row["steps"] for row in result["rows"]][:: 2 * len(methods)])
    dotted = panels[2].plot([], [], color="grey", linestyle=":", label="the method alone, in float64")
    handles, labels = panels[0].get_legend_handles_labels()
    labels.append(dotted[0].get_label())
    figure.legend([*handles, *dotted], labels, frameon=False, ncols=4, loc="outside lower center")
    _write(figure, path)


def _line(
    axes: Any,
    x: Sequence[float],
    rows: Sequence[Mapping[str, Any]],
    key: str,
    factor: float,
    colour: str,
    label: str,
    mark: str = "o",
) -> None:
    """Medians as a line, quartiles as bars where there are some."""
    y = [factor * row[key] for row in rows]
    spread = None
    if rows and f"{key}_low" in rows[0]:
        low = [max(0.0, middle - factor * row[f"{key}_low"]) for middle, row in zip(y, rows, strict=True)]
        high = [max(0.0, factor * row[f"{key}_high"] - middle) for middle, row in zip(y, rows, strict=True)]
        spread = [low, high]
    axes.errorbar(x, y, yerr=spread, color=colour, marker=mark, ms=4, linewidth=1.6, capsize=2, label=label)


def _logarithmic(axes: Any, x: str, y: str) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def _tick_at(axes: Any, values: Sequence[int]) -> None:
    """Ticks where something was measured."""
    from matplotlib.ticker import NullLocator

    axes.set_xticks(values, [_short(value) for value in values])
    axes.xaxis.set_minor_locator(NullLocator())


def _short(value: int) -> str:
    """Powers of ten from ten thousand on; others written out."""
    digits = str(value)
    if len(digits) > 4 and digits.strip("0") == "1":
        return f"$10^{{{len(digits) - 1}}}$"
    return f"{value:,}"


def _write(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
