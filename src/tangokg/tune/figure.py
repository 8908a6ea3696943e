"""The figure of a study: the best MRR so far, and the MRR against each searched setting."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tangokg.report.figures import COLOURS, write_figure
from tangokg.report.interactive import Curve
from tangokg.report.interactive import draw as draw_curves
from tangokg.tune.outcomes import Outcome
from tangokg.tune.space import Choice, Range, Space

COLUMNS = 3
GROUPS = 3  # of a range, for its share
EDGE = 0.04  # of a panel, beside the ends of a range


def explained(outcomes: list[Outcome], name: str, choice: Choice | Range) -> float:
    r"""Share of the variance of the MRR that lies between groups of trials with like values of one setting.

    .. math::
        \eta^2 = \frac{\sum_g n_g (\bar y_g - \bar y)^2}{\sum_i (y_i - \bar y)^2}

    A group is one value of a choice, or a third of the trials in order of a number. Of few trials, much is chance.
    """
    y = np.array([outcome.mrr for outcome in outcomes], dtype=np.float64)
    x = [outcome.values[name] for outcome in outcomes]
    if isinstance(choice, Choice):
        groups = np.array([choice.values.index(value) for value in x])
    else:
        groups = np.argsort(np.argsort(x, kind="stable")) * GROUPS // max(len(x), 1)
    total = float(((y - y.mean()) ** 2).sum()) if len(y) else 0.0
    between = sum(float((y[groups == g].mean() - y.mean()) ** 2 * (groups == g).sum()) for g in np.unique(groups))
    return between / total if total > 0 else 0.0


def plot_study(path: Path, outcomes: list[Outcome], space: Space, title: str) -> None:
    """All trials with an MRR, in order and by each setting; pruned trials are hollow."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    shown = [outcome for outcome in outcomes if outcome.mrr is not None]
    rows = -(-len(space) // COLUMNS)
    figure = Figure(figsize=(7.2, 2.6 + 1.9 * rows), dpi=150, layout="constrained")
    grid = figure.add_gridspec(rows + 1, COLUMNS, height_ratios=[1.4, *[1.0] * rows])
    history = figure.add_subplot(grid[0, :])
    history.set_title(title, loc="left", fontsize="medium", parse_math=False, wrap=True)
    _draw(history, [outcome.number for outcome in shown], shown)
    best = np.maximum.accumulate([outcome.mrr or 0.0 for outcome in shown])
    history.step([o.number for o in shown], best, where="post", color=COLOURS[1], label="best so far")
    history.xaxis.set_major_locator(MaxNLocator(integer=True))
    history.set_xlabel("trial")
    history.set_ylabel("validation MRR (per cent)")
    history.legend(frameon=False, fontsize="small", loc="lower right", bbox_to_anchor=(1, 1))
    for place, (name, choice) in enumerate(space.items()):
        axes = figure.add_subplot(grid[1 + place // COLUMNS, place % COLUMNS])
        _draw(axes, _positions(shown, name, choice, axes), shown)
        share = f"  ({explained(shown, name, choice):.0%})" if len(shown) > GROUPS else ""
        axes.set_title(name + share, fontsize="small", loc="left")
        axes.tick_params(labelsize="x-small")
    figure.supxlabel("In brackets: the share of the spread that goes with the setting", fontsize="x-small")
    write_figure(figure, path)


def interactive_study(outcomes: Sequence[Outcome], title: str) -> Any:
    """The trials with an MRR in order, for a notebook; the pointer shows their settings."""
    shown = [outcome for outcome in outcomes if outcome.mrr is not None]
    numbers, mrr = [outcome.number for outcome in shown], [outcome.mrr or 0.0 for outcome in shown]
    notes = [", ".join(f"{key}={value}" for key, value in trial.values.items()) + f"; {trial.state}" for trial in shown]
    best = [float(value) for value in np.maximum.accumulate(mrr)]
    curves = [Curve("trial", numbers, mrr, notes, "markers"), Curve("best so far", numbers, best)]
    return draw_curves(curves, title, {"title": "trial"}, {"title": "validation MRR (per cent)"})


def _positions(shown: list[Outcome], name: str, choice: Choice | Range, axes: Any) -> list[float]:
    """The positions of the trials along a setting, with the ticks of its axis."""
    if isinstance(choice, Choice):
        axes.set_xticks(range(len(choice.values)), [str(value) for value in choice.values])
        axes.set_xlim(-0.5, len(choice.values) - 0.5)
        return [choice.values.index(outcome.values[name]) for outcome in shown]
    if choice.log:
        axes.set_xscale("log")
        axes.set_xticks(marks(choice), [f"{mark:g}" for mark in marks(choice)])
        axes.minorticks_off()
    elif choice.whole:
        axes.xaxis.get_major_locator().set_params(integer=True)
    edge = (choice.high / choice.low) ** EDGE if choice.log else EDGE * (choice.high - choice.low)
    axes.set_xlim(*((choice.low / edge, choice.high * edge) if choice.log else (choice.low - edge, choice.high + edge)))
    return [float(outcome.values[name]) for outcome in shown]


def marks(choice: Range) -> list[float]:
    """The ends of a range by factors, and the powers of ten that lie well between them."""
    powers = [10.0**power for power in range(-12, 13)]
    return [choice.low, *(power for power in powers if 2 * choice.low < power < choice.high / 2), choice.high]


def _draw(axes: Any, x: list[Any], shown: list[Outcome]) -> None:
    completed = [outcome.state == "done" for outcome in shown]
    colours = [COLOURS[0] if done else "none" for done in completed]
    axes.scatter(x, [outcome.mrr for outcome in shown], s=14, facecolors=colours, edgecolors=COLOURS[0], linewidths=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3)
    axes.set_axisbelow(True)
