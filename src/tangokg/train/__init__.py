"""Model + windows -> fitted weights, checkpoints, run folders."""

from __future__ import annotations

from tangokg.train.checkpoint import Progress
from tangokg.train.devices import choose_device, make_fabric
from tangokg.train.loop import fit
from tangokg.train.material import Material, build_model, resolve
from tangokg.train.runs import RunFolder
from tangokg.train.settings import RunConfig, TrainSettings, load_config, make_config
from tangokg.train.signals import Interrupted
from tangokg.train.stopping import Reporter, Stop

__all__ = [
    "Interrupted",
    "Material",
    "Progress",
    "Reporter",
    "RunConfig",
    "RunFolder",
    "Stop",
    "TrainSettings",
    "build_model",
    "choose_device",
    "fit",
    "load_config",
    "make_config",
    "make_fabric",
    "resolve",
]
