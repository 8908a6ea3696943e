"""The device and the precision of a run."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tangokg.errors import TrainingError
from tangokg.models import Model
from tangokg.showing import counted
from tangokg.train.settings import DEVICES, TrainSettings


def choose_device(name: str) -> torch.device:
    """The device of a name: ``cpu``, ``cuda``, or ``auto``, which is cuda where one is available."""
    if name not in DEVICES:
        raise TrainingError(f"device {name!r} is unknown; choose one of {', '.join(DEVICES)}.")
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise TrainingError("device 'cuda' is not available here; use 'cpu' or 'auto'.")
    return torch.device("cuda" if available and name != "cpu" else "cpu")


def make_fabric(settings: TrainSettings) -> Any:
    """Lightning Fabric on the device and with the precision of the settings; for tf32 see :func:`product_precision`.

    Each process has one device. Fabric must not detect Slurm; :mod:`tangokg.train.processes` does.
    """
    from lightning.fabric import Fabric
    from lightning.fabric.plugins.environments.lightning import LightningEnvironment

    precision: Any = "32-true" if settings.precision == "tf32" else settings.precision
    kind = choose_device(settings.device).type
    return Fabric(accelerator=kind, devices=1, precision=precision, plugins=LightningEnvironment())


@contextmanager
def product_precision(settings: TrainSettings) -> Iterator[None]:
    """Compute matrix products on a GPU in tf32 only if the settings say so; restore the process's choice afterwards."""
    matmul = torch.backends.cuda.matmul
    before = matmul.allow_tf32
    if choose_device(settings.device).type == "cuda":
        matmul.allow_tf32 = settings.precision == "tf32"
    try:
        yield
    finally:
        matmul.allow_tf32 = before


def device_of(model: nn.Module) -> torch.device:
    """The device of a model's weights; the CPU if it has none."""
    return next((tensor.device for tensor in chain(model.parameters(), model.buffers())), torch.device("cpu"))


def usable_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def name_of(device: torch.device) -> str:
    """The name of a device: the GPU's name, or the CPU's model and its number of usable cores."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8", errors="replace").splitlines() if info.exists() else []
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return f"{model or platform.machine()}, {counted(usable_cores(), 'core')}"


class Loss(nn.Module):
    """The module that Fabric wraps. It takes a function, because Fabric would cast or refuse the frozen data."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, loss_of: Callable[[Model], Tensor]) -> Tensor:
        return loss_of(self.model)
