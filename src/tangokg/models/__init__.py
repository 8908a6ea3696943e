"""TANGO, the counters and the world's oracle behind one protocol. A new model is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from tangokg.models.authors import AuthorsSettings, TangoAuthors
from tangokg.models.counters import CopyLast, Frequency, Recurrence, RecurrenceSettings
from tangokg.models.protocol import Model
from tangokg.models.tango import Tango, TangoSettings
from tangokg.snapshots.timeline import Timeline


@dataclass(frozen=True)
class NoSettings:
    """For models that have none."""


@dataclass(frozen=True)
class Recipe:
    """How a model is made: settings with their defaults, and a function of settings, training part and generator.

    ``train`` holds what its training takes where that is not the usual.
    """

    about: str
    settings: Any
    build: Callable[[Any, Timeline, torch.Generator], Model]
    train: Mapping[str, Any] = field(default_factory=dict)


MODELS: dict[str, Recipe] = {
    "tango": Recipe(
        "TANGO with TuckER, logits for what was seen before, and newcomers in training: the default",
        TangoSettings(decoder="tucker", copying=True, newcomers=0.05, reach=1.0),
        Tango,
    ),
    "tango-tucker": Recipe("TANGO with the paper's TuckER decoder", TangoSettings(decoder="tucker"), Tango),
    "tango-distmult": Recipe("TANGO with the paper's DistMult decoder", TangoSettings(decoder="distmult"), Tango),
    "tango-authors": Recipe(
        "TANGO as its authors' program departs from the paper, on all entities: for comparison",
        AuthorsSettings(),
        TangoAuthors,
    ),
    "copy-last": Recipe("the objects of the last snapshot again", NoSettings(), lambda *_: CopyLast()),
    "frequency": Recipe("how often a fact was seen before", NoSettings(), lambda *_: Frequency()),
    "recurrence": Recipe(
        "how lately a fact was seen before, decayed", RecurrenceSettings(), lambda settings, *_: Recurrence(settings)
    ),
}

__all__ = ["MODELS", "Model", "NoSettings", "Recipe"]
