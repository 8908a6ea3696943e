"""The default model: states of entities beside the history of pairs (docs/maths.md, row M55)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from tangokg.decode.losses import filtered_cross_entropy, true_answers
from tangokg.errors import ConfigError
from tangokg.history.head import Asked, HistorySettings, Scored, Terms, mix
from tangokg.history.heads import HEAD_ROWS, Heads, check_heads
from tangokg.history.partners import find_partners
from tangokg.history.subjects import SubjectStream
from tangokg.models.protocol import Sight
from tangokg.models.sizes import Size, history_by_rule
from tangokg.models.tango import Encoded, Tango, TangoSettings
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Queries, Windows


@dataclass(frozen=True)
class FlagshipSettings(HistorySettings, TangoSettings):
    """Settings of the default model: those of TANGO for its states, and those of the history."""

    ruled: ClassVar[tuple[str, ...]] = ("dim", "width", "hops", "runs")  # 0 or none: by rule

    decoder: str = "convtranse"
    dim: int = 0  # D, size of entity and relation states; 0: by the number of facts and the device
    dropout: float = 0.3
    normalise: bool = True
    ode: bool = False  # whether the states move along the neural ODE; beside the history it adds nothing
    subject: bool = True  # whether a query attends to the last events of its subject
    smoothing: float = 0.1  # of the labels
    auxiliary: float = 0.3  # weight of the loss of the states' own scores

    def __post_init__(self) -> None:
        TangoSettings.__post_init__(self)
        HistorySettings.__post_init__(self)
        check_heads(self)
        if self.auxiliary < 0:
            raise ConfigError(f"auxiliary must not be negative, found {self.auxiliary}.")
        if not 0 <= self.smoothing < 1:
            raise ConfigError(f"smoothing must lie in [0, 1), found {self.smoothing}.")

    def by_rule(self, size: Size) -> dict[str, int]:
        return super().by_rule(size) | history_by_rule(size)


class Flagship(Tango):
    r"""Log-intensities of several branches, added as intensities (docs/maths.md, row M55).

    .. math:: x_o = \log\big(e^{S(o)} + \textstyle\sum_b e^{D_b(o)}\big)

    with the score S of the decoded states for every entity, and heads D for some of them.
    """

    rows: ClassVar = (
        Tango.rows
        | {f"subject.{name}": "relation" for name in ("query_relation", "key_relation", "value_relation", "decay")}
        | HEAD_ROWS
    )
    settings: FlagshipSettings

    def __init__(self, settings: FlagshipSettings, train: Timeline, generator: torch.Generator) -> None:
        super().__init__(settings, train, generator)
        settings, labels = self.settings, 2 * train.num_relations  # sizes that were left to a rule are set now
        self.heads = Heads(settings, settings.dim, labels, generator)
        self.subject = None
        if settings.subject:
            width = settings.width
            self.subject = SubjectStream(settings.dim, width // 2, width, labels, settings.dropout, generator)

    def sight(self) -> Sight | None:
        sight = super().sight()
        return sight and replace(sight, ways=self.heads.ways, totals=self.settings.activity or bool(self.settings.runs))

    def branches(
        self, encoded: Encoded, queries: Queries, generator: torch.Generator | None
    ) -> tuple[Tensor, list[Scored]]:
        """Scores (B, N) of the states, and what each head says of some candidates."""
        gap = float(self.gap)
        partners = find_partners(encoded.timeline, encoded.windows, queries, gap)
        rows, states = encoded.candidates.take(queries.window, queries.s)
        if self.subject is not None:
            rows = rows + self.subject(partners, rows, states.base, gap, generator)
        query = self.decoder(rows, encoded.relations, queries.r, generator)
        heads: list[Scored] = self.heads(Asked(partners, states.project, gap, generator))
        return states.scores(query, queries), heads

    def terms(self, encoded: Encoded, queries: Queries) -> Terms | None:
        return self.heads.terms(
            find_partners(encoded.timeline, encoded.windows, queries, float(self.gap)), float(self.gap)
        )

    def score(self, encoded: Encoded, queries: Queries) -> Tensor:
        distinct, row = queries.distinct()
        return mix(*self.branches(encoded, distinct, None)).index_select(0, row)

    def forward(self, timeline: Timeline, windows: Windows, queries: Queries, generator: torch.Generator) -> Tensor:
        distinct, row = queries.distinct()
        scores, heads = self.branches(self.encode(timeline, windows, generator), distinct, generator)
        true = true_answers(timeline, windows, distinct)
        loss = filtered_cross_entropy(mix(scores, heads), row, queries.answer, true, self.settings.smoothing)
        if self.settings.auxiliary and heads:
            loss = loss + self.settings.auxiliary * filtered_cross_entropy(scores, row, queries.answer, true)
        return loss
