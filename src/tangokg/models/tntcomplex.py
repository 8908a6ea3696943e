"""TNTComplEx: a complex decomposition with a factor for each training time (docs/maths.md, row M39)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from tangokg.decode.settings import check_settings
from tangokg.history.growth import grow_by_mean, grow_rows
from tangokg.models.protocol import Model
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Queries, Windows


@dataclass(frozen=True)
class TNTComplExSettings:
    """Settings of TNTComplEx; the values are its authors' for ICEWS14 where nothing else is said."""

    dim: int = 156  # D, complex numbers of a factor: the rank of the decomposition
    init_size: float = 0.01  # standard deviation of first weights
    factor_weight: float = 0.01  # of the cubes of all factors of a question and its answer
    smooth_weight: float = 0.01  # of the steps between the vectors of neighbouring times
    smooth_power: float = 3.0  # p of these steps; 3 in the authors' program
    recent: int = 30  # a time that training never saw has the mean vector of so many times before it; 0: none

    def __post_init__(self) -> None:
        weights = ["init_size", "factor_weight", "smooth_weight", "recent"]
        check_settings(self, sizes=["dim", "smooth_power"], weights=weights)


@dataclass(frozen=True, eq=False)
class Factors:
    """The factors of a decomposition; a row holds D complex numbers, real and imaginary parts in turn."""

    entities: Tensor  # (N, 2D)
    relations: Tensor  # (2R, 2D) those that a time turns
    timeless: Tensor  # (2R, 2D) those that it does not
    moments: Tensor  # (W, 2D) of the target times


class TNTComplEx(Model):
    r"""A score with a part that time turns and a part that it does not, all factors complex.

    .. math::
        x_o = \mathrm{Re} \langle u_s, \, v_r \odot \tau_t + v'_r, \, \bar u_o \rangle, \qquad
        L = \frac{1}{B} \sum_b \Big( -\log \frac{\exp x_{o_b}}{\sum_e \exp x_e}
            + \lambda \sum_{d} 2 |u_s|^3 + |v_r \odot \tau_t|^3 + |v'_r|^3 + 2 |u_o|^3 \Big)
            + \frac{\mu}{T - 1} \sum_{j, d} |\tau_{j+1} - \tau_j|^p

    Lacroix, Obozinski, Usunier (2020), Tensor decompositions for temporal knowledge base completion. They fit it by
    Adagrad; here by Adam, as the paper that we compare with did.

    In a forecast the time asked about is never one of training, so no :math:`\tau` is learned for it. Here it has the
    mean of the last ``recent`` training times before it: smoothness says that the next one is near the last, and the
    vector of one day alone is fitted to the noise of that day. With 0 it has none, and :math:`v'_r` is left alone.
    A run that goes on from another learns the vectors of its own times anew.
    """

    rows: ClassVar = {
        "entities": "entity",
        "relations": "relation",
        "timeless": "relation",
        "moments": "fresh",
        "times": "fresh",
    }
    looks_back: ClassVar = False
    times: Tensor

    def __init__(self, settings: TNTComplExSettings, train: Timeline, generator: torch.Generator) -> None:
        super().__init__()
        self.settings = settings
        width, labels = 2 * settings.dim, 2 * train.num_relations
        self.entities = nn.Parameter(torch.empty(train.num_entities, width))
        self.relations = nn.Parameter(torch.empty(labels, width))
        self.timeless = nn.Parameter(torch.empty(labels, width))
        self.moments = nn.Parameter(torch.empty(len(train), width))  # of the training times
        for table in self.parameters():
            nn.init.normal_(table, std=settings.init_size, generator=generator)
        self.register_buffer("times", train.t.clone())

    def encode(self, timeline: Timeline, windows: Windows) -> Factors:
        entities = grow_rows(self.entities, timeline.num_entities)
        relations, timeless = (grow_by_mean(x, timeline.num_relations) for x in (self.relations, self.timeless))
        return Factors(entities, relations, timeless, self._moments_at(windows.t))

    def _moments_at(self, t: Tensor) -> Tensor:
        """The vectors (W, 2D) of some times (W,); a time before training has the vector of the first training time."""
        times, width = self.times.double(), self.moments.shape[1]
        end = torch.searchsorted(times, t, right=True).clamp(min=1)  # (W,) training times so far
        moment = self.moments.index_select(0, end - 1)
        start = (end - max(1, self.settings.recent)).clamp(min=0)
        sums = torch.cat([self.moments.new_zeros(1, width), self.moments.cumsum(0)])  # (T + 1, 2D)
        mean = (sums.index_select(0, end) - sums.index_select(0, start)) / (end - start)[:, None]
        other = mean if self.settings.recent else torch.zeros_like(moment)
        return torch.where((times.index_select(0, end - 1) == t)[:, None], moment, other)

    def states(self, encoded: Factors) -> Tensor:
        return encoded.entities

    def score(self, encoded: Factors, queries: Queries) -> Tensor:
        subject = encoded.entities.index_select(0, queries.s)  # (B, 2D)
        turned, still = self._relation(encoded, queries)
        return product(subject, turned + still) @ encoded.entities.T  # Re(q · conj(u)) is the product of the parts

    def forward(self, timeline: Timeline, windows: Windows, queries: Queries, generator: torch.Generator) -> Tensor:
        encoded = self.encode(timeline, windows)
        subject, answer = (encoded.entities.index_select(0, e) for e in (queries.s, queries.answer))  # (B, 2D)
        turned, still = self._relation(encoded, queries)
        loss = cross_entropy(product(subject, turned + still) @ encoded.entities.T, queries.answer)
        factors = torch.stack([subject, subject, turned, still, answer, answer])  # entities count twice
        cubes = modulus_power(factors, 3.0) / len(queries)
        steps = modulus_power(self.moments.diff(dim=0), self.settings.smooth_power) / max(1, len(self.moments) - 1)
        return loss + self.settings.factor_weight * cubes + self.settings.smooth_weight * steps

    def _relation(self, encoded: Factors, queries: Queries) -> tuple[Tensor, Tensor]:
        """The relation turned by the time, and the one without time, (B, 2D) each."""
        relation = encoded.relations.index_select(0, queries.r)
        turned = product(relation, encoded.moments.index_select(0, queries.window))
        return turned, encoded.timeless.index_select(0, queries.r)


def as_complex(a: Tensor) -> Tensor:
    """(.., 2D) -> (.., D): real and imaginary parts stand in turn."""
    return torch.view_as_complex(a.unflatten(-1, (-1, 2)))


def product(a: Tensor, b: Tensor) -> Tensor:
    """The products of complex numbers, as rows like theirs."""
    return torch.view_as_real(as_complex(a) * as_complex(b)).flatten(-2)


def modulus_power(a: Tensor, power: float) -> Tensor:
    """The sum of :math:`|z|^p` over complex numbers, with a gradient also where one is 0."""
    total: Tensor = as_complex(a).abs().pow(power).sum()
    return total
