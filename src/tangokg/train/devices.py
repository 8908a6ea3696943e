"""Where a run computes, and with what precision."""

from __future__ import annotations

from typing import Any

import torch

from tangokg.errors import TrainingError
from tangokg.train.settings import DEVICES, TrainSettings


def choose_device(name: str) -> torch.device:
    """The device asked for: ``cpu``, ``cuda``, or ``auto``, which is cuda where there is one."""
    if name not in DEVICES:
        raise TrainingError(f"device {name!r} is unknown; choose one of {', '.join(DEVICES)}.")
    there = torch.cuda.is_available()
    if name == "cuda" and not there:
        raise TrainingError("device 'cuda' was asked for and is not there; available: cpu.")
    return torch.device("cuda" if there and name != "cpu" else "cpu")


def make_fabric(settings: TrainSettings) -> Any:
    """Lightning Fabric on the device and with the precision of the settings."""
    from lightning.fabric import Fabric

    device = choose_device(settings.device)
    if device.type == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = settings.precision == "tf32"
    precision: Any = "32-true" if settings.precision == "tf32" else settings.precision
    return Fabric(accelerator=device.type, devices=1, precision=precision)
