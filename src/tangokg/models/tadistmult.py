"""TA-DistMult: an LSTM reads a relation and the digits of a date, DistMult scores (docs/maths.md, row M37)."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, embedding, normalize

from tangokg.decode.settings import check_settings
from tangokg.history.growth import grow_by_mean, grow_rows
from tangokg.masks import dropout
from tangokg.models.protocol import Model
from tangokg.models.ttranse import nearest_rows
from tangokg.quads.clock import UNITS, Clock
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Queries, Windows

# Where the digits of an ISO date stand, and their first token: ten for each kind of digit, one for each month.
DIGITS = {0: (0, 1, 2, 3), 10: (8, 9), 20: (11, 12), 30: (14, 15), 40: (17, 18)}
MONTHS = 50
TOKENS = 62
LENGTHS = {
    "year": 4,
    "quarter": 7,
    "month": 7,
    "hour": 13,
    "minute": 16,
    "second": 19,
}  # of the date that is read; else a day's
FEW = 4_096  # questions of a step that a GPU reads one by one, rather than be asked which of them are alike


@dataclass(frozen=True)
class TADistMultSettings:
    """Settings of TA-DistMult."""

    dim: int = 100  # D, size of entity vectors, tokens and the LSTM's state
    dropout: float = 0.4  # on the subject and on the relation that the LSTM gives
    negatives: int = 0  # wrong objects drawn for each question; 0: all entities
    penalty: float = 0.01  # weight of the mean squares of entities and relations
    unit: str = ""  # of the data's times, such as day; "": from the data
    origin: str = ""  # ISO date of time 0; "": from the data, and without one the digits of the step are read

    def __post_init__(self) -> None:
        check_settings(self, sizes=["dim"], rates=["dropout"], weights=["negatives", "penalty"])
        if self.unit:
            check_settings(self, choices={"unit": tuple(UNITS)})


@dataclass(frozen=True)
class Calendar:
    """The tokens of a time, which depend on the time alone: 2014-01-13 is 2y 0y 1y 4y 01m 1d 3d.

    Units shorter than a day add the digits of hour, minute and second. Without an origin a time is the last
    ``width`` decimal digits of its step. A fraction of a step is not read.
    """

    clock: Clock
    width: int

    def tokens(self, t: float) -> list[int]:
        step = floor(t)
        if self.clock.origin is None:
            return [int(digit) for digit in f"{step % 10**self.width:0{self.width}d}"]
        text = self.clock.format(step)[: LENGTHS.get(self.clock.unit, 10)]
        if self.clock.unit == "quarter":  # 2014-Q4 as its first month
            text = f"{text[:5]}{3 * int(text[6]) - 2:02}"
        tokens = {i: first + int(text[i]) for first, places in DIGITS.items() for i in places if i < len(text)}
        if len(text) > 5:
            tokens[5] = MONTHS + int(text[5:7]) - 1
        return [tokens[i] for i in sorted(tokens)]


@dataclass(frozen=True, eq=False)
class Dated:
    """The parts of a question; the tokens of a time belong to a window."""

    entities: Tensor  # (N, D)
    relations: Tensor  # (2R, D), what the LSTM reads first
    tokens: Tensor  # (W, L)


class TADistMult(Model):
    r"""DistMult with a relation made by an LSTM from its label and the tokens of the time.

    .. math::
        r_{rt} = \mathrm{LSTM}(r_r, c_1(t), \dots, c_L(t)), \qquad x_o = \langle e_s, r_{rt}, e_o \rangle, \qquad
        loss = -\frac{1}{B} \sum_b \log \frac{e^{x_{o_b}}}{\sum_{o'} e^{x_{o'}}}
        + \lambda \, (\overline{e^2} + \overline{r_{rt}^2})

    with the LSTM's last state. Source: García-Durán, Dumančić and Niepert, Learning Sequence Encoders for Temporal
    Knowledge Graph Completion, 2018. The sum runs over all entities, theirs over drawn ones (``negatives``).
    :math:`\lambda` and first vectors of length 1 are those of the program that the paper compares with (RE-Net's),
    which has a binary loss with one drawn entity and an LSTM without tanh. That program counts the steps of every set
    as hours of 2018; here a date is read as far as the data have it, on sets of years the year alone. A reciprocal
    relation has a label of its own, as in all models here.

    A time never seen in training is made of tokens that were: a date is another order of known digits.
    """

    rows: ClassVar = {"entities": "entity", "relations": "relation"}
    looks_back: ClassVar[bool] = False
    t: Tensor  # (T,) training times
    read: Tensor  # (T, L) their tokens

    def __init__(self, settings: TADistMultSettings, train: Timeline, generator: torch.Generator) -> None:
        super().__init__()
        dim, times = settings.dim, train.t.tolist()
        self.settings = settings
        longest = len(str(int(max(map(abs, times), default=0))))
        clock = Clock(settings.unit or "step", settings.origin or None)
        self.calendar = Calendar(clock, longest + 1)  # steps of the future may need one digit more
        self.entities = nn.Parameter(torch.empty(train.num_entities, dim))
        self.relations = nn.Parameter(torch.empty(2 * train.num_relations, dim))
        self.tokens = nn.Parameter(torch.empty(TOKENS, dim))
        for table in (self.entities, self.relations, self.tokens):
            nn.init.xavier_uniform_(table, generator=generator)
            table.data = normalize(table.data, dim=1)
        self.lstm = nn.LSTM(dim, dim, batch_first=True)
        for weight in self.lstm.parameters():
            nn.init.uniform_(weight, -(dim**-0.5), dim**-0.5, generator=generator)
        self.register_buffer("t", train.t.clone(), persistent=False)
        self.register_buffer("read", self._tokens(train.t), persistent=False)

    def _tokens(self, t: Tensor) -> Tensor:
        """(W, L) tokens of the times ``t`` (W,); waits for a GPU to give the times."""
        read = [self.calendar.tokens(moment) for moment in t.tolist()]
        return torch.tensor(read, dtype=torch.int64, device=t.device).view(len(t), len(self.calendar.tokens(0.0)))

    def encode(self, timeline: Timeline, windows: Windows) -> Dated:
        return self._dated(timeline, self._tokens(windows.t))

    def _dated(self, timeline: Timeline, tokens: Tensor) -> Dated:
        entities = grow_rows(self.entities, timeline.num_entities)
        return Dated(entities, grow_by_mean(self.relations, timeline.num_relations), tokens)

    def states(self, encoded: Dated) -> Tensor:
        return encoded.entities

    def score(self, encoded: Dated, queries: Queries) -> Tensor:
        subject = encoded.entities.index_select(0, queries.s)
        return (subject * self._relations(encoded, queries)) @ encoded.entities.T  # (B, N)

    def forward(self, timeline: Timeline, windows: Windows, queries: Queries, generator: torch.Generator) -> Tensor:
        row = nearest_rows(self.t.to(windows.t.dtype), windows.t)  # of the time itself: a GPU is not asked for it
        encoded = self._dated(timeline, self.read.index_select(0, row))
        subject, relation = encoded.entities.index_select(0, queries.s), self._relations(encoded, queries)
        answer = encoded.entities.index_select(0, queries.answer)
        settings = self.settings
        query = dropout(subject, settings.dropout, generator) * dropout(relation, settings.dropout, generator)  # (B, D)
        squares = torch.cat([subject, answer]).square().mean() + relation.square().mean()
        if not settings.negatives:
            return cross_entropy(query @ encoded.entities.T, queries.answer) + settings.penalty * squares
        size = (len(queries), settings.negatives)
        wrong = torch.randint(timeline.num_entities, size, generator=generator, device=queries.s.device)  # (B, K)
        rivals = encoded.entities.index_select(0, wrong.flatten()).view(*size, -1)  # (B, K, D)
        true = (query * answer).sum(1, keepdim=True)  # (B, 1)
        scores = torch.cat([true, (rivals @ query[:, :, None])[:, :, 0]], dim=1)  # (B, 1 + K)
        return cross_entropy(scores, torch.zeros_like(queries.answer)) + settings.penalty * squares

    def _relations(self, encoded: Dated, queries: Queries) -> Tensor:
        """The LSTM's last state (B, D) for each question; it reads each distinct (r, time) once."""
        labels = len(encoded.relations)
        keys = queries.window * labels + queries.r  # (B,)
        if keys.is_cuda and self.training and len(keys) <= FEW:
            return self._read(encoded, keys)
        distinct, of = torch.unique(keys, return_inverse=True)  # (U,), (B,)
        return self._read(encoded, distinct).index_select(0, of)

    def _read(self, encoded: Dated, keys: Tensor) -> Tensor:
        """The LSTM's last state (U, D) after the label and the tokens of each ``keys`` (U,) = window * 2R + r."""
        labels = len(encoded.relations)
        first = encoded.relations.index_select(0, keys % labels)[:, None]  # (U, 1, D)
        tokens = encoded.tokens.index_select(0, keys // labels)  # (U, L)
        words = torch.cat([first, embedding(tokens, self.tokens)], dim=1)  # (U, 1 + L, D)
        _, (state, _) = self.lstm(words)
        last: Tensor = state[0]
        return last
