"""CyGNet: a mixture of copying earlier objects of (s, r) and generating any entity."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from tangokg.decode.settings import check_settings
from tangokg.errors import ConfigError
from tangokg.history import occurrences_of, past_of
from tangokg.history.growth import grow_by_mean, grow_rows
from tangokg.models.protocol import Model, Sight
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Queries, Windows

MASK = -100.0  # added in copy mode to what never stood with (s, r)


@dataclass(frozen=True)
class CyGNetSettings:
    """Settings of CyGNet; the values are those of its authors where nothing else is said."""

    dim: int = 200  # D, size of the embeddings
    alpha: float = 0.8  # share of the copy mode; authors: 0.8 on ICEWS, 0.7 on other sets
    time_step: float = 0.0  # of the median gap in the time vector; 0: all of training is 1 long; authors: 1
    penalty: float = 0.01  # weight of the mean squares of the embeddings in the loss

    def __post_init__(self) -> None:
        check_settings(self, sizes=["dim"], weights=["time_step", "penalty"])
        if not 0 < self.alpha < 1:
            raise ConfigError(f"alpha must lie between 0 and 1, found {self.alpha}.")


@dataclass(frozen=True, eq=False)
class Encoded:
    """The embeddings, with a row for each current name, and the windows of the questions."""

    entities: Tensor  # (N, D)
    relations: Tensor  # (2R, D)
    times: Tensor  # (W, D)
    timeline: Timeline
    windows: Windows


class Mode(nn.Module):
    """x -> W x + b, a value for each entity."""

    def __init__(self, num_entities: int, width: int, generator: torch.Generator) -> None:
        super().__init__()
        bound = width**-0.5
        self.weight = nn.Parameter(torch.empty(num_entities, width).uniform_(-bound, bound, generator=generator))
        self.bias = nn.Parameter(torch.empty(num_entities).uniform_(-bound, bound, generator=generator))

    def forward(self, x: Tensor, num_entities: int) -> Tensor:
        return linear(x, grow_rows(self.weight, num_entities), grow_rows(self.bias, num_entities))  # (U, N)


class CyGNet(Model):
    r"""Copy mode and generation mode (docs/maths.md, row M40).

    .. math::
        x &= [e_s; e_r; e_t], \qquad e_t = \frac{t - t_0 + \Delta}{T} \, u \\
        p_c &= \mathrm{softmax}(\tanh(W_c x + b_c) - 100 \, [o \notin H]), \qquad
        p_g = \mathrm{softmax}(W_g x + b_g) \\
        p &= \alpha \, p_c + (1 - \alpha) \, p_g, \qquad
        L = -\log p_a + 0.01 \, (\overline{e_s^2} + \overline{e_r^2} + \overline{u^2})

    H, the historical vocabulary, holds the objects that stood with (s, r) in the snapshots known to the window: in
    training those before the question, in evaluation also those after training. (The authors' program stops at the end
    of training.) A question without history is copied from all entities alike. Scores are log p.

    Training begins at :math:`t_0`, :math:`\Delta` is its median gap. The authors have :math:`T = \Delta`
    (``time_step=1``): after some hundred steps time drowns the rest. Our T is the length of training, at whose end
    :math:`e_t = u`, and u is learned, which theirs is not. At a time never seen in training it goes on along u.

    A name that is new since training has the mean row of each table. It is copied only where it is in H, and
    generated beside the others: they keep their scores.

    Zhu, Chen, Fan, Cheng, Zhang (2021), Learning from History: Modeling Temporal Knowledge Graphs with Sequential
    Copy-Generation Networks. Their program trains a model for each direction; ours is one, with reciprocal relations.
    """

    rows: ClassVar = {
        "entities": "entity",
        "relations": "relation",
        "copy.weight": "entity",
        "copy.bias": "entity",
        "generation.weight": "entity",
        "generation.bias": "entity",
    }
    origin: Tensor  # the time at which the time vector is zero
    unit_time: Tensor  # how long after it the vector is u

    def __init__(self, settings: CyGNetSettings, train: Timeline, generator: torch.Generator) -> None:
        super().__init__()
        n, dim = train.num_entities, settings.dim
        self.settings = settings
        self.entities = nn.Parameter(torch.empty(n, dim))
        self.relations = nn.Parameter(torch.empty(2 * train.num_relations, dim))
        self.unit = nn.Parameter(torch.empty(1, dim))
        for table in (self.entities, self.relations, self.unit):
            nn.init.xavier_uniform_(table, gain=math.sqrt(2), generator=generator)
        self.copy = Mode(n, 3 * dim, generator)
        self.generation = Mode(n, 3 * dim, generator)
        t = train.t if len(train) else train.t.new_zeros(1)
        gap = t.diff().median() if len(t) > 1 else torch.ones_like(t[0])
        self.register_buffer("origin", t[0] - gap)
        self.register_buffer("unit_time", gap / settings.time_step if settings.time_step else t[-1] - t[0] + gap)

    def encode(self, timeline: Timeline, windows: Windows) -> Encoded:
        length = (windows.t - self.origin.double()) / self.unit_time.double()  # (W,)
        times = length.to(self.unit.dtype)[:, None] * self.unit  # (W, D)
        entities = grow_rows(self.entities, timeline.num_entities)
        return Encoded(entities, grow_by_mean(self.relations, timeline.num_relations), times, timeline, windows)

    def sight(self) -> Sight:
        return Sight()

    def states(self, encoded: Encoded) -> Tensor:
        return encoded.entities

    def score(self, encoded: Encoded, queries: Queries) -> Tensor:
        modes, of = self._modes(encoded, queries)
        return torch.logaddexp(*(value - total for value, total in modes)).index_select(0, of)  # (B, N)

    def forward(self, timeline: Timeline, windows: Windows, queries: Queries, generator: torch.Generator) -> Tensor:
        modes, of = self._modes(self.encode(timeline, windows), queries)
        likelihood = torch.logaddexp(*(value[of, queries.answer] - total[of, 0] for value, total in modes))  # (B,)
        squares = torch.stack([table.square().mean() for table in (self.entities, self.relations, self.unit)])
        return self.settings.penalty * squares.sum() - likelihood.mean()

    def _modes(self, encoded: Encoded, queries: Queries) -> tuple[list[tuple[Tensor, Tensor]], Tensor]:
        """Of the distinct questions, for each mode: values (U, N), and what to take from them (U, 1), so that they are
        the logarithms of its share of p. And which of them each question is, (B,).
        """
        n, labels, alpha = encoded.timeline.num_entities, 2 * encoded.timeline.num_relations, self.settings.alpha
        distinct, of = torch.unique((queries.window * n + queries.s) * labels + queries.r, return_inverse=True)
        w, pair = distinct // (n * labels), distinct % (n * labels)  # (U,)
        s, r = encoded.entities.index_select(0, pair // labels), encoded.relations.index_select(0, pair % labels)
        x = torch.cat([s, r, encoded.times.index_select(0, w)], dim=1)  # (U, 3D)
        past = past_of(occurrences_of(encoded.timeline), pair, encoded.windows.known.index_select(0, w))
        mask = torch.cat([x.new_full((len(self.entities),), MASK), x.new_full((n - len(self.entities),), -torch.inf)])
        mask = mask.repeat(len(distinct)).index_fill_(0, past.row * n + past.o, 0.0).view(-1, n)  # (U, N)
        copied, generated = torch.tanh(self.copy(x, n)) + mask, self.generation(x, n)  # (U, N)
        of_copies = copied.logsumexp(1, keepdim=True) - math.log(alpha)
        of_known = generated[:, : len(self.entities)].logsumexp(1, keepdim=True) - math.log1p(-alpha)
        return [(copied, of_copies), (generated, of_known)], of
