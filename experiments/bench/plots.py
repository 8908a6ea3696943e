"""The figures of the page on speed, each from one or more results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from experiments.bench.step import PARTS
from experiments.plots import start_figure

COLOURS = ("#0b5394", "#c27800", "#3d7a3d")  # of lines
Result = Mapping[str, Any]
SHADES = ("#9db8d2", "#0b5394", "#c27800", "#3d7a3d", "#8a3b8f")  # of the parts of a step
AXES = {  # of growth
    "entities": "entities N",
    "history": "snapshots in a window, k",
    "dim": "dimension d",
    "facts": "facts at each time",
}
LINES = {"forward": "encoder, forward", "backward": "encoder, backward to the touched rows", "step": "whole step"}
BELOW: dict[str, Any] = {"frameon": False, "loc": "outside lower center"}  # where a legend stands


def plot_step(results: Sequence[Result]) -> Figure:
    """The parts of a step as shares of its floor, a bar for each set."""
    figure, (axes,) = start_figure(height=1.3 + 0.55 * len(results))
    for place, result in enumerate(results):
        start = 0.0
        shares = {row["part"]: row["of_floor"] for row in result["rows"]}
        for part, colour in zip(PARTS, SHADES, strict=True):
            label = ("assembling windows" if part == "windows" else part) if place == 0 else None
            axes.barh(place, shares[part], left=start, color=colour, height=0.62, label=label)
            start += shares[part]
        axes.annotate(f" {start:.2f}", (start, place), va="center")
    axes.axvline(1.0, color="black", linewidth=1, linestyle="--", label="floor")
    axes.set_yticks(range(len(results)), [_step_label(result["asked"]) for result in results])
    axes.invert_yaxis()
    axes.margins(x=0.08)
    axes.set_xlabel("time of a step, its floor being 1")
    axes.grid(visible=False, axis="y")
    figure.legend(**BELOW, ncols=3, fontsize="small")
    return figure


def _step_label(parameters: Mapping[str, Any]) -> str:
    windows = parameters["batch_windows"]
    precision = "" if parameters["precision"] == "32-true" else f", {parameters['precision']}"
    return f"{parameters['data']}\n{windows} window{'' if windows == 1 else 's'} a step{precision}"


def plot_growth(results: Sequence[Result]) -> Figure:
    """A panel for each axis: time over its value, both logarithmic."""
    rows = results[0]["rows"]
    names = list(dict.fromkeys(row["axis"] for row in rows))
    lines = -(-len(names) // 2)
    figure, panels = start_figure(lines, 2, height=2.7 * lines + 0.5, share=True)
    for place, (axes, name) in enumerate(zip(panels, names, strict=False)):
        of_axis = [row for row in rows if row["axis"] == name]
        for (part, label), colour in zip(LINES.items(), COLOURS, strict=True):
            _line(axes, of_axis, "value", f"{part}_seconds", 1e3, color=colour, label=label)
        _logarithmic(axes, AXES[name], [row["value"] for row in of_axis], "" if place % 2 else "milliseconds")
    for axes in panels[len(names) :]:
        axes.set_visible(False)
    figure.legend(*panels[0].get_legend_handles_labels(), **BELOW, ncols=3)
    return figure


def plot_grown(results: Sequence[Result]) -> Figure:
    """An epoch, and a thousand of its steps, over facts and over entities, with their slopes."""
    rows, figures = results[0]["rows"], results[0]["figures"]
    figure, panels = start_figure(1, 2, share=True)
    largest = [row for row in rows if row["axis"] == "both"]
    lines = {"epoch": ("epoch", 1, COLOURS[0]), "step": ("1,000 steps", 1000, COLOURS[1])}
    for axes, name in zip(panels, ("facts", "entities"), strict=True):
        of_axis = [row for row in rows if row["axis"] == name]
        for part, (label, factor, colour) in lines.items():
            curve: dict[str, Any] = {"marker": "o", "ms": 4, "label": label}
            star: dict[str, Any] = {"marker": "*", "ms": 9, "linestyle": ""}
            for points, style in ((of_axis, curve), (largest, star)):
                seconds = [factor * row[f"{part}_seconds"] for row in points]
                axes.plot([row[name] for row in points], seconds, color=colour, **style)
        slopes = [f"{part} {figures[key]:.2f}" for part in lines if (key := f"{name}_{part}_slope") in figures]
        axes.set_title(f"slope: {', '.join(slopes)}" if slopes else "", fontsize="medium", loc="left")
        _logarithmic(axes, name, [row[name] for row in of_axis or largest], "seconds" if name == "facts" else "")
    handles, labels = panels[0].get_legend_handles_labels()
    handles += panels[0].plot([], [], "*", ms=9, color="grey")
    figure.legend(handles, [*labels, "most of both"], **BELOW, ncols=3)
    return figure


def plot_gradients(results: Sequence[Result]) -> Figure:
    """Time, peak memory and error over the steps in an interval, a line for each method."""
    rows = results[0]["rows"]
    figure, panels = start_figure(1, 3, height=3.0)
    methods = list(dict.fromkeys(row["gradient"] for row in rows))
    shown = (("seconds", 1e3, "time (ms)"), ("peak_bytes", 1e-6, "peak memory (MB)"), ("error", 1.0, "relative error"))
    for axes, (key, factor, title) in zip(panels, shown, strict=True):
        for method, colour, mark in zip(methods, COLOURS, "osd", strict=False):
            of_method = [row for row in rows if row["gradient"] == method]
            _line(axes, of_method, "steps", key, factor, color=colour, label=method, marker=mark)
            if key == "error":
                errors = [(row["steps"], row["error_in_float64"]) for row in of_method if row["error_in_float64"] > 0]
                axes.plot([x for x, _ in errors], [y for _, y in errors], color=colour, linestyle=":", linewidth=1.2)
        axes.set_title(title, loc="left", fontsize="medium")
        _logarithmic(axes, "solver steps", [row["steps"] for row in rows][:: 2 * len(methods)])
    dotted = panels[2].plot([], [], color="grey", linestyle=":", label="the method alone, in float64")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend([*handles, *dotted], [*labels, dotted[0].get_label()], **BELOW, ncols=4)
    return figure


def _line(axes: Any, rows: Sequence[Mapping[str, Any]], x: str, y: str, factor: float, **style: Any) -> None:
    """Plot one column over another: medians as a line, quartiles as bars if there are any."""
    rows = [row for row in rows if row.get(y) is not None]
    values = [factor * row[y] for row in rows]
    spread = None
    if rows and f"{y}_low" in rows[0]:
        low = [value - factor * row[f"{y}_low"] for value, row in zip(values, rows, strict=True)]
        high = [factor * row[f"{y}_high"] - value for value, row in zip(values, rows, strict=True)]
        spread = [low, high]
    style = {"marker": "o", "ms": 4, "linewidth": 1.6, "capsize": 2} | style
    axes.errorbar([row[x] for row in rows], values, yerr=spread, **style)


def _logarithmic(axes: Any, x: str, ticks: Sequence[int], y: str = "") -> None:
    """Both axes logarithmic, with ticks where something was measured."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_xticks(ticks, [_short(value) for value in ticks])
    axes.set_xticks([], minor=True)


def _short(value: int) -> str:
    """Powers of ten from ten thousand on; others written out."""
    power = len(str(value)) - 1
    return f"$10^{{{power}}}$" if power > 3 and value == 10**power else f"{value:,}"
