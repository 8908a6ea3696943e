"""A trained run -> answers by name, with probabilities and reasons; takes new facts."""

from __future__ import annotations

from tangokg.forecast.answers import Answer, Forecast
from tangokg.forecast.comparing import compare
from tangokg.forecast.figures import plot
from tangokg.forecast.forecaster import Forecaster
from tangokg.forecast.loading import load
from tangokg.forecast.outcome import results
from tangokg.forecast.reporting import write_report
from tangokg.forecast.training import as_dataset, fit

__all__ = [
    "Answer",
    "Forecast",
    "Forecaster",
    "as_dataset",
    "compare",
    "fit",
    "load",
    "plot",
    "results",
    "write_report",
]
