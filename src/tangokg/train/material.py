"""Dataset and config -> what a training looks at: snapshots, validation queries, resolved settings, first weights."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from tangokg.models import MODELS, Model
from tangokg.models.sizes import Size, fill_by_rule
from tangokg.quads.values import Dataset, concatenate
from tangokg.rank import Exam, prepare
from tangokg.snapshots.timeline import Timeline, build_timeline
from tangokg.train.devices import choose_device
from tangokg.train.settings import RunConfig, by_rule


@dataclass(frozen=True, eq=False)
class Material:
    """What training looks at: the training snapshots, and what is asked of validation."""

    train: Timeline  # and the snapshots before the training part, where there are some
    first: int  # index of the first training snapshot
    exam: Exam | None  # the queries of the validation part, where there is one

    @classmethod
    def of(cls, dataset: Dataset, device: torch.device) -> Material:
        train = build_timeline(dataset.past).to(device)
        first = train.before(float(dataset.train.t.min())) if len(dataset.train) else len(train)
        if not len(dataset.valid):
            return cls(train, first, None)
        valid = build_timeline(concatenate([dataset.past, dataset.valid])).to(device)
        return cls(train, first, prepare(valid, torch.arange(len(train), len(valid))))

    @property
    def targets(self) -> Tensor:
        """Training snapshots that have a history."""
        return torch.arange(max(self.first, 1), len(self.train))

    @property
    def edges(self) -> Tensor:
        """The edges of these snapshots, by their rows in the timeline."""
        ends = np.concatenate([[0], np.cumsum(self.train.num_edges)])
        return torch.arange(int(ends[max(self.first, 1)]), int(ends[-1]))


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
