"""Metrics and runs -> figures and descriptions for people."""

from __future__ import annotations

from tangokg.report.figures import (
    SUFFIXES,
    check_figure,
    plot_by_time,
    plot_horizons,
    plot_reliability,
    plot_training,
    read_log,
)
from tangokg.report.runs import describe

__all__ = [
    "SUFFIXES",
    "check_figure",
    "describe",
    "plot_by_time",
    "plot_horizons",
    "plot_reliability",
    "plot_training",
    "read_log",
]
