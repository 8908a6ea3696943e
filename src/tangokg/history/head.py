"""A head scores some candidates from the history, beside the scores of any model (docs/maths.md, row M55)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from tangokg.errors import ConfigError
from tangokg.history.partners import Partners
from tangokg.shards import WHOLE, Shard

Project = Callable[[Tensor, Tensor, Tensor], Tensor]  # weight (D, H), window, entity -> states times weight (.., H)
Scored = tuple[Tensor, Tensor, Tensor]  # (row, object, log-intensity), each pair once


class Terms(NamedTuple):
    """What single edges of a timeline add to the score of some candidates."""

    query: Tensor  # (X,)
    o: Tensor  # (X,)
    edge: Tensor  # (X,) row of the timeline
    value: Tensor  # (X,)


@dataclass(frozen=True, eq=False)
class Asked:
    """The inputs of a head. None of them comes from the time of the questions or later."""

    partners: Partners
    project: Project  # multiplies the states of some entities by a weight
    gap: float  # the median gap between training snapshots
    generator: torch.Generator | None = None  # of dropout, in training
    said: dict[str, Any] = field(default_factory=dict)  # what earlier heads leave for later ones, by their name


@dataclass(frozen=True)
class HistorySettings:
    """Settings of the heads, one for all of them: other sizes follow from ``width``."""

    heads: str = "pairs, paths"  # names in HEADS, in this order
    width: int = 0  # of the pair scorer; its other sizes follow from it; 0: 32 on a CPU, 128 on a GPU
    stream: int = 10  # last events of a pair that are looked at one by one
    screen: int = 0  # partners of a question that are scored in full, the best by their counts and events; 0: all
    activity: bool = True  # whether the scorers know how active subject and candidates were
    compete: bool = True  # whether the best partners of a query are compared with one another
    hops: int = 0  # steps along paths beyond the partners, 1 or 2; 0: 2 where most facts last from step to step
    runs: bool | None = None  # whether scorers know since when facts last; none: where most facts last
    pair_dropout: float = 0.25  # in the heads of the history

    def __post_init__(self) -> None:
        if self.width and (self.width < 8 or self.width % 8):
            raise ConfigError(f"width must be a multiple of 8, or 0 for a size by rule, found {self.width}.")
        if self.stream < 1:
            raise ConfigError(f"stream must be at least 1, found {self.stream}.")
        if not 0 <= self.hops <= 2:
            raise ConfigError(f"hops must be 1 or 2, or 0 for a number by rule, found {self.hops}.")
        if not 0 <= self.pair_dropout < 1:
            raise ConfigError(f"pair_dropout must lie in [0, 1), found {self.pair_dropout}.")

    @property
    def head_names(self) -> tuple[str, ...]:
        return tuple(name.strip() for name in self.heads.split(",") if name.strip())


class Head(nn.Module, ABC):
    """Log-intensities of some candidates of each question, from what its window knows.

    Laws that the tests run over every head in ``HEADS``: another question of the same time changes neither its inputs
    nor its scores, a fact that the window does not know changes nothing, and a candidate is scored once for a question.
    """

    needs: ClassVar[tuple[str, ...]] = ()  # heads that must come before
    rows: ClassVar[tuple[str, ...]] = ()  # parameters with a row for each of the 2R labels

    @classmethod
    @abstractmethod
    def make(cls, settings: HistorySettings, dim: int, num_labels: int, generator: torch.Generator) -> Head:
        """A head beside states of size ``dim``."""

    @abstractmethod
    def forward(self, asked: Asked) -> list[Scored]:
        """Scores of some candidates."""

    def terms(self, partners: Partners, gap: float) -> Terms | None:
        """What single events add to its scores, if part of the scores is such a sum."""
        return None


def mix(scores: Tensor, heads: list[Scored], shard: Shard = WHOLE) -> Tensor:
    """The intensities of scores (B, N) and heads added, as logarithms (B, N)."""
    for scored in heads:
        row, o, value = shard.own(*scored[:2], shard.spread(scored[2]))
        at = row * scores.shape[1] + o
        flat = scores.reshape(-1)
        scores = flat.index_add(0, at, softplus(value - flat.index_select(0, at))).view_as(scores)
    return scores
