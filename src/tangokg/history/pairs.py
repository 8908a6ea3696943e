"""A score for each (query, partner): what happened between the two, who they are, and what is asked (row M42)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention

from tangokg.history.occurrences import Past, meetings_of, occurrences_of, past_between, past_of
from tangokg.history.partners import Partners
from tangokg.history.statistics import NUM_STATISTICS, SCALES, TIME_CODE, Counted, count, statistics, time_code
from tangokg.masks import dropout

Project = Callable[[Tensor, Tensor, Tensor], Tensor]  # weight (D, H), window, entity -> states times weight (.., H)
Scored = tuple[Tensor, Tensor, Tensor]  # (row, object, log-intensity), each pair once


@dataclass(frozen=True)
class PairSettings:
    width: int = 128  # of the scorer
    rank: int = 64  # of the vectors that a pair's events and facts add up to
    stream: int = 10  # last events of a pair that are looked at one by one
    best: int = 64  # partners of a query that are looked at again
    compete: bool = True  # whether these are compared with one another
    forget: float = 0.1  # share of the past that a training step does not see
    dropout: float = 0.25


@dataclass(frozen=True, eq=False)
class ScoredPairs:
    """Each query with each partner of its subject, grouped by query."""

    query: Tensor  # (P,)
    o: Tensor  # (P,)
    value: Tensor  # (P,) log-intensity
    state: Tensor  # (P, H)
    begin: Tensor  # (B,) where the pairs of each query begin

    def best(self, size: int) -> tuple[Tensor, Tensor]:
        """The ``size`` best pairs of each query: their places (B, size), and which of these are meant."""
        return best_of(self.value.detach(), self.query, self.begin, size)


def draw_table(generator: torch.Generator, *shape: int, std: float) -> nn.Parameter:
    """Weights drawn from a normal distribution."""
    return nn.Parameter(torch.empty(shape).normal_(0.0, std, generator=generator))


class PairScorer(nn.Module):
    r"""Two looks at what is known of s and o together (docs/maths.md, row M42).

    Every partner has a cheap score, from the last events :math:`(r_i, \Delta_i)` of the pair, the latest first, from
    all its facts (s, r', o), and from the statistics x of these and of the meetings (s, any, o):

    .. math::
        a_i = \mathrm{gelu}(v_{r_i} + T \psi(\Delta_i) + p_i), \qquad
        g = \big(\textstyle\sum_i a_i, \; \sum_{r'} f_{r'} \odot F x_{sr'o}\big)
        y = \mathrm{gelu}(\mathrm{LN}(A_r + A h_s + B h_o + C x_{so} + G g + P (u_r \odot g) + X x_{sro}))
        K(o) = u_r \cdot g + w_r \cdot x_{sro} + w \cdot y + b

    The best of them are looked at again (:class:`SecondLook`). What depends on query or pair alone is computed once.
    """

    def __init__(self, settings: PairSettings, dim: int, num_labels: int, generator: torch.Generator) -> None:
        super().__init__()
        width, rank = settings.width, settings.rank
        self.settings = settings

        def table(*shape: int, std: float) -> nn.Parameter:
            return draw_table(generator, *shape, std=std)

        self.event = table(num_labels, rank, std=0.3)  # v
        self.time = table(TIME_CODE, rank, std=0.3)  # T
        self.position = table(settings.stream, rank, std=0.1)  # p
        self.fact = table(num_labels, rank, std=0.3)  # f
        self.fact_statistics = table(NUM_STATISTICS, rank, std=NUM_STATISTICS**-0.5)  # F
        self.asked = table(num_labels, 2 * rank, std=0.1)  # u
        self.relation = table(num_labels, width, std=0.3)  # A_r
        weights = torch.zeros(num_labels, NUM_STATISTICS)
        weights[:, : len(SCALES)], weights[:, len(SCALES) : 2 * len(SCALES)] = 0.4, 0.3  # at first a counter
        self.weights = nn.Parameter(weights)  # w_r
        self.subject = table(dim, width, std=dim**-0.5)
        self.object = table(dim, width, std=dim**-0.5)
        self.active_subject = table(NUM_STATISTICS, width, std=NUM_STATISTICS**-0.5)
        self.active_object = table(NUM_STATISTICS, width, std=NUM_STATISTICS**-0.5)
        self.meeting = table(NUM_STATISTICS, width, std=NUM_STATISTICS**-0.5)
        self.same = table(NUM_STATISTICS, width, std=NUM_STATISTICS**-0.5)
        self.pair = table(2 * rank, width, std=rank**-0.5)
        self.product = table(2 * rank, width, std=rank**-0.5)
        self.norm = nn.LayerNorm(width)
        self.out = table(width, std=0.01)
        self.bias = nn.Parameter(torch.tensor(-2.0))
        self.second = SecondLook(settings, num_labels, generator)

    def forward(
        self,
        partners: Partners,
        project: Project,
        activity: Project,
        gap: float,
        generator: torch.Generator | None = None,
    ) -> ScoredPairs:
        rate, queries, past = self.settings.dropout, partners.queries, partners.past
        met = partners.timeline.derive(count, meetings_of, gap, self.out.dtype)
        facts = partners.timeline.derive(count, occurrences_of, gap, self.out.dtype)
        events, there = self.events(met, partners, generator)  # (Z, L, G), (Z, L)
        g = torch.cat([events.sum(1), self.add_facts(facts, partners, generator)], dim=1)  # (Z, 2G)
        window = partners.window.index_select(0, past.row)
        of_pair = statistics(met, past, partners.t) @ self.meeting + g @ self.pair  # (Z, H)
        of_pair = of_pair + dropout(project(self.object, window, past.o), rate, generator)
        of_pair = of_pair + activity(self.active_object, window, past.o)
        of_query = dropout(project(self.subject, queries.window, queries.s), rate, generator)
        of_query = of_query + activity(self.active_subject, queries.window, queries.s)
        of_query = of_query + partners.look_up(self.relation, queries.r)  # (B, H)
        query, z, begin = partners.pairs()  # (P,), (P,), (B,)
        asked = partners.look_up(self.asked, queries.r)
        product = asked.index_select(0, query) * g.index_select(0, z)  # (P, 2G)
        x = of_query.index_select(0, query) + of_pair.index_select(0, z) + product @ self.product  # (P, H)
        place, row, same = self.same_facts(facts, partners, begin, generator)
        x = x.index_add(0, place, same @ self.same)
        weights = partners.look_up(self.weights, queries.r.index_select(0, row))
        k = product.sum(1).index_add(0, place, (same * weights).sum(1))
        y = dropout(gelu(self.norm(x)), rate, generator)
        pairs = ScoredPairs(query, past.o.index_select(0, z), k + y @ self.out + self.bias, y, begin)
        return self.second(partners, pairs, z, events, there, generator)

    def events(self, met: Counted, partners: Partners, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        """(Z, L, G) the last events of each pair, 0 where it has fewer, and (Z, L) which of them it has."""
        past, occurrences, size = partners.past, met.occurrences, self.settings.stream
        at = past.at[:, None] - torch.arange(size, device=past.at.device)  # (Z, L)
        there = at >= occurrences.first.index_select(0, past.fact)[:, None]
        if generator is not None:
            there = there & self.remembered(at.numel(), generator).view_as(at)
        at = at.clamp(min=0)
        age = ((partners.t[:, None] - occurrences.times[at]) / met.gap).to(self.time.dtype)
        r = partners.timeline.r[occurrences.edge[at]]
        token = partners.look_up(self.event, r) + time_code(age) @ self.time + self.position  # (Z, L, G)
        return gelu(token) * there[..., None], there

    def add_facts(self, facts: Counted, partners: Partners, generator: torch.Generator | None) -> Tensor:
        """(Z, G): all facts (s, r', o) of each pair, added up."""
        labels = facts.occurrences.num_labels
        known = partners.windows.known.index_select(0, partners.window)
        past = past_between(facts.occurrences, partners.s * labels, (partners.s + 1) * labels, known)
        past = self.forget(past, generator)
        t = partners.windows.t.index_select(0, partners.window).index_select(0, past.row)
        r = facts.occurrences.pair.index_select(0, past.fact) % labels
        value = (statistics(facts, past, t) @ self.fact_statistics) * partners.look_up(self.fact, r)  # (Y, G)
        z = torch.searchsorted(partners.key, past.row * facts.occurrences.num_entities + past.o)
        return value.new_zeros(len(partners.t), value.shape[1]).index_add(0, z, value)

    def same_facts(
        self, facts: Counted, partners: Partners, begin: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Of the pairs whose (s, r, o) happened before: where they stand, their query, and their statistics."""
        queries, windows = partners.queries, partners.windows
        known = windows.known.index_select(0, queries.window)
        past = past_of(facts.occurrences, queries.s * facts.occurrences.num_labels + queries.r, known)
        past = self.forget(past, generator)
        u = partners.of.index_select(0, past.row)
        z = torch.searchsorted(partners.key, u * facts.occurrences.num_entities + past.o)
        place = begin.index_select(0, past.row) + z - partners.start.index_select(0, u)
        t = windows.t.index_select(0, queries.window).index_select(0, past.row)
        return place, past.row, statistics(facts, past, t)

    def remembered(self, size: int, generator: torch.Generator) -> Tensor:
        """(size,) bool: what a training step sees of the past."""
        return torch.rand(size, generator=generator, device=generator.device) >= self.settings.forget

    def forget(self, past: Past, generator: torch.Generator | None) -> Past:
        """The past, in training without a share that is drawn."""
        if generator is None or not self.settings.forget:
            return past
        return past.select(self.remembered(len(past.row), generator).nonzero()[:, 0])


def best_of(value: Tensor, row: Tensor, begin: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The ``size`` largest values of each row: their places (B, size), and which of these are meant."""
    order = torch.argsort(value, descending=True, stable=True)
    order = order[torch.argsort(row[order], stable=True)]
    end = torch.cat([begin[1:], begin.new_tensor([len(value)])])
    place = begin[:, None] + torch.arange(size, device=value.device)  # (B, size)
    there = place < end[:, None]
    return order[torch.where(there, place, 0)], there


class SecondLook(nn.Module):
    r"""The best partners of a query again: their events read with the question in mind, and all of them compared.

    .. math::
        c = \sum_i \alpha_i V a_i, \quad \alpha_i \propto e^{q_r \cdot K a_i}, \qquad
        y' = y + \mathrm{gelu}(\mathrm{LN}(M y + c)), \qquad
        D(o) = K(o) + w \cdot y' + w' \cdot \mathrm{attention}(y'_o; y'_1, \dots, y'_C)
    """

    HEADS = 4

    def __init__(self, settings: PairSettings, num_labels: int, generator: torch.Generator) -> None:
        super().__init__()
        width, rank = settings.width, settings.rank

        def table(*shape: int, std: float) -> nn.Parameter:
            return draw_table(generator, *shape, std=std)

        self.settings = settings
        self.asked = table(num_labels, rank, std=0.3)
        self.key = table(rank, rank, std=rank**-0.5)
        self.value = table(rank, width, std=rank**-0.5)
        self.hidden = table(width, width, std=width**-0.5)
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.out = table(width, std=0.01)
        self.project = table(width, 3 * width, std=width**-0.5)
        self.compared = nn.Parameter(torch.zeros(width))

    def forward(
        self,
        partners: Partners,
        pairs: ScoredPairs,
        z: Tensor,
        events: Tensor,
        there: Tensor,
        generator: torch.Generator | None,
    ) -> ScoredPairs:
        """The same pairs, value and state of the best of each query changed."""
        if not len(pairs.value):
            return pairs
        rate = self.settings.dropout
        best, meant = pairs.best(self.settings.best)  # (B, C)
        place = best.flatten().index_select(0, meant.flatten().nonzero()[:, 0])  # (Q,)
        y, z = pairs.state.index_select(0, place), z.index_select(0, place)
        ask = partners.look_up(self.asked, partners.queries.r).index_select(0, pairs.query.index_select(0, place))
        weight = ((events @ self.key).index_select(0, z) @ ask[..., None])[..., 0] / ask.shape[1] ** 0.5  # (Q, L)
        weight = weight.masked_fill(~there.index_select(0, z), -1e4).softmax(1)
        read = (weight[:, None] @ events.index_select(0, z))[:, 0] @ self.value  # (Q, H)
        y = y + dropout(gelu(self.norms[0](y @ self.hidden + read)), rate, generator)
        change = y @ self.out
        if self.settings.compete:
            change = change + self.compare(y, meant)
        return ScoredPairs(
            pairs.query,
            pairs.o,
            pairs.value.index_add(0, place, change),
            pairs.state.index_copy(0, place, y),
            pairs.begin,
        )

    def compare(self, y: Tensor, meant: Tensor) -> Tensor:
        """(Q,) from the attention of each candidate to the others of its query; ``meant`` (B, C) is where y stands."""
        at = meant.flatten().nonzero()[:, 0]
        x = self.norms[1](y) @ self.project  # (Q, 3H)
        x = x.new_zeros(meant.numel(), x.shape[1]).index_copy(0, at, x).view(*meant.shape, 3, self.HEADS, -1)
        q, k, v = x.permute(2, 0, 3, 1, 4).unbind()  # (B, heads, C, ..) each
        mask = meant[:, None, None] | ~meant.any(1)[:, None, None, None]  # a query may have no candidate
        mixed = scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2).flatten(0, 1)
        return gelu(mixed.index_select(0, at)) @ self.compared
