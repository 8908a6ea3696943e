"""TTransE: a relation and a time move a subject to its object (docs/maths.md, row M36)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from tangokg.decode.settings import check_settings
from tangokg.errors import ConfigError
from tangokg.history.growth import grow_by_mean, grow_rows
from tangokg.models.protocol import Model
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Queries, Windows

UNSEEN_TIMES = ("nearest", "zero")
CELLS = 2**26  # entries of all differences that a GPU holds at once


@dataclass(frozen=True)
class TTransESettings:
    """Settings of TTransE."""

    dim: int = 100  # D, size of entity, relation and time vectors
    norm: int = 1  # distances are those of L1 or of L2
    margin: float = 1.0  # by how much a wrong object must be farther away than the true one
    negatives: int = 10  # wrong objects drawn for each question; the paper's program: 1
    unseen: str = "nearest"  # a time never trained on has the vector of the nearest one, or zero

    def __post_init__(self) -> None:
        check_settings(self, sizes=["dim", "negatives"], choices={"unseen": UNSEEN_TIMES})
        if self.norm not in (1, 2):
            raise ConfigError(f"norm must be 1 or 2, found {self.norm}.")
        if self.margin <= 0:
            raise ConfigError(f"margin must be positive, found {self.margin}.")


@dataclass(frozen=True, eq=False)
class Vectors:
    """The parts of a question; the vector of a time belongs to a window."""

    entities: Tensor  # (N, D), none longer than 1
    relations: Tensor  # (2R, D)
    times: Tensor  # (W, D)


class TTransE(Model):
    r"""A vector for each entity, relation label and training time.

    .. math::
        x_o = -\lVert e_s + r_r + \tau_t - e_o \rVert_p, \qquad
        loss = \frac{1}{B K} \sum_{b, k} \max(0, \gamma - x_{o_b} + x_{o'_{bk}}), \qquad \lVert e \rVert_2 \le 1

    Source: Leblay and Chekol, Deriving Validity Time in Knowledge Graph, 2018, in its vector-based form. The wrong
    objects :math:`o'` are drawn from all entities. An entity is cut to length 1 where it is used; the program that the
    paper compares with (RE-Net's) has a penalty instead, on relations and times too, and no reciprocal relations.

    At a time never seen in training :math:`\tau` is that of the nearest training time (the earlier of two), so every
    forecast has the vector of the last training snapshot; with ``unseen`` zero there is none. A run that goes on from
    another has times of its own, and draws their vectors anew.
    """

    rows: ClassVar = {"entities": "entity", "relations": "relation", "moments": "fresh", "t": "fresh"}
    looks_back: ClassVar[bool] = False
    t: Tensor  # (T,) training times

    def __init__(self, settings: TTransESettings, train: Timeline, generator: torch.Generator) -> None:
        super().__init__()
        self.settings = settings
        self.entities = nn.Parameter(torch.empty(train.num_entities, settings.dim))
        self.relations = nn.Parameter(torch.empty(2 * train.num_relations, settings.dim))
        self.moments = nn.Parameter(torch.empty(len(train), settings.dim))
        for table in (self.entities, self.relations, self.moments):
            nn.init.xavier_uniform_(table, generator=generator)
            table.data = normalize(table.data, dim=1)
        self.register_buffer("t", train.t.clone())

    def encode(self, timeline: Timeline, windows: Windows) -> Vectors:
        entities = grow_rows(self.entities, timeline.num_entities)
        entities = entities / entities.norm(dim=1, keepdim=True).clamp(min=1)  # (N, D)
        return Vectors(entities, grow_by_mean(self.relations, timeline.num_relations), self._times(windows.t))

    def _times(self, t: Tensor) -> Tensor:
        """Vectors (W, D) of the times ``t`` (W,)."""
        known = self.t.to(t.dtype)  # (T,)
        row = nearest_rows(known, t)  # (W,)
        vectors = self.moments.index_select(0, row)
        if self.settings.unseen == "zero":
            vectors = vectors * (known.index_select(0, row) == t)[:, None]
        return vectors

    def states(self, encoded: Vectors) -> Tensor:
        return encoded.entities

    def score(self, encoded: Vectors, queries: Queries) -> Tensor:
        places = self._places(encoded, queries)
        return -(in_pieces if places.is_cuda else cdist)(places, encoded.entities, self.settings.norm)  # (B, N)

    def forward(self, timeline: Timeline, windows: Windows, queries: Queries, generator: torch.Generator) -> Tensor:
        encoded = self.encode(timeline, windows)
        size = (len(queries), self.settings.negatives)
        wrong = torch.randint(timeline.num_entities, size, generator=generator, device=queries.s.device)  # (B, K)
        o = torch.cat([queries.answer[:, None], wrong], dim=1)  # (B, 1 + K)
        ends = encoded.entities.index_select(0, o.flatten()).view(*o.shape, -1)  # (B, 1 + K, D)
        difference = self._places(encoded, queries)[:, None] - ends
        distance = torch.linalg.vector_norm(difference, self.settings.norm, dim=2)  # (B, 1 + K)
        return torch.relu(self.settings.margin + distance[:, :1] - distance[:, 1:]).mean()

    def _places(self, encoded: Vectors, queries: Queries) -> Tensor:
        """Where the object of each question should be: e_s + r + tau, (B, D)."""
        s, r = encoded.entities.index_select(0, queries.s), encoded.relations.index_select(0, queries.r)
        return s + r + encoded.times.index_select(0, queries.window)


def cdist(a: Tensor, b: Tensor, norm: int) -> Tensor:
    """Distances (B, N) of all rows, without the products by which those of L2 would lose half their digits."""
    return torch.cdist(a, b, p=float(norm), compute_mode="donot_use_mm_for_euclid_dist")


def in_pieces(a: Tensor, b: Tensor, norm: int) -> Tensor:
    """The same for a GPU, whose cdist sets 256 threads to work on each distance, most of them idle."""
    rows = max(1, CELLS // max(1, b.numel()))
    return torch.cat([torch.linalg.vector_norm(chunk[:, None] - b, norm, dim=2) for chunk in a.split(rows)])


def nearest_rows(known: Tensor, t: Tensor) -> Tensor:
    """For each of ``t`` (W,) the row of the nearest of ``known`` (T,), which ascends; of two, the earlier."""
    after = torch.searchsorted(known, t).clamp(max=len(known) - 1)  # (W,)
    before = (after - 1).clamp(min=0)
    nearer = t - known.index_select(0, before) <= known.index_select(0, after) - t
    return torch.where(nearer, before, after)
