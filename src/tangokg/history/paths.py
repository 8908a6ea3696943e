"""Whom the partners of the subject met lately: candidates two and three steps away (docs/maths.md, row M53)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from tangokg.history.activity import activity_of
from tangokg.history.head import Asked, Head, HistorySettings, Project, Scored
from tangokg.history.partners import Partners
from tangokg.history.second import ScoredPairs, best_of, draw_table
from tangokg.history.statistics import NUM_STATISTICS, TIME_CODE, time_code
from tangokg.history.subjects import last_edges
from tangokg.masks import dropout


@dataclass(frozen=True)
class PathSettings:
    hops: int = 1  # steps beyond the partners
    nodes: tuple[int, ...] = (32, 64)  # best nodes of a query that each step starts from
    edges: tuple[int, ...] = (16, 8)  # last events of each of them
    dim: int = 32  # of what travels along a path
    width: int = 64  # of the scorer
    dropout: float = 0.25
    activity: bool = True  # whether it knows how active the candidates were


@dataclass(frozen=True, eq=False)
class Reached:
    """Entities that paths of a query arrive at, each once for a query, grouped by query."""

    query: Tensor  # (X,)
    o: Tensor  # (X,)
    state: Tensor  # (X, d) what has arrived
    value: Tensor  # (X,) log-intensity


class Paths(Head):
    r"""Messages from the best partners along their last events (docs/maths.md, row M53).

    .. math::
        m_o = \frac{1}{\sqrt n} \sum_{(x, r', \Delta) \to o} m_x \odot \mathrm{gelu}(e_{r'} + T \psi(\Delta) + q_r),
        \qquad \mathrm{score} = w \cdot \mathrm{gelu}(\mathrm{LN}(M m_o + a \log n + A_r + A h_s + B h_o + E a_o)) + b

    where m is at first a linear map of the pair scorer's state. No path leads back to s.
    """

    needs: ClassVar = ("pairs",)
    rows: ClassVar = tuple(f"steps.{i}.{name}" for i in range(2) for name in ("event", "asked", "relation"))

    @classmethod
    def make(cls, settings: HistorySettings, dim: int, num_labels: int, generator: torch.Generator) -> Paths:
        width, rate = settings.width, settings.pair_dropout
        nodes, edges = (width // 4, width // 2), (width // 8, width // 16 or 1)
        sizes = PathSettings(settings.hops, nodes, edges, width // 4, width // 2, rate, settings.activity)
        return cls(sizes, dim, width, num_labels, generator)

    def __init__(
        self, settings: PathSettings, dim: int, width: int, num_labels: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.settings = settings
        self.start = draw_table(generator, width, settings.dim, std=width**-0.5)
        self.steps = nn.ModuleList(Step(settings, dim, num_labels, generator) for _ in range(settings.hops))

    def forward(self, asked: Asked) -> list[Scored]:
        return self.walk(asked.partners, asked.said["pairs"], asked.project, asked.gap, asked.generator)

    def walk(
        self,
        partners: Partners,
        pairs: ScoredPairs,
        project: Project,
        gap: float,
        generator: torch.Generator | None = None,
    ) -> list[Scored]:
        """Scores of what each further step reaches."""
        number = len(partners.queries)
        state = pairs.state
        query, o, value, begin = pairs.query, pairs.o, pairs.value, pairs.begin
        scored: list[Scored] = []
        for i, step in enumerate(self.steps):
            best, mask = best_of(value.detach(), query, begin, self.settings.nodes[i])
            best = best.flatten().index_select(0, mask.flatten().nonzero()[:, 0])
            query, o, state = query.index_select(0, best), o.index_select(0, best), state.index_select(0, best)
            state = state @ self.start if i == 0 else state
            reached = step(partners, query, o, state, self.settings.edges[i], project, gap, generator)
            query, o, state, value = reached.query, reached.o, reached.state, reached.value
            begin = torch.searchsorted(query, torch.arange(number, device=query.device))
            scored.append((query, o, value))
            if not len(query):
                break
        return scored


class Step(nn.Module):
    """From some nodes of each query along their last events to the next ones."""

    def __init__(self, settings: PathSettings, dim: int, num_labels: int, generator: torch.Generator) -> None:
        super().__init__()
        self.rate = settings.dropout

        def table(*shape: int, std: float) -> nn.Parameter:
            return draw_table(generator, *shape, std=std)

        self.event = table(num_labels, settings.dim, std=0.5)
        self.time = table(TIME_CODE, settings.dim, std=0.3)
        self.asked = table(num_labels, settings.dim, std=0.5)
        self.arrived = table(settings.dim, settings.width, std=settings.dim**-0.5)
        self.number = table(settings.width, std=0.1)
        self.relation = table(num_labels, settings.width, std=0.3)
        self.ahead = nn.Parameter(torch.zeros(TIME_CODE, settings.width))
        self.subject = table(dim, settings.width, std=dim**-0.5)
        self.object = table(dim, settings.width, std=dim**-0.5)
        self.norm = nn.LayerNorm(settings.width)
        self.out = table(settings.width, std=0.01)
        self.bias = nn.Parameter(torch.tensor(-4.0))
        self.activity = settings.activity
        if settings.activity:
            self.acts = table(2, NUM_STATISTICS, settings.width, std=0.5 * NUM_STATISTICS**-0.5)

    def forward(
        self,
        partners: Partners,
        query: Tensor,
        node: Tensor,
        state: Tensor,
        edges: int,
        project: Project,
        gap: float,
        generator: torch.Generator | None,
    ) -> Reached:
        queries, n = partners.queries, partners.timeline.num_entities
        source, r, o, age = last_events(partners, query, node, edges, gap)
        of = query.index_select(0, source)
        onward = (o != queries.s.index_select(0, of)).nonzero()[:, 0]
        source, r, o, age, of = (x.index_select(0, onward) for x in (source, r, o, age, of))
        key, at = torch.unique(of * n + o, return_inverse=True)
        gate = partners.look_up(self.event, r) + time_code(age.to(state.dtype)) @ self.time
        gate = gelu(gate + partners.look_up(self.asked, queries.r).index_select(0, of))  # (E, d)
        message = state.index_select(0, source) * gate
        count = torch.zeros_like(key, dtype=state.dtype).index_add_(0, at, torch.ones_like(at, dtype=state.dtype))
        total = state.new_zeros(len(key), state.shape[1]).index_add(0, at, message) / count.sqrt()[:, None]
        query, o = key // n, key % n
        window = queries.window.index_select(0, query)
        of_query = project(self.subject, queries.window, queries.s)  # (B, H)
        of_query = of_query + partners.look_up(self.relation, queries.r)  # (B, H)
        ahead = partners.ahead_code(state.dtype) @ self.ahead  # (W, H)
        of_query = of_query + ahead.index_select(0, queries.window)
        x = total @ self.arrived + count.log()[:, None] * self.number + of_query.index_select(0, query)
        x = x + project(self.object, window, o)
        if self.activity:
            activity = activity_of(partners, gap, x.dtype)
            r = partners.inverse(queries.r.index_select(0, query))
            x = x + activity.all_events(self.acts[0], window, o) + activity.events_with(window, o, r) @ self.acts[1]
        x = dropout(gelu(self.norm(x)), self.rate, generator)
        return Reached(query, o, total, x @ self.out + self.bias)


def last_events(
    partners: Partners, query: Tensor, node: Tensor, size: int, gap: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The last ``size`` known events of each node: ``(node row, r, o, age in median gaps)``."""
    windows, window = partners.windows, partners.queries.window.index_select(0, query)
    look_up = partners.timeline.derive(last_edges)
    source, r, o, t = look_up(node, windows.known.index_select(0, window), size)
    return source, r, o, (windows.t.index_select(0, window).index_select(0, source) - t) / gap
