"""Figures from Python: one function for whatever was measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tangokg.errors import ConfigError, DataError, checked
from tangokg.forecast.calibrating import KINDS
from tangokg.forecast.forecaster import Forecaster
from tangokg.quads.clock import Clock
from tangokg.rank import Metrics
from tangokg.rank.calibration import Calibration
from tangokg.report import check_figure, plot_by_time, plot_horizons, plot_reliability, plot_training
from tangokg.report.compare import Comparison, plot_comparison


@checked
def plot(
    what: Any,
    path: str | Path,
    *,
    filter_name: str = "time-aware",
    title: str = "",
    clock: Clock | None = None,
) -> Path:
    """Draw what was measured into a .png, .svg or .pdf, and return its path.

    A :class:`Metrics` is drawn by time (dates with the ``clock`` of its facts), a dictionary {horizon: Metrics} by
    horizon, the result of :func:`tangokg.compare` as accuracy against training time, a :class:`Forecaster` as loss and
    validation MRR of each epoch, the result of :func:`tangokg.tune` as its trials, and a calibration, or the result of
    :meth:`Forecaster.calibration`, as what was said against what happened.
    """
    place = Path(path)
    check_figure(place)
    clock = clock or Clock("step")
    if isinstance(what, Metrics):
        plot_by_time(place, what.by_time(filter_name), clock, title or filter_name)
    elif isinstance(what, Comparison):
        plot_comparison(place, what.rows, title or "test part, time-aware")
    elif isinstance(what, Forecaster):
        if not what.progress.log:
            raise DataError("there are no epochs to draw: a loaded run has them in its log.csv (tango train --plot).")
        plot_training(place, what.progress.log, title or f"{what.config.model} on {what.dataset.name}")
    elif isinstance(what, Calibration):
        plot_reliability(place, {title or "chance": what.bins()}, title)
    elif _has(what, Calibration):
        plot_reliability(place, {KINDS.get(kind, str(kind)): one.bins() for kind, one in what.items()}, title)
    elif _has(what, Metrics):
        plot_horizons(place, {dt: m[filter_name] for dt, m in what.items()}, clock.unit, title or filter_name, {})
    elif hasattr(what, "draw"):
        what.draw(place, title)
    else:
        raise ConfigError(
            f"plot(): {type(what).__name__} cannot be drawn: expected Metrics, a dictionary of horizons to Metrics, "
            "a comparison, a calibration, a forecaster or the result of tune()."
        )
    return place


def _has(what: Any, kind: type) -> bool:
    """Whether it is a dictionary of such values."""
    return isinstance(what, Mapping) and bool(what) and all(isinstance(value, kind) for value in what.values())
