"""Where a run computes, and with what precision."""

from __future__ import annotations

import os
import platform
from pathlib import Path
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


def name_of(device: torch.device) -> str:
    """The GPU by its name, a CPU by its model and how many cores may be used."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8", errors="replace").splitlines() if info.exists() else []
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return f"{model or platform.machine()}, {cores} core{'' if cores == 1 else 's'}"
