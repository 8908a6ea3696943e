"""The default model: states of entities beside the history of pairs (docs/maths.md, row M55)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from tangokg.decode.losses import filtered_cross_entropy, other_answers
from tangokg.errors import ConfigError
from tangokg.history.pairs import PairScorer, PairSettings, Scored, Terms
from tangokg.history.partners import find_partners
from tangokg.history.paths import Paths, PathSettings
from tangokg.history.subjects import SubjectStream
from tangokg.models.protocol import Sight
from tangokg.models.sizes import Size
from tangokg.models.tango import Encoded, Tango, TangoSettings
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Queries, Windows


@dataclass(frozen=True)
class FlagshipSettings(TangoSettings):
    """Settings of the default model: those of TANGO for its states, and those of the history."""

    ruled: ClassVar[tuple[str, ...]] = ("dim", "width")  # 0: by rule

    decoder: str = "convtranse"
    dim: int = 0  # D, size of entity and relation states; 0: by the number of facts and the device
    dropout: float = 0.3
    normalise: bool = True
    ode: bool = False  # whether the states move along the neural ODE; beside the history it adds nothing
    pairs: bool = True  # score the partners of the subject by what happened between both
    width: int = 0  # of the pair scorer; its other sizes follow from it; 0: by the number of facts and the device
    stream: int = 10  # last events of a pair that are looked at one by one
    subject: bool = True  # whether a query attends to the last events of its subject
    activity: bool = True  # whether the scorers know how active subject and candidates were
    compete: bool = True  # whether the best partners of a query are compared with one another
    members: int = 1  # pair scorers that share all weights but their last; their shares are averaged
    copies: int = 1
    hops: int = 1  # steps along paths beyond the partners, at most 2
    pair_dropout: float = 0.25  # in the heads of the history
    smoothing: float = 0.1  # of the labels
    auxiliary: float = 0.3  # weight of the loss of the states' own scores

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width and (self.width < 8 or self.width % 8):
            raise ConfigError(f"width must be a multiple of 8, or 0 for a size by rule, found {self.width}.")
        if self.stream < 1:
            raise ConfigError(f"stream must be at least 1, found {self.stream}.")
        if not 0 <= self.hops <= 2:
            raise ConfigError(f"hops must be 0, 1 or 2, found {self.hops}.")
        if self.auxiliary < 0:
            raise ConfigError(f"auxiliary must not be negative, found {self.auxiliary}.")
        for name in ("pair_dropout", "smoothing"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name} must lie in [0, 1), found {getattr(self, name)}.")

    def by_rule(self, size: Size) -> dict[str, int]:
        """Sizes of the states as in TANGO; a CPU has time for a narrow scorer alone."""
        return super().by_rule(size) | {"width": 32 if size.device == "cpu" else 128}

    def pair_settings(self) -> PairSettings:
        half = self.width // 2
        return PairSettings(self.width, half, self.stream, half, self.compete, self.pair_dropout, self.activity, self.members)

    def path_settings(self) -> PathSettings:
        width = self.width
        nodes, edges = (width // 4, width // 2), (width // 8, width // 16 or 1)
        return PathSettings(self.hops, nodes, edges, width // 4, width // 2, self.pair_dropout, self.activity)


class Flagship(Tango):
    r"""Log-intensities of several branches, added as intensities (docs/maths.md, row M55).

    .. math:: x_o = \log\big(e^{S(o)} + \textstyle\sum_b e^{D_b(o)}\big)

    with the score S of the decoded states for every entity, and heads D for some of them.
    """

    rows: ClassVar = Tango.rows | {
        "pairs.event": "relation",
        "pairs.asked": "relation",
        "pairs.relation": "relation",
        "pairs.weights": "relation",
        "subject.query_relation": "relation",
        "subject.key_relation": "relation",
        "subject.value_relation": "relation",
        "subject.decay": "relation",
        **{f"paths.steps.{i}.{name}": "relation" for i in range(2) for name in ("event", "asked", "relation")},
    }
    settings: FlagshipSettings

    def __init__(self, settings: FlagshipSettings, train: Timeline, generator: torch.Generator) -> None:
        super().__init__(settings, train, generator)
        settings, labels = self.settings, 2 * train.num_relations  # sizes that were left to a rule are set now
        dim, width = settings.dim, settings.width
        self.pairs = PairScorer(settings.pair_settings(), dim, labels, generator) if settings.pairs else None
        use_paths = settings.pairs and settings.hops > 0
        self.paths = Paths(settings.path_settings(), dim, width, labels, generator) if use_paths else None
        self.others = nn.ModuleList()
        for _ in range(settings.copies - 1):
            more = PairScorer(settings.pair_settings(), dim, labels, generator)
            self.others.append(nn.ModuleList([more, Paths(settings.path_settings(), dim, width, labels, generator)]))
        self.subject = None
        if settings.subject:
            self.subject = SubjectStream(dim, width // 2, width, labels, settings.dropout, generator)

    def sight(self) -> Sight | None:
        sight = super().sight()
        ways = self.paths.settings.edges[: self.settings.hops] if self.paths is not None else ()
        return sight and replace(sight, ways=ways, totals=self.settings.activity)

    def branches(
        self, encoded: Encoded, queries: Queries, generator: torch.Generator | None
    ) -> tuple[Tensor, list[list[Scored]]]:
        """Scores (B, N) of the states, and of each member what its heads say of some candidates."""
        gap = float(self.gap)
        partners = find_partners(encoded.timeline, encoded.windows, queries)
        rows, states = encoded.candidates.take(queries.window, queries.s)
        if self.subject is not None:
            rows = rows + self.subject(partners, rows, states.base, gap, generator)
        query = self.decoder(rows, encoded.relations, queries.r, generator)
        scores = states.scores(query, queries)
        if self.pairs is None:
            return scores, [[]]
        members = []
        for scorer, paths in [(self.pairs, self.paths), *self.others]:
            pairs = scorer(partners, states.project, gap, generator)
            reached = [] if paths is None else paths(partners, pairs, states.project, gap, generator)
            members += [[(pairs.query, pairs.o, value), *reached] for value in pairs.value]
        return scores, members

    def terms(self, encoded: Encoded, queries: Queries) -> Terms | None:
        if self.pairs is None:
            return None
        return self.pairs.terms(find_partners(encoded.timeline, encoded.windows, queries), float(self.gap))

    @staticmethod
    def mix(scores: Tensor, heads: list[Scored]) -> Tensor:
        """The intensities of all branches added, as logarithms (B, N)."""
        for row, o, value in heads:
            at = row * scores.shape[1] + o
            flat = scores.reshape(-1)
            scores = flat.index_add(0, at, softplus(value - flat.index_select(0, at))).view_as(scores)
        return scores

    def score(self, encoded: Encoded, queries: Queries) -> Tensor:
        scores, members = self.branches(encoded, queries, None)
        if len(members) == 1:
            return self.mix(scores, members[0])
        total = self.mix(scores, members[0]).log_softmax(1)
        for heads in members[1:]:
            total = torch.logaddexp(total, self.mix(scores, heads).log_softmax(1))
        return total - log(len(members))

    def forward(self, timeline: Timeline, windows: Windows, queries: Queries, generator: torch.Generator) -> Tensor:
        encoded = self.encode(timeline, windows, generator)
        scores, members = self.branches(encoded, queries, generator)
        left_out = other_answers(timeline, windows, queries)
        losses = [
            filtered_cross_entropy(self.mix(scores, heads), queries.answer, left_out, self.settings.smoothing)
            for heads in members
        ]
        loss = torch.stack(losses).mean()
        if self.settings.auxiliary and self.pairs is not None:
            loss = loss + self.settings.auxiliary * filtered_cross_entropy(scores, queries.answer, left_out)
        return loss
