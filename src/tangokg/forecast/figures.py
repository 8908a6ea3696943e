"""Figures from Python: one function for whatever was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tangokg.errors import ConfigError, DataError, checked
from tangokg.forecast.calibrating import KINDS
from tangokg.forecast.forecaster import Forecaster
from tangokg.quads.clock import Clock
from tangokg.rank import Metrics
from tangokg.rank.calibration import Calibration
from tangokg.report import check_figure, plot_by_time, plot_horizons, plot_reliability, plot_training, read_log
from tangokg.report.compare import Comparison, plot_comparison
from tangokg.report.interactive import (
    interactive_by_time,
    interactive_comparison,
    interactive_horizons,
    interactive_reliability,
    interactive_training,
)
from tangokg.train import RunFolder

Figure = tuple[Callable[..., None], Callable[..., Any], tuple[Any, ...]]  # for a file, for a notebook, of what


@checked
def plot(
    what: Any,
    path: str | Path | None = None,
    *,
    filter_name: str = "time-aware",
    title: str = "",
    clock: Clock | None = None,
) -> Any:
    """Draw what was measured into a .png, .svg or .pdf, and return its path; without one, for a notebook.

    A :class:`Metrics` is drawn by time (dates with the ``clock`` of its facts), a dictionary {horizon: Metrics} by
    horizon, the result of :func:`tangokg.compare` as accuracy against training time, a :class:`Forecaster` as loss and
    validation MRR of each epoch, the result of :func:`tangokg.tune` as its trials, and a calibration, or the result of
    :meth:`Forecaster.calibration`, as what was said against what happened.

    Without a ``path`` the result is a figure of plotly, which shows itself, with its values under the pointer.
    """
    if path is None:
        _, show, parts = _figure_of(what, filter_name, title, clock or Clock("step"))
        return show(*parts)
    place = Path(path)
    check_figure(place)
    draw, _, parts = _figure_of(what, filter_name, title, clock or Clock("step"))
    draw(place, *parts)
    return place


def _figure_of(what: Any, filter_name: str, title: str, clock: Clock) -> Figure:
    if isinstance(what, Metrics):
        return plot_by_time, interactive_by_time, (what.by_time(filter_name), clock, title or filter_name)
    if isinstance(what, Comparison):
        return plot_comparison, interactive_comparison, (what.rows, title or "test part, time-aware")
    if isinstance(what, Forecaster):
        title = title or f"{what.config.model} on {what.dataset.name}"
        return plot_training, interactive_training, (_epochs(what), title)
    if isinstance(what, Calibration):
        return plot_reliability, interactive_reliability, ({title or "chance": what.bins()}, title)
    if _has(what, Calibration):
        kinds = {KINDS.get(kind, str(kind)): calibration.bins() for kind, calibration in what.items()}
        return plot_reliability, interactive_reliability, (kinds, title)
    if _has(what, Metrics):
        groups = {dt: m[filter_name] for dt, m in what.items()}
        return plot_horizons, interactive_horizons, (groups, clock.unit, title or filter_name)
    if hasattr(what, "draw"):
        return what.draw, what.figure, (title,)
    raise ConfigError(
        f"plot(): {type(what).__name__} cannot be drawn: expected Metrics, a dictionary of horizons to Metrics, "
        "a comparison, a calibration, a forecaster or the result of tune()."
    )


def _epochs(forecaster: Forecaster) -> Sequence[Mapping[str, float]]:
    """A row for each; a loaded run has them in its ``log.csv``."""
    log: Sequence[Mapping[str, float]] = forecaster.progress.log
    if not log and forecaster.path is not None and (kept := RunFolder(forecaster.path).log).exists():
        log = read_log(kept)
    if not log:
        raise DataError(
            f"there are no epochs to draw: {forecaster.config.model!r} has nothing to train, or the run was saved "
            "without its log.csv."
        )
    return log


def _has(what: Any, kind: type) -> bool:
    """Whether it is a dictionary of such values."""
    return isinstance(what, Mapping) and bool(what) and all(isinstance(value, kind) for value in what.values())
