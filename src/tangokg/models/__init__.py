"""TANGO, the baselines and the counters behind one protocol. A new model is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from tangokg.config import update
from tangokg.errors import ConfigError, nearest, offer
from tangokg.models.authors import AuthorsSettings, TangoAuthors
from tangokg.models.compgcn import CompGCN, CompGCNSettings
from tangokg.models.counters import CopyLast, Frequency, Recurrence, RecurrenceSettings
from tangokg.models.cygnet import CyGNet, CyGNetSettings
from tangokg.models.desimple import DESimplE, DESimplESettings
from tangokg.models.flagship import Flagship, FlagshipSettings
from tangokg.models.headed import Headed, HeadedSettings
from tangokg.models.protocol import Model
from tangokg.models.recurrency import Recurrency, RecurrencySettings
from tangokg.models.renet import ReNet, ReNetSettings
from tangokg.models.sizes import Size, fill_by_rule
from tangokg.models.static import DistMultSettings, StaticDistMult, StaticTuckER, TuckERSettings
from tangokg.models.tadistmult import TADistMult, TADistMultSettings
from tangokg.models.tango import Tango, TangoSettings
from tangokg.models.tntcomplex import TNTComplEx, TNTComplExSettings
from tangokg.models.ttranse import TTransE, TTransESettings
from tangokg.snapshots.timeline import Timeline


@dataclass(frozen=True)
class NoSettings:
    """For models that have none."""


@dataclass(frozen=True)
class Recipe:
    """How to build a model: default settings, and a function of settings, training part and generator.

    ``train`` holds what its training takes where that is not the usual.
    """

    about: str
    settings: Any
    build: Callable[[Any, Timeline, torch.Generator], Model]
    train: Mapping[str, Any] = field(default_factory=dict)


def _build_headed(settings: HeadedSettings, train: Timeline, generator: torch.Generator) -> Headed:
    """Build heads on top of the model that the settings name."""
    if settings.beside not in MODELS:
        raise ConfigError(f"beside: unknown model {settings.beside!r}.{offer(nearest(settings.beside, MODELS))}")
    recipe = MODELS[settings.beside]
    inner = fill_by_rule(update(recipe.settings, settings.own, f"own ({settings.beside})"), Size.of(train))
    return Headed(settings, recipe.build(inner, train, generator), train, generator)


OF_HISTORY = {
    "epochs": 0,
    "schedule": "cosine",
    "optimizer": "adamw",
    "weight_decay": 1e-3,
    "step_queries": 2_000,
    "horizons": 8,
}

MODELS: dict[str, Recipe] = {
    "tango": Recipe(
        "states of entities beside the history of subject and candidate, streams and paths: the default",
        FlagshipSettings(),
        Flagship,
        OF_HISTORY,
    ),
    "history": Recipe(
        "any model (beside=NAME) with heads of the history, such as pairs and paths: to see what each adds",
        HeadedSettings(),
        _build_headed,
        OF_HISTORY,
    ),
    "tango-tucker": Recipe("TANGO with the paper's TuckER decoder", TangoSettings(decoder="tucker"), Tango),
    "tango-distmult": Recipe("TANGO with the paper's DistMult decoder", TangoSettings(decoder="distmult"), Tango),
    "tango-authors": Recipe(
        "TANGO as its authors' program departs from the paper, on all entities: for comparison",
        AuthorsSettings(),
        TangoAuthors,
    ),
    "distmult": Recipe(
        "DistMult on the training facts without their times",
        DistMultSettings(),
        StaticDistMult,
        {"batch_queries": 1024, "learning_rate": 3e-3, "clip": 0.0},
    ),
    "tucker": Recipe(
        "TuckER on the training facts without their times",
        TuckERSettings(),
        StaticTuckER,
        {"batch_queries": 1024, "learning_rate": 3e-3, "clip": 0.0},
    ),
    "compgcn": Recipe(
        "CompGCN: a convolution over the graph of all training facts, without their times",
        CompGCNSettings(),
        CompGCN,
        {"batch_queries": 1024, "learning_rate": 3e-3, "clip": 0.0},
    ),
    "ttranse": Recipe(
        "TTransE: a vector for each time beside those of entities and relations",
        TTransESettings(),
        TTransE,
        {"batch_queries": 1024, "learning_rate": 5e-3, "clip": 0.0, "patience": 10},
    ),
    "ta-distmult": Recipe(
        "TA-DistMult: DistMult with a relation that an LSTM reads from the date",
        TADistMultSettings(),
        TADistMult,
        {"batch_queries": 1024, "learning_rate": 1e-3, "clip": 0.0},
    ),
    "cygnet": Recipe(
        "CyGNet: what stood with (s, r) before is copied, anything else generated",
        CyGNetSettings(),
        CyGNet,
        {"batch_queries": 1024, "learning_rate": 1e-3, "epochs": 30, "clip": 0.0},
    ),
    "recurrency": Recipe(
        "the recurrency baseline: strict and relaxed, its parameters chosen on validation",
        RecurrencySettings(),
        lambda settings, train, _: Recurrency(settings, train),
    ),
    "de-simple": Recipe(
        "DE-SimplE: entities whose features swing with year, month and day",
        DESimplESettings(),
        DESimplE,
        {"batch_queries": 1024, "learning_rate": 1e-3, "clip": 0.0},
    ),
    "tntcomplex": Recipe(
        "TNTComplEx: complex factors of entities, relations and times",
        TNTComplExSettings(),
        TNTComplEx,
        {"batch_queries": 1024, "learning_rate": 1e-3, "clip": 0.0},
    ),
    "renet": Recipe(
        "RE-Net: a recurrent network over the neighbourhoods that the subject had, and a global one",
        ReNetSettings(),
        ReNet,
        {"batch_queries": 1024, "learning_rate": 1e-3, "weight_decay": 1e-5, "epochs": 20},
    ),
    "copy-last": Recipe("the objects of the last snapshot again", NoSettings(), lambda *_: CopyLast()),
    "frequency": Recipe("how often a fact was seen before", NoSettings(), lambda *_: Frequency()),
    "recurrence": Recipe(
        "how lately a fact was seen before, decayed", RecurrenceSettings(), lambda settings, *_: Recurrence(settings)
    ),
}

__all__ = ["MODELS", "Model", "NoSettings", "Recipe"]
