"""The default model: states of the neural ODE beside what happened between subject and candidate (row M45)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import softplus

from tangokg.decode.losses import filtered_cross_entropy, other_answers
from tangokg.history.pairs import PairScorer, PairSettings, Scored
from tangokg.history.partners import find_partners
from tangokg.history.paths import Paths, PathSettings
from tangokg.history.popularity import Popularity, activity_of
from tangokg.history.subjects import SubjectStream
from tangokg.models.tango import Encoded, Tango, TangoSettings
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Queries, Windows


@dataclass(frozen=True)
class FlagshipSettings(TangoSettings):
    """Settings of the flagship: those of TANGO for its states, and those of the history."""

    pairs: bool = True  # score the partners of the subject by what happened between both
    width: int = 128  # of the pair scorer
    rank: int = 64  # of the vector that a pair's last events add up to
    stream: int = 10  # last events of a pair that are looked at one by one
    subject: int = 64  # last events of the subject that the query attends to; 0: none
    heads: int = 4  # of that attention
    best: int = 64  # partners of a query that are looked at again
    compete: bool = True  # whether these are compared with one another
    forget: float = 0.1  # share of the past that a training step does not see
    popularity: bool = True  # how active candidates were counts for all of them
    hops: int = 0  # steps along paths beyond the partners
    path_loss: float = 0.0
    pair_dropout: float = 0.25
    smoothing: float = 0.1  # of the labels
    auxiliary: float = 0.3  # weight of the loss of the states' own scores
    filtered: bool = True  # other true objects of (s, r, t) leave the loss


class Flagship(Tango):
    r"""Log-intensities of several branches, added as intensities (docs/maths.md, row M45).

    .. math:: x_o = \log\big(e^{S(o)} + \textstyle\sum_b e^{D_b(o)}\big)

    with the score S of the decoded states for every entity, and heads D for some of them.
    """

    rows: ClassVar = Tango.rows
    settings: FlagshipSettings

    def __init__(self, settings: FlagshipSettings, train: Timeline, generator: torch.Generator) -> None:
        super().__init__(settings, train, generator)
        labels = 2 * train.num_relations
        names = ("width", "rank", "stream", "best", "compete", "forget")
        pair = PairSettings(**{name: getattr(settings, name) for name in names}, dropout=settings.pair_dropout)
        self.pairs = PairScorer(pair, settings.dim, labels, generator) if settings.pairs else None
        self.popularity = Popularity(labels) if settings.popularity else None
        self.paths = None
        if settings.hops:
            path = PathSettings(hops=settings.hops, dropout=settings.pair_dropout)
            self.paths = Paths(path, settings.dim, settings.width, labels, generator)
        self.subject = (
            SubjectStream(settings.dim, settings.subject, settings.heads, labels, settings.dropout, generator)
            if settings.subject
            else None
        )

    def branches(
        self, encoded: Encoded, queries: Queries, generator: torch.Generator | None
    ) -> tuple[Tensor, list[Scored]]:
        """Scores (B, N) of the states, and what each head says of some candidates."""
        gap = float(self.gap)
        partners = find_partners(encoded.timeline, encoded.windows, queries)
        rows, states = encoded.candidates.take(queries.window, queries.s)
        direct: Tensor | float = 0.0
        if self.subject is not None:
            context, direct = self.subject(partners, rows, states.base, gap, generator)
            rows = rows + context
        query = self.decoder(rows, encoded.relations, queries.r, generator) + direct
        scores = states.scores(query, queries)
        activity = activity_of(partners, gap, scores.dtype)
        if self.popularity is not None:
            scores = scores + self.popularity(partners, activity, queries.sizes, gap)
        heads: list[Scored] = []
        if self.pairs is not None:
            pairs = self.pairs(partners, states.project, activity.project, gap, generator)
            heads.append((pairs.query, pairs.o, pairs.value))
            if self.paths is not None:
                heads += self.paths(partners, pairs, states.project, gap, generator)
        return scores, heads

    @staticmethod
    def mix(scores: Tensor, heads: list[Scored]) -> Tensor:
        """The intensities of all branches added, as logarithms (B, N)."""
        for row, o, value in heads:
            at = row * scores.shape[1] + o
            flat = scores.reshape(-1)
            scores = flat.index_add(0, at, softplus(value - flat.index_select(0, at))).view_as(scores)
        return scores

    def score(self, encoded: Encoded, queries: Queries) -> Tensor:
        return self.mix(*self.branches(encoded, queries, None))

    def forward(self, timeline: Timeline, windows: Windows, queries: Queries, generator: torch.Generator) -> Tensor:
        encoded = self.encode(timeline, windows, generator)
        scores, heads = self.branches(encoded, queries, generator)
        left_out = queries.s[:0], queries.s[:0]
        if self.settings.filtered:
            left_out = other_answers(timeline, windows, queries)
        loss = filtered_cross_entropy(self.mix(scores, heads), queries.answer, left_out, self.settings.smoothing)
        if self.settings.auxiliary and heads:
            loss = loss + self.settings.auxiliary * filtered_cross_entropy(scores, queries.answer, left_out)
        return loss
