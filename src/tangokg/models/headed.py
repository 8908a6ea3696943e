"""Any model with heads of the history: their intensities are added to its shares (docs/maths.md, row M55)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from tangokg.decode.losses import filtered_cross_entropy, true_answers
from tangokg.history.head import Asked, HistorySettings, Terms, mix
from tangokg.history.heads import HEAD_ROWS, Heads, check_heads
from tangokg.history.partners import find_partners
from tangokg.models.protocol import Model, Sight
from tangokg.models.sizes import Size, fill_by_rule, history_by_rule
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Queries, Windows


@dataclass(frozen=True)
class HeadedSettings(HistorySettings):
    """Settings of the heads, and of the model that they extend."""

    ruled: ClassVar[tuple[str, ...]] = ("width", "hops", "runs")  # 0 or none: by rule

    beside: str = "recurrency"  # a name in MODELS
    own: Mapping[str, Any] = field(default_factory=dict, hash=False)  # the settings of that model

    def __post_init__(self) -> None:
        super().__post_init__()
        check_heads(self)

    def by_rule(self, size: Size) -> dict[str, int]:
        return history_by_rule(size)


@dataclass(frozen=True, eq=False)
class Encoded:
    own: Any  # the encoding of the other model
    timeline: Timeline
    windows: Windows


class Headed(Model):
    r"""Shares p of another model and heads D, added as intensities.

    .. math:: x_o = \log\big(p_o + e^a + \textstyle\sum_b e^{D_b(o)}\big)

    with a learned intensity for anyone at all, as a counter gives most candidates nothing. The heads see no states. The
    other model is trained by its own loss and by that of the sum.
    """

    gap: Tensor

    def __init__(self, settings: HeadedSettings, beside: Model, train: Timeline, generator: torch.Generator) -> None:
        super().__init__()
        self.settings = settings = fill_by_rule(settings, Size.of(train))
        self.beside, self.one_by_one = beside, beside.one_by_one
        self.heads = Heads(settings, 1, 2 * train.num_relations, generator)
        self.anyone = nn.Parameter(torch.tensor(0.1 / max(1, train.num_entities)).log())  # a
        vars(self)["rows"] = {f"beside.{name}": kind for name, kind in beside.rows.items()} | HEAD_ROWS
        self.register_buffer("gap", train.t.diff().median() if len(train) > 1 else torch.ones((), dtype=torch.float64))

    def encode(self, timeline: Timeline, windows: Windows) -> Encoded:
        return Encoded(self.beside.encode(timeline, windows), timeline, windows)

    def score(self, encoded: Encoded, queries: Queries, generator: torch.Generator | None = None) -> Tensor:
        shares = self.beside.probabilities(self.beside.score(encoded.own, queries))
        shares = shares.to(self.anyone.dtype) + self.anyone.exp()
        partners = find_partners(encoded.timeline, encoded.windows, queries, float(self.gap))
        heads = self.heads(Asked(partners, no_states, float(self.gap), generator))
        return mix(shares.log(), heads)

    def states(self, encoded: Encoded) -> Tensor | None:
        return self.beside.states(encoded.own)

    def terms(self, encoded: Encoded, queries: Queries) -> Terms | None:
        return self.heads.terms(
            find_partners(encoded.timeline, encoded.windows, queries, float(self.gap)), float(self.gap)
        )

    def sight(self) -> Sight | None:
        sight = self.beside.sight()
        return sight and replace(sight, totals=self.settings.activity or bool(self.settings.runs))

    def look_at(self, encoded: Encoded, timeline: Timeline) -> Encoded:
        return Encoded(self.beside.look_at(encoded.own, timeline), timeline, encoded.windows)

    def settle(self, train: Timeline) -> None:
        self.beside.settle(train)

    def choose(self, label: Tensor, judge: Callable[[], Tensor]) -> None:
        self.beside.choose(label, judge)

    def release(self) -> None:
        super().release()
        self.beside.release()

    def forward(self, timeline: Timeline, windows: Windows, queries: Queries, generator: torch.Generator) -> Tensor:
        distinct, row = queries.distinct()
        scores = self.score(self.encode(timeline, windows), distinct, generator)
        loss = filtered_cross_entropy(scores, row, queries.answer, true_answers(timeline, windows, distinct))
        if any(True for _ in self.beside.parameters()):
            loss = loss + self.beside(timeline, windows, queries, generator)
        return loss


def no_states(weight: Tensor, window: Tensor, entity: Tensor) -> Tensor:
    """The state projection that heads get from a model without states."""
    return weight.new_zeros(len(entity), weight.shape[1])
