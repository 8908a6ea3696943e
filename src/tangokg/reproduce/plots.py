"""The paper's figures, its curves beside ours; each as PNG and SVG. A curve that is missing is left out."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tangokg.models import MODELS
from tangokg.reproduce.cells import FORMS, RUN, WITHOUT, find_table
from tangokg.reproduce.paper import published
from tangokg.reproduce.presets import WINDOWS, experiments
from tangokg.reproduce.store import Results
from tangokg.train.checkpoint import write_atomically

if TYPE_CHECKING:  # matplotlib takes a while to import
    from matplotlib.figure import Figure

PAPER, OTHER = "#777777", "#bbbbbb"  # the paper's TANGO, and its baselines
COLOURS = {"as printed": "#7f4f8f", "paper form": "#0b5394", "ours": "#c27800", RUN: "#6a9a3a"}
MARKERS = {"as printed": "v", "paper form": "o", "ours": "s", RUN: "^"}
GROUPS = {"larger changes": "half of the snapshots, with the larger transition norm", "all": "all snapshots"}
SUFFIXES = (".png", ".svg")


def plot_horizon(results: Results) -> Figure:
    """MRR over ΔT."""
    figure, axes = _start(1)
    _curves(axes[0], "horizon", "mrr", results, "ΔT (days)", "MRR, time-aware (per cent)")
    _legend(figure, axes[0])
    return figure


def plot_history(results: Results) -> Figure:
    """MRR and time for each epoch over the length of the history."""
    figure, axes = _start(2)
    _curves(axes[0], "history", "mrr", results, "snapshots in a window", "MRR, time-aware (per cent)")
    _curves(axes[1], "history", "epoch_seconds", results, "snapshots in a window", "seconds an epoch")
    axes[1].set_yscale("log")
    _legend(figure, axes[0])
    return figure


def _curves(axes: Any, name: str, metric: str, results: Results, x: str, y: str) -> None:
    table, paper = find_table(name), published()[name]
    steps = [int(column) for column in paper.columns]
    for row in paper.rows:
        colour = PAPER if row.startswith("TANGO") else OTHER
        values = [paper.values[row, column, metric].value for column in paper.columns]
        axes.plot(steps, values, color=colour, linestyle="--", marker="o", ms=3, label=f"{row}, paper")
    for form, colour in COLOURS.items():
        cells = [cell for cell in table.cells if cell.form == form and cell.metric == metric]
        there = [(int(cell.column), value) for cell in cells if (value := results.value(cell))]
        if there:
            spread = [value.spread or 0.0 for _, value in there] if any(value.spread for _, value in there) else None
            numbers = [value.mean for _, value in there]
            places = [place for place, _ in there]
            label = f"{cells[0].row}, {form}"
            axes.errorbar(
                places,
                numbers,
                yerr=spread,
                color=colour,
                marker=MARKERS[form],
                ms=4,
                label=label,
            )
    axes.set_xticks(steps)
    axes.set_xlabel(x)
    axes.set_ylabel(y)


def plot_ablation(results: Results) -> Figure:
    """The transition layer's gain: MRR with it less MRR without, for the snapshots with larger changes and for all."""
    figure, (axes,) = _start(1)
    table = find_table("ablation")
    rows = [row for row in dict.fromkeys(cell.row for cell in table.cells) if WITHOUT not in row]
    for shift, (column, colour) in enumerate(zip(table.columns, ("#0b5394", "#9db8d2"), strict=True)):
        pairs = [[results.value(table.of(row=r, column=column)[0]) for r in (row, without(row))] for row in rows]
        gains = {place: there.mean - gone.mean for place, (there, gone) in enumerate(pairs) if there and gone}
        if not gains:
            continue
        places = [place + 0.38 * (shift - 0.5) for place in gains]
        bars = axes.bar(places, list(gains.values()), 0.36, color=colour, label=GROUPS[column])
        axes.bar_label(bars, [f"{gain:+.2f}" for gain in gains.values()], padding=2, fontsize="small")
    axes.axhline(0.0, color=PAPER, linewidth=1)
    axes.margins(y=0.15)
    axes.set_xticks(range(len(rows)), [row.replace("TANGO-", "").replace(" on ", "\n") for row in rows])
    axes.set_xlim(-0.6, len(rows) - 0.4)
    axes.set_ylabel("MRR with transition layer\nless MRR without")
    _empty(axes, bool(axes.patches))
    _legend(figure, axes)
    return figure


def without(row: str) -> str:
    """The row of the same model on the same set without its transition layer."""
    return row.replace(" on ", f"{WITHOUT} on ")


def plot_time_cost(results: Results) -> Figure:
    """Bars of training time on ICEWS05-15."""
    figure, (axes,) = _start(1)
    table, paper = find_table("time-cost"), published()["time"]
    bars: dict[str, tuple[float, str]] = {}
    for row in paper.rows:
        colour = PAPER if row.startswith("TANGO") else OTHER
        bars[f"{row}, paper"] = (float(paper.values[row, "ICEWS05-15", "seconds"].value), colour)
        for form in FORMS:
            for cell in table.of(row=row, form=form):
                if value := results.value(cell):
                    bars[f"{row}, {form}"] = (value.mean, COLOURS[form])
    axes.barh(list(bars), [height for height, _ in bars.values()], color=[colour for _, colour in bars.values()])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("training time until convergence (s); the paper's on one RTX 2080 Ti")
    return figure


def plot_dynamics(results: Results) -> Figure:
    """What the dynamics add over the solver time of a window: test MRR less that of the same model without."""
    figure, panels = _start(2, sharey=True)
    table = find_table("dynamics")
    for axes, form in zip(panels, ("paper form", "ours"), strict=True):
        for row in dict.fromkeys(cell.row for cell in table.cells):
            own = {cell.column: results.value(cell) for cell in table.of(row=row, form=form)}
            still = own["trained without"]
            timed = {float(c.removeprefix("window ")): v for c, v in own.items() if c.startswith("window ") and v}
            if usual := own["as it is"]:
                timed[usual_window(table.of(row=row, column="as it is", form=form)[0].config)] = usual
            if still and timed:
                gains = [timed[time].mean - still.mean for time in sorted(timed)]
                axes.plot(sorted(timed), gains, marker="o", ms=4, label=row)
        axes.axhline(0.0, color=PAPER, linewidth=1)
        axes.set_xscale("log")
        axes.set_xlim(WINDOWS[0] / 2, WINDOWS[-1] * 2)
        axes.set_xlabel(f"solver time of a window ({form})")
        _empty(axes, bool(axes.get_legend_handles_labels()[0]))
    panels[0].set_ylabel("MRR less that without dynamics")
    _legend(figure, panels[0])
    return figure


def usual_window(config: str) -> float:
    """The solver time of a whole window in a preset."""
    experiment = experiments()[config]
    settings = asdict(MODELS[experiment.model].settings) | dict(experiment.settings)
    return float(settings["step_time"] * settings["history"])


def _empty(axes: Any, measured: bool) -> None:
    if not measured:
        axes.text(0.5, 0.5, "not measured yet", transform=axes.transAxes, ha="center", color="grey")
        axes.set_ylim(0, 1)


def _start(panels: int, sharey: bool = False) -> tuple[Figure, list[Any]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 3.6), dpi=150, layout="constrained")
    axes = list(figure.subplots(1, panels, squeeze=False, sharey=sharey)[0])
    for one in axes:
        one.grid(alpha=0.3)
        one.set_axisbelow(True)
        one.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _legend(figure: Figure, axes: Any) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, ncols=2, loc="outside lower center", fontsize="small")


PLOTS: Mapping[str, Callable[[Results], Figure]] = {
    "ablation": plot_ablation,
    "horizon": plot_horizon,
    "history": plot_history,
    "time-cost": plot_time_cost,
    "dynamics": plot_dynamics,
}


def write_plots(folder: Path, results: Results) -> list[Path]:
    """``results-NAME.png`` and ``.svg`` of each figure; the same results give the same files."""
    import matplotlib as mpl

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, plot in PLOTS.items():
        figure = plot(results)
        for suffix in SUFFIXES:
            content = io.BytesIO()
            undated = {"Date": None} if suffix == ".svg" else None
            with mpl.rc_context({"svg.hashsalt": "tangokg"}):
                figure.savefig(content, format=suffix.removeprefix("."), metadata=undated)
            path = folder / f"results-{name}{suffix}"
            write_atomically(path, content.getvalue())
            written.append(path)
    return written
