"""The paper's figures, with its curves and ours. Missing curves are skipped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from experiments.experiment import experiments
from experiments.published import published
from experiments.show import transition_pair, value_of
from experiments.store import Results, Value
from experiments.tables import AS_IT_IS, FORMS, RUN, WITHOUT, Cell, tables
from tangokg.report.figures import write_figure

PAPER, OTHER = "#777777", "#bbbbbb"  # the paper's TANGO, and its baselines
COLOURS = {"as printed": "#7f4f8f", "paper form": "#0b5394", "ours": "#c27800", RUN: "#6a9a3a"}
MARKERS = {"as printed": "v", "paper form": "o", "ours": "s", RUN: "^"}
GROUPS = {"larger changes": "half of the snapshots, with the larger transition norm", "all": "all snapshots"}


def plot_horizon(results: Results) -> Figure:
    """MRR over ΔT."""
    figure, (axes,) = start_figure()
    _curves(axes, "horizon", "mrr", results, "ΔT (days)", "MRR, time-aware (per cent)")
    return _with_legend(figure, axes)


def plot_history(results: Results) -> Figure:
    """MRR and time for each epoch over the length of the history."""
    figure, axes = start_figure(1, 2)
    _curves(axes[0], "history", "mrr", results, "snapshots in a window", "MRR, time-aware (per cent)")
    _curves(axes[1], "history", "epoch_seconds", results, "snapshots in a window", "seconds an epoch")
    axes[1].set_yscale("log")
    return _with_legend(figure, axes[0])


def _curves(axes: Any, name: str, metric: str, results: Results, x: str, y: str) -> None:
    table, paper = tables()[name], published()[name]
    steps = [int(column) for column in paper.columns]
    for row in paper.rows:
        colour = PAPER if row.startswith("TANGO") else OTHER
        numbers = [paper.values[row, column, metric].value for column in paper.columns]
        axes.plot(steps, numbers, color=colour, linestyle="--", marker="o", ms=3, label=f"{row}, paper")
    for form, colour in COLOURS.items():
        cells = table.of(form=form, metric=metric)
        if values := _filled(cells, results):
            means = [value.mean for value in values.values()]
            spreads = [value.spread or 0.0 for value in values.values()]
            style = {"color": colour, "marker": MARKERS[form], "ms": 4, "label": f"{cells[0].row}, {form}"}
            axes.errorbar(list(map(int, values)), means, yerr=spreads if any(spreads) else None, **style)
    axes.set_xticks(steps)
    axes.set_xlabel(x)
    axes.set_ylabel(y)


def _filled(cells: list[Cell], results: Results) -> dict[str, Value]:
    """The values of cells that are not missing, by column."""
    return {cell.column: value for cell in cells if (value := value_of(cell, results))}


def plot_ablation(results: Results) -> Figure:
    """The transition layer's gain: MRR with it less MRR without, for the snapshots with larger changes and for all."""
    figure, (axes,) = start_figure()
    table = tables()["ablation"]
    rows = [row for row in table.rows if WITHOUT not in row]
    for shift, (column, colour) in enumerate(zip(table.columns, ("#0b5394", "#9db8d2"), strict=True)):
        gains = {}
        for place, row in enumerate(rows):
            more, less = transition_pair(table, row, column, results)
            if more and less:
                gains[place + 0.38 * (shift - 0.5)] = more.mean - less.mean
        if gains:
            bars = axes.bar(list(gains), list(gains.values()), 0.36, color=colour, label=GROUPS[column])
            axes.bar_label(bars, [f"{gain:+.2f}" for gain in gains.values()], padding=2, fontsize="small")
    axes.axhline(0.0, color=PAPER, linewidth=1)
    axes.margins(y=0.15)
    axes.set_xticks(range(len(rows)), [row.replace("TANGO-", "").replace(" on ", "\n") for row in rows])
    axes.set_ylabel("MRR with transition layer\nless MRR without")
    return _with_legend(figure, axes)


def plot_time(results: Results) -> Figure:
    """Bars of training time on ICEWS05-15."""
    figure, (axes,) = start_figure()
    table, paper = tables()["time"], published()["time"]
    bars: dict[str, tuple[float, str]] = {}  # label -> seconds and colour
    for row in paper.rows:
        colour = PAPER if row.startswith("TANGO") else OTHER
        bars[f"{row}, paper"] = (float(paper.values[row, "ICEWS05-15", "seconds"].value), colour)
        for form in FORMS:
            for value in _filled(table.of(row=row, form=form, column="ICEWS05-15"), results).values():
                bars[f"{row}, {form}"] = (value.mean, COLOURS[form])
    seconds, colours = zip(*bars.values(), strict=True)
    axes.barh(list(bars), seconds, color=colours)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("training time until convergence (s); the paper's on one RTX 2080 Ti")
    return figure


def plot_dynamics(results: Results) -> Figure:
    """The gain of the dynamics over the solver time of a window: test MRR minus that of the model without them."""
    figure, panels = start_figure(1, 2, share=True)
    table = tables()["dynamics"]
    for axes, form in zip(panels, ("paper form", "ours"), strict=True):
        for row in table.rows:
            values = _filled(table.of(row=row, form=form), results)
            timed = {float(c.removeprefix("window ")): v.mean for c, v in values.items() if c.startswith("window ")}
            if usual := values.get(AS_IT_IS):
                (cell,) = table.of(row=row, form=form, column=AS_IT_IS)
                timed[usual_window(cell.name)] = usual.mean
            if still := values.get("trained without"):
                times = sorted(timed)
                axes.plot(times, [timed[time] - still.mean for time in times], marker="o", ms=4, label=row)
        axes.axhline(0.0, color=PAPER, linewidth=1)
        axes.set_xscale("log")
        axes.set_xlabel(f"solver time of a window ({form})")
    panels[0].set_ylabel("MRR less that without dynamics")
    return _with_legend(figure, panels[0])


def usual_window(name: str) -> float:
    """The solver time of a whole window in an experiment."""
    settings: Any = experiments()[name].config().settings
    return float(settings.step_time * settings.history)


def start_figure(rows: int = 1, columns: int = 1, height: float = 3.6, share: bool = False) -> tuple[Figure, list[Any]]:
    """An empty figure with its panels, row by row; with ``share`` they have one scale for y."""
    figure = Figure(figsize=(7.2, height), dpi=150, layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False, sharey=share).flat)
    for panel in axes:
        panel.grid(alpha=0.3)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _with_legend(figure: Figure, axes: Any) -> Figure:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, ncols=2, loc="outside lower center", fontsize="small")
    return figure


PLOTS: Mapping[str, Callable[[Results], Figure]] = {
    "ablation": plot_ablation,
    "horizon": plot_horizon,
    "history": plot_history,
    "time": plot_time,
    "dynamics": plot_dynamics,
}


def write_plots(folder: Path, results: Results) -> list[Path]:
    """``results-NAME.svg`` of each figure; the same results give the same files."""
    return write_figures(folder, {f"results-{name}.svg": plot(results) for name, plot in PLOTS.items()})


def write_figures(folder: Path, figures: Mapping[str, Figure]) -> list[Path]:
    """Write figures by file name, in a folder that is created if missing."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in figures.items():
        write_figure(figure, folder / name)
    return [folder / name for name in figures]
