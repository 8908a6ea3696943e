"""DE-SimplE: entities whose features swing with the calendar (docs/maths.md, row M38)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from tangokg.decode.decoders import grouped_product
from tangokg.decode.settings import check_settings
from tangokg.history.growth import grow_by_mean, grow_rows
from tangokg.masks import dropout_mask
from tangokg.models.protocol import Model
from tangokg.quads.clock import LENGTHS, MONTHS, Clock, as_datetime
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Queries, Windows

TABLES = ("static", "amplitude", "frequency", "phase")
SPAN = 31.0  # the longest range of a number of the calendar in training; a day of the month has it as it is


@dataclass(frozen=True)
class DESimplESettings:
    """Settings of DE-SimplE; the values are its authors'."""

    dim: int = 100  # D, features of an entity in each of its two roles
    static_share: float = 0.68  # of the features, which stand still
    dropout: float = 0.4  # on the features of a question
    negatives: int = 500  # drawn for each target time of a step; 0 or more than there are: all entities
    unit: str = ""  # of the data's times, which are plain numbers without an origin; filled in from the data
    origin: str = ""  # ISO date of time 0; filled in from the data

    def __post_init__(self) -> None:
        check_settings(self, sizes=["dim"], weights=["negatives"], rates=["static_share", "dropout"])
        Clock(self.unit or "step", self.origin or None)


@dataclass(frozen=True, eq=False)
class Rows:
    """The parameters of the features of some entities; the roles are head and tail."""

    static: Tensor  # (.., 2, S)
    amplitude: Tensor  # (.., 2, K, D - S), as frequency and phase
    frequency: Tensor
    phase: Tensor

    def pick(self, entity: Tensor) -> Rows:
        """The rows of some entities (..)."""
        ids = entity.flatten()
        columns = (getattr(self, name) for name in TABLES)
        return Rows(*(x.index_select(0, ids).view(*entity.shape, *x.shape[1:]) for x in columns))

    def features(self, x: Tensor) -> Tensor:
        """Features (.., 2, D) when the calendar says ``x`` (.., K)."""
        waves = self.amplitude * torch.sin(self.frequency * x[..., None, :, None] + self.phase)
        moving = waves.sum(-2)  # (.., 2, D - S)
        return torch.cat([self.static.expand(*moving.shape[:-1], -1), moving], dim=-1)


@dataclass(frozen=True, eq=False)
class Diachronic:
    """All entities and labels, and the calendar features of the target times."""

    rows: Rows
    relations: Tensor  # (2R, D)
    x: Tensor  # (W, K)


class DESimplE(Model):
    r"""SimplE, in which a share of an entity's features are sums of sines of year, month and day.

    .. math::
        x_o = \tfrac{1}{2} \big( \langle h_s, v_r, w_o \rangle + \langle h_o, v_{r^{-1}}, w_s \rangle \big), \qquad
        h = \big( h^{static}, \; \textstyle\sum_k a_k \odot \sin(\omega_k x_k + \phi_k) \big)

    and w, the tail role, alike with weights of its own; x are year, month and day. The label :math:`r^{-1}` is that of
    the reciprocal, so a fact has one score, from whichever side it is asked for. The loss is the cross-entropy of the
    answer among it and entities drawn at random, or all.

    Goel, Kazemi, Brubaker, Poupart (2020), Diachronic embedding for temporal knowledge graph completion. Theirs draws
    negatives for each question and features to drop for each candidate; ours draws negatives for each target time and
    features for each question, so that scores are matrix products.

    Sines are defined at every time, so one that training never saw needs nothing. Each number of the calendar counts
    from its least in training, and where its range there is longer than 31 it is scaled to 31: an Adam step on the
    frequency would turn the phase of the year 2014 by two radians. Where times are years the year is the only number,
    where they are months there are two, and plain numbers stand alone; the last one holds the fraction.
    """

    rows: ClassVar = {**dict.fromkeys(TABLES, "entity"), "relations": "relation"}
    looks_back: ClassVar = False
    first: Tensor
    scale: Tensor
    months: Tensor

    def __init__(self, settings: DESimplESettings, train: Timeline, generator: torch.Generator) -> None:
        super().__init__()
        self.settings = settings
        months = np.arange("0001-01", "10000-01", dtype="datetime64[M]").astype("datetime64[D]").astype(np.int64)
        self.register_buffer("months", torch.as_tensor(months, device=train.t.device), persistent=False)
        x = self._calendar(train.t)  # (T, K)
        first = x.amin(0) if len(x) else x.new_zeros(x.shape[1])
        span = x.amax(0) - first if len(x) else first
        self.register_buffer("first", first)
        self.register_buffer("scale", SPAN / span.clamp(min=SPAN))
        n, num_static = train.num_entities, round(settings.static_share * settings.dim)
        waves = n, 2, x.shape[1], settings.dim - num_static
        self.static = nn.Parameter(torch.empty(n, 2, num_static))
        self.amplitude = nn.Parameter(torch.empty(waves))
        self.frequency = nn.Parameter(torch.empty(waves))
        self.phase = nn.Parameter(torch.empty(waves))
        self.relations = nn.Parameter(torch.empty(2 * train.num_relations, settings.dim))
        for name, table in self.named_parameters():  # Xavier's bound for a table of each role and number alone
            count = train.num_relations if name == "relations" else n
            bound = (6.0 / max(1, count + table.shape[-1])) ** 0.5
            nn.init.uniform_(table, -bound, bound, generator=generator)

    def _calendar(self, t: Tensor) -> Tensor:
        """Times (T,) -> year, month and day, as far as the unit tells them, or the number itself: (T, K), float64."""
        unit, origin = self.settings.unit or "step", self.settings.origin
        if not origin:
            return t[:, None]
        start = as_datetime(Clock(unit, origin).format(0.0))
        if unit == "year":
            return t[:, None] + start.year
        if unit in MONTHS:
            month = t * MONTHS[unit] + (start.month - 1)
            return torch.stack([start.year + torch.floor(month / 12), month % 12 + 1], dim=1)
        before = (start - datetime(1970, 1, 1)).total_seconds()
        days = (t * LENGTHS[unit].total_seconds() + before) / 86_400  # whole ones stay whole
        month = torch.searchsorted(self.months, days.floor().long(), right=True) - 1  # since the first of all
        day = days - self.months.index_select(0, month) + 1
        return torch.stack([month // 12 + 1, month % 12 + 1, day], dim=1)

    def encode(self, timeline: Timeline, windows: Windows) -> Diachronic:
        tables = [grow_rows(getattr(self, name), timeline.num_entities) for name in TABLES]
        x = (self._calendar(windows.t) - self.first.double()) * self.scale.double()
        return Diachronic(Rows(*tables), grow_by_mean(self.relations, timeline.num_relations), x.to(self.static.dtype))

    def states(self, encoded: Diachronic) -> Tensor:
        return encoded.rows.features(encoded.x[0]).flatten(1)  # (N, 2D)

    def score(self, encoded: Diachronic, queries: Queries) -> Tensor:
        subject = encoded.rows.pick(queries.s).features(encoded.x.index_select(0, queries.window))  # (B, 2, D)
        return self._scores_of_all(encoded, self._ask(encoded, subject, queries, None), queries)

    def forward(self, timeline: Timeline, windows: Windows, queries: Queries, generator: torch.Generator) -> Tensor:
        encoded = self.encode(timeline, windows)
        ends = encoded.rows.pick(torch.stack([queries.s, queries.answer]))
        subject, answer = ends.features(encoded.x.index_select(0, queries.window)).unbind()  # (B, 2, D)
        query = self._ask(encoded, subject, queries, generator)  # (B, 2D)
        if not 0 < self.settings.negatives < timeline.num_entities:
            return cross_entropy(self._scores_of_all(encoded, query, queries), queries.answer)
        sizes = (len(windows), self.settings.negatives)
        drawn = torch.randint(timeline.num_entities, sizes, generator=generator, device=query.device)  # (W, n)
        candidates = encoded.rows.pick(drawn).features(encoded.x[:, None]).flatten(2)  # (W, n, 2D)
        others = grouped_product(query, queries.window, candidates.mT)  # (B, n)
        same = drawn.index_select(0, queries.window) == queries.answer[:, None]
        true = (query * answer.flatten(1)).sum(1, keepdim=True)  # (B, 1)
        scores = torch.cat([true, others.masked_fill(same, -torch.inf)], dim=1)
        return cross_entropy(scores, torch.zeros_like(queries.answer))

    def _ask(self, encoded: Diachronic, subject: Tensor, queries: Queries, generator: torch.Generator | None) -> Tensor:
        """Query vectors (B, 2D), to be multiplied with the head and then the tail features of a candidate."""
        labels = len(encoded.relations)
        both = torch.stack([queries.r, (queries.r + labels // 2) % labels], dim=1)  # (B, 2): stated, reciprocal
        relation = encoded.relations.index_select(0, both.flatten()).view_as(subject)
        query = 0.5 * subject * relation  # (B, 2, D)
        if generator is not None and self.settings.dropout:
            query = query * dropout_mask(query[:, :1], self.settings.dropout, generator)  # of both terms alike
        return query.flip(1).flatten(1)  # the subject's head role meets the candidate's tail role

    def _scores_of_all(self, encoded: Diachronic, query: Tensor, queries: Queries) -> Tensor:
        """Scores (B, N), by one table of all features for each window."""
        scores = [
            part @ encoded.rows.features(encoded.x[w]).flatten(1).T
            for w, part in enumerate(query.split(queries.sizes))
            if len(part)
        ]
        return torch.cat(scores) if scores else query.new_empty(0, len(encoded.rows.static))
