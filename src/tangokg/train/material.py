"""Dataset and config -> the input of training: snapshots, validation queries, resolved settings, first weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from tangokg.errors import TrainingError
from tangokg.models import MODELS, Model
from tangokg.models.sizes import Size, fill_by_rule
from tangokg.quads.values import Dataset
from tangokg.rank import Exam, Protocol, prepare
from tangokg.snapshots.timeline import Timeline, build_timeline
from tangokg.snapshots.windows import Queries, Windows, draw_windows, queries_at, queries_of, windows_ahead
from tangokg.train.devices import choose_device
from tangokg.train.memory import check_memory
from tangokg.train.settings import RunConfig, TrainSettings, by_rule


@dataclass(frozen=True, eq=False)
class Material:
    """The input of training: the training snapshots, and the validation queries."""

    source: Timeline  # the training part alone, on the host: the model is built from it
    train: Timeline  # the same with earlier snapshots, if any; these are known, but not trained on
    first: int  # index of the first training snapshot
    exam: Exam | None  # the queries of the validation part, where there is one

    @classmethod
    def of(cls, dataset: Dataset, device: torch.device, horizons: int = 1) -> Material:
        """With ``horizons`` > 1 each validation query is asked twice: one step ahead, and up to so many steps ahead.

        What training has seen is always known: the weights know it too.
        """
        on_host = build_timeline(dataset.before_test)
        known = on_host.to(device)
        size = known.before(float(dataset.valid.t.min())) if len(dataset.valid) else len(known)
        train = known.leading(size)
        if dataset.before is not None:
            source = build_timeline(dataset.train)
        else:
            source = train if known is on_host else on_host.leading(size)
        first = train.before(float(dataset.train.t.min())) if len(dataset.train) else len(train)
        target = torch.arange(size, len(known))
        if not len(target):
            return cls(source, train, first, None)
        if horizons == 1:
            return cls(source, train, first, prepare(known, target))
        far = torch.arange(len(target)).clamp(max=horizons - 1)
        ahead = torch.stack([torch.zeros_like(far), far], dim=1).flatten()
        protocol = Protocol(windows=lambda timeline, _: windows_ahead(timeline, target.repeat_interleave(2), ahead))
        return cls(source, train, first, prepare(known, target.repeat_interleave(2), protocol))

    @property
    def targets(self) -> Tensor:
        """Training snapshots that have a history."""
        return torch.arange(max(self.first, 1), len(self.train))

    @property
    def edges(self) -> Tensor:
        """The edges of these snapshots, by their rows in the timeline."""
        ends = np.concatenate([[0], np.cumsum(self.train.num_edges)])
        return torch.arange(int(ends[max(self.first, 1)]), int(ends[-1]))

    def draw(
        self, targets: Tensor, share: slice, settings: TrainSettings, generator: torch.Generator
    ) -> tuple[Windows, Queries, int]:
        """A step over target snapshots or edges: ``share`` of its windows and queries, and how many all have."""
        if settings.batch_queries:
            return *queries_of(self.train, targets[share]), len(targets)
        windows = draw_windows(self.train, targets, settings.horizons, generator)
        count = int(self.train.num_edges[targets.numpy()].sum())
        if share == slice(None):
            return windows, queries_at(self.train, targets), count
        return windows.select(share), queries_at(self.train, targets[share]), count


def resolve(config: RunConfig, dataset: Dataset) -> RunConfig:
    """The config with every setting that is left to a rule replaced by its value for this data and device."""
    device = choose_device(config.train.device).type
    size = Size.of_facts(dataset.train, device)
    settings, clock = fill_by_rule(config.settings, size), dataset.clock
    if getattr(settings, "unit", None) == "":  # a model that reads the calendar
        settings = replace(settings, unit=clock.unit, origin=clock.origin or "")
    train = by_rule(config.train, 2 * size.facts, size.snapshots, size.entities, device)
    return replace(config, settings=settings, train=train)


def build_model(config: RunConfig, train: Timeline) -> Model:
    """The model of a config with its first weights, drawn from the config's seed."""
    generator = torch.Generator().manual_seed(config.seed)
    device = choose_device(config.train.device).type
    settings = fill_by_rule(config.settings, Size.of(train, device))
    model = MODELS[config.model].build(settings, train, generator)
    return model.double() if config.train.precision == "64-true" else model


def can_learn(config: RunConfig, material: Material, processes: int = 1) -> bool:
    """Whether the model has parameters to train; raises an error if there are too few times or too little memory."""
    with torch.device("meta"):  # sizes without memory
        sized = build_model(config, material.source)
    if not any(True for _ in sized.parameters()):
        return False
    if not len(material.targets):
        raise TrainingError(
            f"the training part has {len(material.source)} distinct time(s); learning from history takes two at least. "
            f"Give more data, or a finer time unit."
        )
    check_memory(sized, material.train, config.train, material.train.device, processes)
    return True


def first_model(config: RunConfig, train: Timeline, start: Callable[[Model], None] | None) -> Model:
    """The model with its first weights: drawn, then set by ``start`` where it is given."""
    model = build_model(config, train)
    if start is not None:
        start(model)
    return model
