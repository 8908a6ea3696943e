"""Models without time: they answer from the training facts alone (rows M33, M34)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, logsigmoid, softplus

from tangokg.decode import (
    Decoder,
    Decoding,
    DistMult,
    TuckER,
    TuckERDecoding,
    check_settings,
    check_sizes_and_rates,
)
from tangokg.history import sort_occurrences
from tangokg.history.growth import grow_by_mean, grow_rows
from tangokg.models.protocol import Model
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Queries, Windows

LOSSES = ("bce", "bce-asked", "ce")


def check_static(settings: Any) -> None:
    """Sizes are at least 1, rates lie in [0, 1), and the loss is one of ours."""
    check_sizes_and_rates(settings)
    check_settings(settings, choices={"loss": LOSSES})


@dataclass(frozen=True)
class DistMultSettings:
    """Settings of the static DistMult."""

    dim: int = 200  # D, size of the embeddings
    init_size: float = 0.0  # standard deviation of first weights; 0: Xavier's, which is less the more rows there are
    dropout: float = 0.2  # on the product of subject and relation
    loss: str = "bce-asked"  # true is with bce all that stood with (s, r) in training; bce-asked, ce: the answer
    smoothing: float = 0.1  # of the targets of both bce; 0: none

    def __post_init__(self) -> None:
        check_static(self)


@dataclass(frozen=True)
class TuckERSettings:
    """Settings of the static TuckER: its authors' for FB15k-237, but for the loss (bce there)."""

    dim: int = 200  # D, size of the embeddings of entities and of relations
    dropout_subject: float = 0.3  # on the normalised subject
    dropout_matrix: float = 0.4  # on the matrix that the core and the relation make, one for each query
    dropout_query: float = 0.5  # on the normalised product of the two
    loss: str = "ce"  # true is with bce all that stood with (s, r) in training; bce-asked, ce: the answer
    smoothing: float = 0.1  # of the targets of both bce; 0: none

    def __post_init__(self) -> None:
        check_static(self)


@dataclass(frozen=True, eq=False)
class Objects:
    """The distinct objects of each (s, r) of a timeline, at any time: one run of rows for each pair."""

    pair: Tensor  # (P,) s * 2R + r, ascending
    offset: Tensor  # (P + 1,)
    o: Tensor  # (F,)
    longest: int  # of the runs
    num_labels: int  # 2R

    def of(self, queries: Queries) -> tuple[Tensor, Tensor]:
        """Objects (B, longest) of the (s, r) of each query in training, and a mask of the valid ones.

        All rows are as long as the longest, so that no size has to be read from a GPU.
        """
        at = torch.searchsorted(self.pair, queries.s * self.num_labels + queries.r)  # (B,)
        start, stop = (self.offset.index_select(0, at + i)[:, None] for i in (0, 1))
        rows = start + torch.arange(self.longest, device=start.device)  # (B, longest)
        return self.o[rows.clamp(max=len(self.o) - 1)], rows < stop


def group_objects(timeline: Timeline) -> Objects:
    """The objects of each (s, r) of a timeline."""
    facts = sort_occurrences(timeline)
    pair, size = torch.unique_consecutive(facts.pair, return_counts=True)
    offset = torch.cat([size.new_zeros(1), size.cumsum(0)])
    return Objects(pair, offset, facts.o, int(size.max()), facts.num_labels)


def true_scores(scores: Tensor, queries: Queries, objects: Objects) -> Tensor:
    """The summed scores (B,) of all objects of (s, r) in training. No (B, N) tensor of targets is created."""
    o, mask = objects.of(queries)  # (B, longest)
    return scores.gather(1, o).masked_fill(~mask, 0.0).sum(1)


def binary_loss(scores: Tensor, true: Tensor, smoothing: float) -> Tensor:
    r"""Binary cross-entropy of all candidates (docs/maths.md, row M33), summed over them, the mean over queries.

    .. math::
        L = \frac{1}{B} \sum_b \sum_o \log(1 + e^{x_{bo}}) - y_{bo} x_{bo},
        \qquad y_{bo} = (1 - \epsilon) [o \in O_b] + \frac{1}{N}

    where :math:`O_b` is what counts as true, and ``true`` the sum of its scores; without smoothing nothing is added to
    it. With all objects of (s, r) in training (bce) the model learns what was ever true, with the object of the asked
    fact alone (bce-asked) how often. The mean over candidates, which is usual, is this divided by N; Adam does not tell
    the two apart, but for an epsilon which gradients so small come near.
    """
    loss = softplus(scores).sum(1) - (1.0 - smoothing) * true
    return (loss - scores.mean(1) if smoothing else loss).mean()


def first_bias(train: Timeline, loss: str, smoothing: float) -> Tensor:
    r""":math:`\log \bar y / (1 - \bar y)` of the mean target of :func:`binary_loss` over all questions, ().

    Scores that begin there give each candidate the chance that one has. Begun at 0 every chance is one half, and some
    epochs are spent on lowering them all: on ICEWS14s DistMult had a validation MRR of 7 after two, and with it 25.
    """
    n = train.num_entities
    if not len(train.s):
        return torch.zeros(())
    true = torch.ones((), dtype=torch.float64)
    if loss == "bce":
        objects = train.derive(group_objects)
        at = torch.searchsorted(objects.pair, train.s * objects.num_labels + train.r)  # (E,)
        true = objects.offset.diff()[at].double().mean()
    return torch.logit((1.0 - smoothing) * true / n + (1.0 / n if smoothing else 0.0), eps=1e-9).float()


@dataclass(frozen=True, eq=False)
class Tables:
    """The tables from which all queries are answered."""

    h: Tensor  # (N, D)
    h_rel: Tensor  # (2R, D)
    bias: Tensor | None = None  # added to the scores: (N,), or () for all candidates alike

    def grown(self, num_entities: int, num_relations: int) -> Tables:
        """The table for a larger vocabulary: a new name has the mean of the known rows."""
        bias = self.bias if self.bias is None or not self.bias.dim() else grow_rows(self.bias, num_entities)
        return Tables(grow_rows(self.h, num_entities), grow_by_mean(self.h_rel, num_relations), bias)


class Static(Model):
    """Embeddings and a decoder, independent of the windows and their times.

    So at a time never seen in training the answer is the same as at any other. With the binary loss one number is
    added to all scores, which changes no rank; see :func:`first_bias`.
    """

    rows: ClassVar = {"entities": "entity", "relations": "relation"}
    looks_back: ClassVar = False

    def __init__(
        self, dim: int, decoder: Decoder, loss: str, smoothing: float, train: Timeline, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.entities = nn.Parameter(torch.empty(train.num_entities, dim))
        self.relations = nn.Parameter(torch.empty(2 * train.num_relations, dim))
        for table in (self.entities, self.relations):
            nn.init.xavier_normal_(table, generator=generator)
        self.decoder, self.loss, self.smoothing = decoder, loss, smoothing
        self.bias = nn.Parameter(first_bias(train, loss, smoothing)) if loss != "ce" else None

    def tables(self, generator: torch.Generator | None) -> Tables:
        """The input of the decoder; with a generator, dropout masks are drawn."""
        return Tables(self.entities, self.relations, self.bias)

    def encode(self, timeline: Timeline, windows: Windows) -> Tables:
        return self.tables(None).grown(timeline.num_entities, timeline.num_relations)

    def states(self, encoded: Tables) -> Tensor:
        return encoded.h

    def score(self, encoded: Tables, queries: Queries) -> Tensor:
        return self._scores(encoded, queries, None)

    def forward(self, timeline: Timeline, windows: Windows, queries: Queries, generator: torch.Generator) -> Tensor:
        scores = self._scores(self.tables(generator), queries, generator)
        if self.loss == "ce":
            return cross_entropy(scores, queries.answer)
        if self.loss == "bce":
            return binary_loss(scores, true_scores(scores, queries, timeline.derive(group_objects)), self.smoothing)
        return binary_loss(scores, scores.gather(1, queries.answer[:, None]).squeeze(1), self.smoothing)

    def _scores(self, tables: Tables, queries: Queries, generator: torch.Generator | None) -> Tensor:
        subjects = tables.h.index_select(0, queries.s)  # (B, D)
        query = self.decoder(subjects, tables.h_rel, queries.r, generator)  # (B, D)
        scores: Tensor = (query @ tables.h.T).to(self.entities.dtype)  # (B, N)
        return scores if tables.bias is None else scores + tables.bias

    def probabilities(self, scores: Tensor) -> Tensor:
        """Softmax with ce; with bce, which learns a probability for each candidate alone, their shares of the sum."""
        return torch.softmax(scores if self.loss == "ce" else logsigmoid(scores), dim=1)


class StaticDistMult(Static):
    r"""DistMult on the training facts without their times (docs/maths.md, row M33).

    .. math:: x_o = \langle e_s, w_r, e_o \rangle + b = \sum_i e_{s i} \, w_{r i} \, e_{o i} + b

    Yang, Yih, He, Gao and Deng, 2015, *Embedding entities and relations for learning and inference in knowledge bases*.
    They fit it by a margin; the binary cross-entropy is that of the paper whose tables we compare with. Reciprocal
    labels have rows of their own, so scores need not be symmetric. It gives the same answers at all times.
    """

    def __init__(self, settings: DistMultSettings, train: Timeline, generator: torch.Generator) -> None:
        decoder = DistMult(Decoding(settings.dropout), settings.dim, generator)
        super().__init__(settings.dim, decoder, settings.loss, settings.smoothing, train, generator)
        if settings.init_size:
            for table in (self.entities, self.relations):
                nn.init.normal_(table, std=settings.init_size, generator=generator)


class StaticTuckER(Static):
    r"""TuckER on the training facts without their times (docs/maths.md, row M34).

    .. math:: x_o = \mathrm{BN}\big(\mathrm{BN}(e_s)^\top (\mathcal W \times_2 w_r)\big) \cdot e_o + b

    Balazevic, Allen and Hospedales, 2019, *TuckER: tensor factorization for knowledge graph completion*, with its
    authors' first weights, normalisations and three dropouts; with the loss bce also their smoothed targets, and b,
    which ce has not. A pair (s, r) is asked as often as it has facts; in their program once an epoch. It gives the same
    answers at all times.
    """

    def __init__(self, settings: TuckERSettings, train: Timeline, generator: torch.Generator) -> None:
        decoding = TuckERDecoding(0.0, settings.dropout_subject, settings.dropout_matrix, settings.dropout_query)
        decoder = TuckER(decoding, settings.dim, generator)
        super().__init__(settings.dim, decoder, settings.loss, settings.smoothing, train, generator)
