"""The built-in world's own probabilities as a model: the ranking metrics that no model can beat on average."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tangokg.errors import DataError
from tangokg.models.protocol import Model
from tangokg.quads.world import World
from tangokg.snapshots.ranges import expand
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Queries, Windows

TIE_BREAK = 1e-9


class Oracle(Model):
    r"""Scores a candidate by the true probability of the fact at the target day, given the world on the day before.

    .. math::
        \mathrm{score}(s, r, o, t) = \begin{cases}
            p(s, r, o, t) & \text{if stated} \\
            \mathrm{floor}(t, r, [\mathrm{bloc}_s = \mathrm{bloc}_o])
                & \text{else, if } s \ne o \text{ and both have come by } t \\
            0 & \text{else} \end{cases}

    and (o, r + R, s) scores as (s, r, o). The facts of a day are independent given the day before, so of two
    candidates the likelier is better placed first: no strict order has better raw or time-aware metrics on average.
    (The time-unaware filter hides candidates because of other days, later ones too, and has no such optimum.)
    Equal probabilities are told apart by id, by at most 1e-9 of their size: a group of n ties at its mean rank would
    have the reciprocal rank 2 / (n + 1), less than the mean 1 / n (1 + 1/2 + ... + 1 / n) of any order of the group.

    It looks at the target *time* alone. With a horizon it still knows the world of the observed day before the target,
    which a model at that horizon does not: there it bounds from above what can be reached, and more loosely.
    """

    floor: Tensor  # (T, R, 2)
    key: Tensor  # (P,) ascending: day, relation of 2R and subject of what is stated, reciprocals included
    stated_o: Tensor  # (P,)
    stated_p: Tensor  # (P,)
    t: Tensor
    bloc: Tensor
    since: Tensor

    def __init__(self, world: World) -> None:
        super().__init__()
        self.num_entities, self.num_relations = len(world.bloc), world.facts.vocab.num_relations
        stated = world.stated
        s, o = np.concatenate([stated.s, stated.o]), np.concatenate([stated.o, stated.s])
        r = np.concatenate([stated.r, stated.r + self.num_relations])
        j = np.tile(np.searchsorted(world.t, stated.t), 2)
        key = self._key(torch.from_numpy(j), torch.from_numpy(r), torch.from_numpy(s))
        key, order = torch.sort(key, stable=True)
        columns = {"t": world.t.astype(np.float64), "floor": world.floor, "bloc": world.bloc, "since": world.since}
        columns |= {"stated_o": o[order], "stated_p": np.tile(stated.p, 2)[order]}
        self.register_buffer("key", key, persistent=False)
        for name, column in columns.items():
            self.register_buffer(name, torch.from_numpy(column), persistent=False)

    def encode(self, timeline: Timeline, windows: Windows) -> Tensor:
        """The position (W,) of each target time among the observed days of the world."""
        if (timeline.num_entities, timeline.num_relations) != (self.num_entities, self.num_relations):
            raise DataError(
                f"the oracle's world has {self.num_entities} entities and {self.num_relations} relations, the facts "
                f"have {timeline.num_entities} and {timeline.num_relations}: give it the world that made the facts."
            )
        j = torch.searchsorted(self.t, windows.t).clamp(max=len(self.t) - 1)
        if (other := self.t[j] != windows.t).any():
            raise DataError(
                f"the oracle knows the {len(self.t)} observed days of its world, from {self.t[0]:g} to {self.t[-1]:g}, "
                f"and day {windows.t[other][0]:g} is none of them: ask for an observed day."
            )
        return j

    def score(self, encoded: Tensor, queries: Queries) -> Tensor:
        """True probabilities (B, N) in float64; in float32 equal ones would be ties again."""
        j, s, r = encoded[queries.window], queries.s, queries.r  # (B,)
        inside = self.bloc[s][:, None] == self.bloc  # (B, N)
        across_inside = self.floor[j, r % self.num_relations]  # (B, 2)
        scores = torch.where(inside, across_inside[:, 1:], across_inside[:, :1])  # (B, N)
        come = self.since <= self.t[j][:, None]  # (B, N)
        scores = scores * (come & come.gather(1, s[:, None]))
        scores.scatter_(1, s[:, None], 0.0)
        key = self._key(j, r, s)
        rows, owner = expand(torch.searchsorted(self.key, key), torch.searchsorted(self.key, key, right=True))
        scores[owner, self.stated_o[rows]] = self.stated_p[rows]
        return scores * torch.linspace(1, 1 - TIE_BREAK, self.num_entities, dtype=scores.dtype, device=scores.device)

    def probabilities(self, scores: Tensor) -> Tensor:
        """Scores divided by their sum (B, N): the share of each candidate in the facts of this form to expect."""
        total = scores.sum(1, keepdim=True)  # (B, 1); 0 for a subject that has not come yet
        return torch.where(total > 0, scores / total, 1 / self.num_entities)

    def _key(self, j: Tensor, r: Tensor, s: Tensor) -> Tensor:
        return (j * 2 * self.num_relations + r) * self.num_entities + s
