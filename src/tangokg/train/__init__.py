"""Model + windows -> fitted weights, checkpoints, run folders."""

from __future__ import annotations

from tangokg.train.checkpoint import Progress
from tangokg.train.loop import Interrupted, Material, Reporter, build_model, fit, make_fabric
from tangokg.train.runs import RunFolder
from tangokg.train.settings import RunConfig, TrainSettings, load_config, make_config

__all__ = [
    "Interrupted",
    "Material",
    "Progress",
    "Reporter",
    "RunConfig",
    "RunFolder",
    "TrainSettings",
    "build_model",
    "fit",
    "load_config",
    "make_config",
    "make_fabric",
]
