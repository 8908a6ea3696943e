"""Figures of metrics and of training as PNG, SVG or PDF, drawn without the global state of pyplot."""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tangokg.errors import DataError
from tangokg.quads.clock import Clock

if TYPE_CHECKING:  # matplotlib takes a while to import
    from matplotlib.figure import Figure

    from tangokg.rank.calibration import Bin
    from tangokg.rank.metrics import Summary

SUFFIXES = (".png", ".svg", ".pdf")
COLOURS = ("#0b5394", "#c27800", "#3d7a3d", "#8a3b8f")  # dark enough on white, and distinct to colour-blind eyes
MARKED = 40  # points up to which each has a mark


def check_figure(path: Path) -> None:
    """Raise an error, before anything is computed, if a figure cannot be written to this file."""
    if path.suffix.casefold() not in SUFFIXES:
        raise DataError(
            f"{path}: a figure cannot be written as {path.suffix!r}; expected one of {', '.join(SUFFIXES)}."
        )
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise DataError(f"{path}: cannot be written: expected the name of a file in an existing folder.")


def plot_by_time(path: Path, groups: Mapping[float, Summary], clock: Clock, title: str) -> None:
    """MRR and Hits@k of the queries at each time."""
    figure, axes = _start(title, _time_label(clock), "per cent")
    _draw_summaries(axes, groups)
    axes.xaxis.set_major_formatter(lambda t, _: _date(clock, t))
    write_figure(figure, path)


def plot_horizons(
    path: Path,
    groups: Mapping[float, Summary],
    unit: str,
    title: str,
    beside: Mapping[str, Mapping[float, Summary]] | None = None,
) -> None:
    """MRR and Hits@k of the same queries by horizon; the MRR of the models ``beside`` is dashed."""
    figure, axes = _start(title, f"how far ahead ({unit}s)", "per cent")
    for name, summaries in (beside or {}).items():
        values = [summary.mrr for summary in summaries.values()]
        axes.plot(list(summaries), values, label=f"MRR of {name}", color="grey", linestyle="--", clip_on=False)
    _draw_summaries(axes, groups)
    write_figure(figure, path)


def plot_reliability(path: Path, kinds: Mapping[str, Sequence[Bin]], title: str) -> None:
    """How often events of a given probability happened; on the diagonal the probability is right."""
    figure, axes = _start(title, "said (per cent)", "happened (per cent)")
    axes.plot([0, 100], [0, 100], color="grey", linestyle="--", linewidth=1)
    for (kind, bins), colour in zip(kinds.items(), COLOURS, strict=False):
        predicted, happened = [100 * b.said for b in bins], [100 * b.happened for b in bins]
        axes.plot(predicted, happened, label=kind, color=colour, marker="o", ms=3, clip_on=False)
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 100)
    figure.legend(frameon=False, loc="outside lower center")
    write_figure(figure, path)


def read_log(path: Path) -> list[dict[str, float]]:
    """The epochs of a run's ``log.csv``, without empty cells."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return [{key: float(cell) for key, cell in row.items() if cell} for row in csv.DictReader(file)]
    except (OSError, ValueError, TypeError, csv.Error) as error:
        raise DataError(f"{path}: expected one epoch of a run on each line, but found: {error}.") from None


def plot_training(path: Path, log: Sequence[Mapping[str, float]], title: str) -> None:
    """The loss of each epoch and, if there was a validation part, its MRR."""
    figure, axes = _start(title, "epoch", "loss (mean over queries)")
    epochs = [row["epoch"] for row in log]
    lines = axes.plot(epochs, [row["loss"] for row in log], color=COLOURS[0], marker=_mark(log), ms=3, label="loss")
    if all("valid_mrr" in row for row in log):
        right = axes.twinx()
        right.spines["top"].set_visible(False)
        mrr = [row["valid_mrr"] for row in log]
        lines += right.plot(epochs, mrr, color=COLOURS[1], marker=_mark(log), ms=3, label="validation MRR")
        right.set_ylabel("validation MRR (per cent)")
    figure.legend(handles=lines, frameon=False, ncols=2, loc="outside lower center")
    write_figure(figure, path)


def _start(title: str, x: str, y: str) -> tuple[Figure, Any]:
    """An empty figure with its labels; a $ in a name does not begin a formula."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(7.2, 4.0), dpi=150, layout="constrained")
    axes = figure.subplots()
    axes.set_title(title, loc="left", fontsize="medium", parse_math=False, wrap=True)
    axes.set_xlabel(x, parse_math=False)
    axes.set_ylabel(y)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    return figure, axes


def _draw_summaries(axes: Any, groups: Mapping[float, Summary]) -> None:
    rows = [summary.to_dict() for summary in groups.values()]
    for name, colour in zip(rows[0], COLOURS, strict=True):
        label = "MRR" if name == "mrr" else name.capitalize()
        width = 2 if name == "mrr" else 1
        values = [row[name] for row in rows]
        style = {"color": colour, "linewidth": width, "marker": _mark(rows), "ms": 3, "clip_on": False}
        axes.plot(list(groups), values, label=label, **style)
    axes.set_ylim(0, 100)
    axes.figure.legend(frameon=False, ncols=len(axes.lines), loc="outside lower center")


def _mark(points: Sequence[Any]) -> str:
    return "o" if len(points) <= MARKED else ""


def _time_label(clock: Clock) -> str:
    return f"time ({clock.unit}s)" if clock.origin is None else "date"


def _date(clock: Clock, t: float) -> str:
    """The label of a tick; empty beyond the calendar."""
    try:
        return clock.format(t)
    except DataError:
        return ""


def write_figure(figure: Figure, path: Path) -> None:
    """Write the whole file or nothing; the same figure gives the same bytes."""
    import matplotlib as mpl

    from tangokg.train.checkpoint import write_atomically

    kind = path.suffix.casefold().removeprefix(".")
    content = io.BytesIO()
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    with mpl.rc_context({"svg.hashsalt": "tangokg"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # for letters missing from the installed fonts
        figure.savefig(content, format=kind, metadata=undated)
    write_atomically(path, content.getvalue())
