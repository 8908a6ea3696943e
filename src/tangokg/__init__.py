"""Forecast links on temporal knowledge graphs: dated facts in, ranked answers with probabilities out.

>>> import tangokg as tk
>>> data = tk.read_events("trips.csv").split(train=0.8, valid=0.1)  # or a DataFrame, a folder, a known set
>>> forecaster = tk.fit(data)  # fit("trips.csv", unit="day", columns={"subject": "who"}) reads and splits as well
>>> forecaster.forecast("Anna", "visits", at="2024-04-10")
>>> forecaster.evaluate(data.test)["time-aware"].mrr
>>> forecaster.save("runs/trips")  # tk.load("runs/trips")

Reading:     read_events, Quadruples, Dataset
Training:    fit, load, Forecaster; tune searches settings
Measuring:   Forecaster.evaluate, Metrics; compare sets models side by side
Figures:     plot draws what was measured, into a file or for a notebook; write_report makes a page
Errors:      TangoError is the base of all; logging.getLogger("tangokg") receives epochs and warnings

All of these show themselves in notebooks; forecasts, metrics, calibrations, comparisons and facts have to_pandas().
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from tangokg.errors import TangoError as TangoError
    from tangokg.forecast import Forecast as Forecast
    from tangokg.forecast import Forecaster as Forecaster
    from tangokg.forecast import compare as compare
    from tangokg.forecast import fit as fit
    from tangokg.forecast import load as load
    from tangokg.forecast import plot as plot
    from tangokg.forecast import write_report as write_report
    from tangokg.quads import Dataset as Dataset
    from tangokg.quads import Quadruples as Quadruples
    from tangokg.quads import read_events as read_events
    from tangokg.rank import Metrics as Metrics
    from tangokg.train import Interrupted as Interrupted
    from tangokg.tune.python import tune as tune

# Loaded when first used, so that `tango --help` does not wait for torch.
_HOMES = {
    "Dataset": "quads",
    "Forecast": "forecast",
    "Forecaster": "forecast",
    "Interrupted": "train",
    "Metrics": "rank",
    "Quadruples": "quads",
    "TangoError": "errors",
    "compare": "forecast",
    "fit": "forecast",
    "load": "forecast",
    "plot": "forecast",
    "read_events": "quads",
    "write_report": "forecast",
}

__all__ = [
    "Dataset",
    "Forecast",
    "Forecaster",
    "Interrupted",
    "Metrics",
    "Quadruples",
    "TangoError",
    "compare",
    "fit",
    "load",
    "plot",
    "read_events",
    "tune",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"tangokg.{_HOMES[name]}"), name)
    if name == "tune":  # the folder of this name, which can be called
        return import_module("tangokg.tune")
    raise AttributeError(f"module 'tangokg' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, "__version__", "__doc__"})
