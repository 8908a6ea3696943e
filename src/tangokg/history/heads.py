"""The heads that any model can take, by name. A new one is a file with a class, and a line here."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from tangokg.errors import ConfigError, nearest, offer
from tangokg.history.head import Asked, Head, HistorySettings, Scored, Terms
from tangokg.history.pairs import PairScorer
from tangokg.history.partners import Partners
from tangokg.history.paths import Paths

HEADS: dict[str, type[Head]] = {"pairs": PairScorer, "paths": Paths}


class Heads(nn.Module):
    """Several heads, called in order."""

    def __init__(self, settings: HistorySettings, dim: int, num_labels: int, generator: torch.Generator) -> None:
        super().__init__()
        check_heads(settings)
        for name in settings.head_names:
            self.add_module(name, HEADS[name].make(settings, dim, num_labels, generator))

    def __iter__(self) -> Iterator[Head]:
        return (head for head in self.children() if isinstance(head, Head))

    def forward(self, asked: Asked) -> list[Scored]:
        return [scored for head in self for scored in head(asked)]

    def terms(self, partners: Partners, gap: float) -> Terms | None:
        """What single events add to the scores, from the first head that provides it."""
        return next((terms for head in self if (terms := head.terms(partners, gap)) is not None), None)


# State entries with a row for each label, as :attr:`tangokg.models.Model.rows` has them.
HEAD_ROWS = {f"heads.{name}.{row}": "relation" for name, head in HEADS.items() for row in head.rows}


def check_heads(settings: HistorySettings) -> None:
    """Check that all names are known, unique, and listed after the heads that they need."""
    names = settings.head_names
    for i, name in enumerate(names):
        if name not in HEADS:
            raise ConfigError(f"unknown head {name!r}.{offer(nearest(name, HEADS))} Known: {', '.join(HEADS)}.")
        if name in names[:i]:
            raise ConfigError(f"the head {name!r} is named twice.")
        if missing := [need for need in HEADS[name].needs if need not in names[:i]]:
            raise ConfigError(f"the head {name!r} comes after {', '.join(missing)}; found heads {settings.heads!r}.")
