"""Epochs of the training loop itself, for benchmarks: its session, without validation, checkpoints or display."""

from __future__ import annotations

import torch
from torch import Tensor

from experiments.bench.form import now
from tangokg.quads.values import Dataset
from tangokg.snapshots.timeline import build_timeline
from tangokg.train import Material, RunConfig, build_model, make_fabric
from tangokg.train.loop import Session
from tangokg.train.memory import keep_freed_memory
from tangokg.train.stopping import never


class Epochs:
    """A run that has been set up: its model, its optimiser, its data on the device."""

    def __init__(self, dataset: Dataset, config: RunConfig) -> None:
        keep_freed_memory()
        torch.backends.cuda.matmul.allow_tf32 = config.train.precision == "tf32"  # in the benchmark's own process
        fabric = make_fabric(config.train)
        self.device: torch.device = fabric.device
        model = build_model(config, build_timeline(dataset.train))
        self.session = Session(config, Material.of(dataset, self.device), model, fabric, None, None, None)
        self.session.plain.settle(self.session.material.train)
        self.targets: Tensor = self.session.material.targets  # all training snapshots that have a history

    def draw(self, snapshots: int = 0) -> Tensor:
        """The targets in the order of the next epoch; some of them where ``snapshots`` are asked for."""
        order = torch.randperm(len(self.targets), generator=self.session.generators["order"])
        return self.targets[order][: snapshots or None]

    def seconds(self, order: Tensor) -> float:
        """One pass of the training loop over these targets, as in training: the device is waited for at its end."""
        self.session.order, self.session.progress.position = order, 0
        start = now(self.device)
        self.session.epoch(never)
        return now(self.device) - start
