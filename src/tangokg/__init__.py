"""Forecast links on temporal knowledge graphs: dated facts in, ranked answers with probabilities out."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from tangokg.errors import TangoError as TangoError
    from tangokg.forecast import Forecaster as Forecaster
    from tangokg.forecast import fit as fit
    from tangokg.forecast import load as load
    from tangokg.quads import Dataset as Dataset
    from tangokg.quads import Quadruples as Quadruples
    from tangokg.quads import read_events as read_events
    from tangokg.rank import Metrics as Metrics
    from tangokg.train import Interrupted as Interrupted

# Loaded when first used, so that `tango --help` does not wait for torch.
_HOMES = {
    "Dataset": "quads",
    "Forecaster": "forecast",
    "Interrupted": "train",
    "Metrics": "rank",
    "Quadruples": "quads",
    "TangoError": "errors",
    "fit": "forecast",
    "load": "forecast",
    "read_events": "quads",
}

__all__ = ["Dataset", "Forecaster", "Interrupted", "Metrics", "Quadruples", "TangoError", "fit", "load", "read_events"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"tangokg.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'tangokg' has no attribute {name!r}")
