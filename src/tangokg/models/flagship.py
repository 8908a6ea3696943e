"""The default model: states of entities beside the history of pairs (docs/maths.md, row M55)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from tangokg.decode import States
from tangokg.decode.losses import filtered_cross_entropy, true_answers
from tangokg.decode.parts import cut, sum_of_parts
from tangokg.errors import ConfigError
from tangokg.history.head import Asked, HistorySettings, Scored, Terms, mix
from tangokg.history.heads import HEAD_ROWS, Heads, check_heads
from tangokg.history.partners import Partners, find_partners
from tangokg.history.subjects import SubjectStream
from tangokg.models.protocol import Held, Sight
from tangokg.models.sizes import Size, history_by_rule
from tangokg.models.tango import Encoded, Tango, TangoSettings
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Queries, Windows

MATRICES = 6  # of (B, N) that the loss holds for its gradient
PAIR_ROWS = 12  # rows of ``width`` numbers that it holds for each partner of a question's subject
STREAM_ROWS = 3  # rows of ``width`` numbers that it holds for each of the last events of a question's subject
HISTORY_BYTES = 400  # of an edge, sorted for the heads
BEST_ROWS = 10  # times ``width`` rows for the best partners of a question, whose number follows from it


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
        return sight and replace(sight, totals=self.settings.activity or bool(self.settings.runs))

    def held(self, train: Timeline) -> Held:
        """As :meth:`_costs` has it for the partners that subjects meet in the end, the mean over all questions."""
        held, size, width = super().held(train), self.entities.element_size(), self.settings.width
        subjects = torch.unique(train.s * train.num_entities + train.o) // train.num_entities
        partners = torch.bincount(subjects, minlength=train.num_entities).index_select(0, train.s)
        mean = float(partners.double().mean()) if len(partners) else 0.0
        rows = PAIR_ROWS * mean + BEST_ROWS * width
        stream = STREAM_ROWS * (width // 2) * width if self.subject is not None else 0
        scores = MATRICES * held.scores // 2 + int(size * width * rows)
        return Held(scores, held.question + size * stream, held.edge + HISTORY_BYTES)

    def partners(self, encoded: Encoded, queries: Queries) -> Partners:
        return find_partners(encoded.timeline, encoded.windows, queries, float(self.gap))

    def ask(self, encoded: Encoded, partners: Partners, generator: torch.Generator | None) -> tuple[Tensor, States]:
        """Query vectors (B, D), and the states to compare them with."""
        queries = partners.queries
        rows, states = encoded.candidates.take(queries.window, queries.s)
        if self.subject is not None:
            rows = rows + self.subject(partners, rows, states.multiply, float(self.gap), generator)
        return self.decoder(rows, encoded.relations, queries.r, generator), states

    def answer(
        self, query: Tensor, states: States, partners: Partners, generator: torch.Generator | None
    ) -> tuple[Tensor, list[Scored]]:
        """Scores (B, N) of the states, and the scores of some candidates from each head."""
        heads: list[Scored] = self.heads(Asked(partners, states.project, float(self.gap), generator))
        return states.scores(query, partners.queries), heads

    def branches(
        self, encoded: Encoded, queries: Queries, generator: torch.Generator | None
    ) -> tuple[Tensor, list[Scored]]:
        """Scores (B, N) of the states, and the scores of some candidates from each head."""
        partners = self.partners(encoded, queries)
        return self.answer(*self.ask(encoded, partners, generator), partners, generator)

    def terms(self, encoded: Encoded, queries: Queries) -> Terms | None:
        return self.heads.terms(self.partners(encoded, queries), float(self.gap))

    def score(self, encoded: Encoded, queries: Queries) -> Tensor:
        distinct, row = queries.distinct()
        return mix(*self.branches(encoded, distinct, None), self.shard).index_select(0, row)

    def forward(self, timeline: Timeline, windows: Windows, queries: Queries, generator: torch.Generator) -> Tensor:
        encoded = self.encode(timeline, windows, generator)
        distinct, row = queries.distinct()
        partners = self.partners(encoded, distinct)
        query, states = self.ask(encoded, partners, generator)
        parts = cut(self._costs(partners), self.score_bytes)
        if len(parts) == 1:
            true = true_answers(timeline, windows, distinct)
            return self._loss(query, states, partners, row, queries.answer, true, generator)

        def loss_of(part: slice, query: Tensor, base: Tensor, touched: Tensor) -> Tensor:
            chosen = ((row >= part.start) & (row < part.stop)).nonzero()[:, 0]  # the answers to these questions
            part_states = replace(states, base=base, touched=touched)
            part_queries = distinct.select(part)
            part_partners, true = self.partners(encoded, part_queries), true_answers(timeline, windows, part_queries)
            rows, answers = row[chosen] - part.start, queries.answer[chosen]
            loss = self._loss(query[part], part_states, part_partners, rows, answers, true, generator)
            return loss * (len(chosen) / len(queries))

        return sum_of_parts(loss_of, parts, (query, states.base, states.touched), self.heads.parameters())

    def _loss(
        self,
        query: Tensor,
        states: States,
        partners: Partners,
        row: Tensor,
        answer: Tensor,
        true: tuple[Tensor, Tensor],
        generator: torch.Generator,
    ) -> Tensor:
        """The mean loss of answers, each to the question in its ``row``; ``true`` are all true ones."""
        scores, heads = self.answer(query, states, partners, generator)
        mixed = mix(scores, heads, self.shard)
        loss = filtered_cross_entropy(mixed, row, answer, true, self.settings.smoothing, self.shard)
        if self.settings.auxiliary and heads:
            auxiliary = filtered_cross_entropy(scores, row, answer, true, shard=self.shard)
            loss = loss + self.settings.auxiliary * auxiliary
        return loss

    def _costs(self, partners: Partners) -> Tensor:
        """(B,) bytes kept for the gradient of each question: scores of all entities, and rows of its partners."""
        num_partners, width = partners.start.diff().index_select(0, partners.of), self.settings.width
        rows = PAIR_ROWS * num_partners + BEST_ROWS * width  # (B,)
        columns = self.shard.most or len(self.entities)
        return self.entities.element_size() * (MATRICES * columns + width * rows)
