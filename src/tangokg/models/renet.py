"""RE-Net: a recurrent network over the neighbourhoods that an entity had (docs/maths.md, rows M41, M42)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, log_softmax

from tangokg.decode.settings import check_settings
from tangokg.history.growth import grow_by_mean, grow_rows
from tangokg.masks import dropout
from tangokg.models.protocol import Model
from tangokg.models.renet_graph import Aggregator, Neighbourhoods
from tangokg.models.renet_sequences import Appearances, appearances_of, last_snapshots, make_gru, run_gru
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Queries, Windows


@dataclass(frozen=True)
class ReNetSettings:
    """Settings of RE-Net, with the published values."""

    dim: int = 200  # D, size of embeddings and states
    history: int = 10  # k, snapshots of an entity that are looked at, and snapshots of the global model
    layers: int = 2  # of the R-GCN
    block: int = 2  # size of the blocks of its weights
    dropout: float = 0.5  # on its self loops, on what the recurrent networks read, and before the scores
    relation_loss: float = 0.1  # weight of the loss of p(r | s), which is used in training alone; 0 leaves it out
    global_loss: float = 1.0  # weight of the loss that the global model is trained with

    def __post_init__(self) -> None:
        sizes, weights = ["dim", "history", "layers", "block"], ["relation_loss", "global_loss"]
        check_settings(self, sizes=sizes, rates=["dropout"], weights=weights)


@dataclass(frozen=True, eq=False)
class Encoded:
    """What is known of all snapshots; a question reads those that its window knows."""

    entities: Tensor  # (N, D)
    relations: Tensor  # (2R, D)
    appearances: Appearances
    neighbourhoods: Neighbourhoods
    pooled: Tensor  # (T, D) G of each snapshot
    whole: Tensor  # (T, D) H after each snapshot; no gradient passes through either
    windows: Windows


@dataclass(frozen=True, eq=False)
class SubjectPast:
    """What the recurrent networks read of each question's subject, the oldest snapshot first."""

    g: Tensor  # (B, k, D) its neighbourhood
    e_s: Tensor  # (B, D)
    whole: Tensor  # (B, k, D)
    length: Tensor  # (B,) how many of the k there are

    def steps(self, *more: Tensor) -> Tensor:
        """The input of the network at each step, with the parts that stay the same (B, D): (B, k, C)."""
        constant = [x[:, None].expand_as(self.g) for x in (self.e_s, *more)]
        return torch.cat([constant[0], self.g, *constant[1:], self.whole], dim=2)


class ReNet(Model):
    r"""Jin, Qu, Jin and Ren 2020, Recurrent Event Network: Autoregressive Structure Inference over Temporal KGs.

    .. math::
        h_t(s, r) &= \mathrm{GRU}\big([e_s; g(N_t(s)); e_r; H_t], \; h_{t'}(s, r)\big), \\
        p(o \mid s, r) &= \mathrm{softmax}_o\big(w_o \cdot [e_s; h_t(s, r); e_r] + b_o\big)

    over the last k snapshots that hold a fact of s, :math:`t'` being the one before; :math:`g` is that of
    :class:`~tangokg.models.renet_graph.Aggregator`. The global model pools a snapshot and reads the last k of them:

    .. math::
        G_t = \max_s g(N_t(s)), \qquad H_t = \mathrm{GRU}(G_t, H_{t-1}), \qquad
        p(s) = \mathrm{softmax}_s(v_s \cdot H_t + c_s)

    As published the global model is trained by its own loss, that of who takes part in the next snapshot, and is a
    fixed input to the rest: no gradient passes from one to the other. Here both learn in the same steps, and G is
    pooled from the one aggregator, as the paper writes it; the authors' program has a second one, trained before.
    That program also takes the part of a snapshot that a batch of questions touches, and the snapshots in which s had
    the role that is asked from; here it is the whole snapshot and either role, so that no question bears on another.
    The history of a question is what was known, at test time too; the published generation of graphs for times whose
    facts are unknown is left out, so that a far question is answered from the last known history.

    A time never seen in training is nothing special: the model counts snapshots and has no vectors for times.
    """

    rows: ClassVar = {
        "entities": "entity",
        "relations": "relation",
        "aggregator.blocks": "relation",
        "objects": "entity",
        "objects_bias": "entity",
        "actors": "entity",
        "actors_bias": "entity",
        "labels": "relation",
        "labels_bias": "relation",
    }

    def __init__(self, settings: ReNetSettings, train: Timeline, generator: torch.Generator) -> None:
        super().__init__()
        dim, n, labels = settings.dim, train.num_entities, 2 * train.num_relations
        self.settings = settings
        self.entities = nn.Parameter(torch.empty(n, dim))
        self.relations = nn.Parameter(torch.empty(labels, dim))
        for table in (self.entities, self.relations):
            nn.init.xavier_uniform_(table, nn.init.calculate_gain("relu"), generator=generator)
        self.aggregator = Aggregator(dim, labels, settings.layers, settings.block, settings.dropout, generator)
        self.encoder = make_gru(4 * dim, dim, generator)
        self.encoder_of_relations = make_gru(3 * dim, dim, generator)
        self.encoder_of_whole = make_gru(dim, dim, generator)
        self.objects, self.objects_bias = _linear(3 * dim, n, generator)
        self.labels, self.labels_bias = _linear(2 * dim, labels, generator)
        self.actors, self.actors_bias = _linear(dim, n, generator)

    def encode(self, timeline: Timeline, windows: Windows, generator: torch.Generator | None = None) -> Encoded:
        """Neighbourhoods and global states of all snapshots; with a generator dropout masks are drawn."""
        entities = grow_rows(self.entities, timeline.num_entities)  # (N, D)
        appearances = appearances_of(timeline)
        neighbourhoods = self.aggregator(entities, timeline.num_relations, appearances, generator)
        with torch.no_grad():  # without dropout: the largest of many entries would grow with their noise
            inputs = entities, timeline.num_relations, appearances
            plain = self.aggregator(*inputs, first=neighbourhoods.first) if generator else neighbourhoods
            pooled = torch.segment_reduce(plain.all(), "max", offsets=appearances.offset, unsafe=True)  # (T, D)
            whole = self._whole(pooled, torch.arange(1, len(pooled) + 1, device=pooled.device))  # (T, D)
        relations = grow_by_mean(self.relations, timeline.num_relations)  # (2R, D)
        return Encoded(entities, relations, appearances, neighbourhoods, pooled, whole, windows)

    def _whole(self, pooled: Tensor, known: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """H (W, D) after each number of ``known`` snapshots (W,), of which the last k are read."""
        snapshot, length = last_snapshots(known, self.settings.history)  # (W, k), (W,)
        return run_gru(self.encoder_of_whole, dropout(pooled[snapshot], self.settings.dropout, generator), length)

    def states(self, encoded: Encoded) -> Tensor:
        return encoded.entities

    def score(self, encoded: Encoded, queries: Queries) -> Tensor:
        n, labels = len(encoded.entities), len(encoded.relations)
        key = (queries.window * n + queries.s) * labels + queries.r
        distinct, of = torch.unique(key, return_inverse=True)  # many queries share (w, s, r)
        s, r = distinct // labels % n, distinct % labels
        past = self._past(encoded, distinct // (n * labels), s, None)
        return self._scores(encoded, past, r, None).index_select(0, of)  # (B, N)

    def forward(self, timeline: Timeline, windows: Windows, queries: Queries, generator: torch.Generator) -> Tensor:
        encoded = self.encode(timeline, windows, generator)
        past = self._past(encoded, queries.window, queries.s, generator)
        loss = cross_entropy(self._scores(encoded, past, queries.r, generator), queries.answer)
        if self.settings.relation_loss:
            loss = loss + self.settings.relation_loss * cross_entropy(self._labels(past, generator), queries.r)
        if self.settings.global_loss:
            loss = loss + self.settings.global_loss * self._loss_of_whole(encoded, queries, generator)
        return loss

    def _past(self, encoded: Encoded, window: Tensor, s: Tensor, generator: torch.Generator | None) -> SubjectPast:
        """The last k neighbourhoods of each subject that its window knows."""
        known = encoded.windows.known.index_select(0, window)
        rows, length = encoded.appearances.last(s, known, self.settings.history)  # (B, k), (B,)
        row, shape = rows.flatten(), (*rows.shape, self.settings.dim)
        g = encoded.neighbourhoods.read(row, self.settings.dropout, generator).view(shape)
        whole = encoded.whole.index_select(0, encoded.appearances.snapshot.index_select(0, row)).view(shape)
        return SubjectPast(g, encoded.entities.index_select(0, s), whole, length)

    def _scores(self, encoded: Encoded, past: SubjectPast, r: Tensor, generator: torch.Generator | None) -> Tensor:
        """Scores (B, N) of all objects."""
        rate, e_r = self.settings.dropout, encoded.relations.index_select(0, r)  # (B, D)
        h = run_gru(self.encoder, dropout(past.steps(e_r), rate, generator), past.length)  # (B, D)
        x = dropout(torch.cat([past.e_s, h, e_r], dim=1), rate, generator)  # (B, 3D)
        n = len(encoded.entities)
        return torch.addmm(grow_rows(self.objects_bias, n), x, grow_rows(self.objects, n).T)

    def _labels(self, past: SubjectPast, generator: torch.Generator | None) -> Tensor:
        """Scores (B, 2R) of all labels that the subject may take part with next."""
        rate = self.settings.dropout
        h = run_gru(self.encoder_of_relations, dropout(past.steps(), rate, generator), past.length)  # (B, D)
        x = dropout(torch.cat([past.e_s, h], dim=1), rate, generator)  # (B, 2D)
        return torch.addmm(self.labels_bias, x, self.labels.T)

    def _loss_of_whole(self, encoded: Encoded, queries: Queries, generator: torch.Generator) -> Tensor:
        """-log p(s) of the subjects that are asked about: the cross-entropy with the share that each has, by draws."""
        h = self._whole(encoded.pooled, encoded.windows.known, generator)  # (W, D)
        logs = log_softmax(torch.addmm(self.actors_bias, h, self.actors.T), dim=1)  # (W, N)
        return -logs.flatten().index_select(0, queries.window * logs.shape[1] + queries.s).mean()


def _linear(inputs: int, outputs: int, generator: torch.Generator) -> tuple[nn.Parameter, nn.Parameter]:
    """Weights (outputs, inputs) and biases within 1 / sqrt(inputs) of 0, as is usual."""
    bound = inputs**-0.5
    shapes = (outputs, inputs), (outputs,)
    weight, bias = (torch.empty(shape).uniform_(-bound, bound, generator=generator) for shape in shapes)
    return nn.Parameter(weight), nn.Parameter(bias)
