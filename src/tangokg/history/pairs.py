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
    compete: int = 0  # best partners of a query that are compared with one another; 0: none
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
    r"""A network over what is known of s and o together (docs/maths.md, row M42).

    .. math::
        g = \Big(\sum_{i} \mathrm{gelu}(v_{r_i} + T \psi(\Delta_i) + p_i), \; \sum_{r'} f_{r'} \odot F x_{sr'o}\Big)
        k = u_r \cdot g + w_r \cdot x_{sro}
        y = \mathrm{gelu}(\mathrm{LN}(A_r + A h_s + B h_o + C x_{so} + G g + P (u_r \odot g) + X x_{sro}))
        \mathrm{score} = k + w \cdot (y + \mathrm{gelu}(\mathrm{LN}(M y))) + b

    over the last events :math:`(r_i, \Delta_i)` of the pair, the latest first, all its facts (s, r', o), and the
    statistics x of these and of the meetings (s, any, o). What depends on query or pair alone is computed once for it.
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
        self.meeting = table(NUM_STATISTICS, width, std=NUM_STATISTICS**-0.5)
        self.same = table(NUM_STATISTICS, width, std=NUM_STATISTICS**-0.5)
        self.pair = table(2 * rank, width, std=rank**-0.5)
        self.product = table(2 * rank, width, std=rank**-0.5)
        self.hidden = table(width, width, std=width**-0.5)
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.out = table(width, std=0.01)
        self.bias = nn.Parameter(torch.tensor(-2.0))
        self.competition = Competition(width, generator) if settings.compete else None

    def forward(
        self, partners: Partners, project: Project, gap: float, generator: torch.Generator | None = None
    ) -> ScoredPairs:
        rate, queries, past = self.settings.dropout, partners.queries, partners.past
        met = partners.timeline.derive(count, meetings_of, gap, self.out.dtype)
        facts = partners.timeline.derive(count, occurrences_of, gap, self.out.dtype)
        g = torch.cat([self.add_events(met, partners, generator), self.add_facts(facts, partners, generator)], dim=1)
        window = partners.window.index_select(0, past.row)
        of_pair = statistics(met, past, partners.t) @ self.meeting + g @ self.pair  # (Z, H)
        of_pair = of_pair + project(self.object, window, past.o)
        of_query = project(self.subject, queries.window, queries.s) + partners.look_up(self.relation, queries.r)
        query, z, begin = partners.pairs()  # (P,), (P,), (B,)
        asked = partners.look_up(self.asked, queries.r)
        product = asked.index_select(0, query) * g.index_select(0, z)  # (P, 2G)
        x = of_query.index_select(0, query) + of_pair.index_select(0, z) + product @ self.product  # (P, H)
        place, row, same = self.same_facts(facts, partners, begin, generator)
        x = x.index_add(0, place, same @ self.same)
        weights = partners.look_up(self.weights, queries.r.index_select(0, row))
        k = product.sum(1).index_add(0, place, (same * weights).sum(1))
        y = dropout(gelu(self.norms[0](x)), rate, generator)
        y = y + dropout(gelu(self.norms[1](y @ self.hidden)), rate, generator)
        pairs = ScoredPairs(query, past.o.index_select(0, z), k + y @ self.out + self.bias, y, begin)
        return pairs if self.competition is None else self.competition(pairs, self.settings.compete)

    def add_events(self, met: Counted, partners: Partners, generator: torch.Generator | None) -> Tensor:
        """(Z, G): the last events of each pair, added up."""
        past, occurrences, size = partners.past, met.occurrences, self.settings.stream
        at = past.at[:, None] - torch.arange(size, device=past.at.device)  # (Z, L)
        there = at >= occurrences.first.index_select(0, past.fact)[:, None]
        if generator is not None:
            there = there & self.remembered(at.numel(), generator).view_as(at)
        at = at.clamp(min=0)
        age = ((partners.t[:, None] - occurrences.times[at]) / met.gap).to(self.time.dtype)
        r = partners.timeline.r[occurrences.edge[at]]
        token = partners.look_up(self.event, r) + time_code(age) @ self.time + self.position  # (Z, L, G)
        return (gelu(token) * there[..., None]).sum(1)

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


class Competition(nn.Module):
    """Attention among the best candidates of a query: whether one of them stands out counts, not its score alone."""

    HEADS = 4

    def __init__(self, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.project = draw_table(generator, width, 3 * width, std=width**-0.5)
        self.out = nn.Parameter(torch.zeros(width))

    def forward(self, pairs: ScoredPairs, size: int) -> ScoredPairs:
        """The same pairs, the values of the best ``size`` of each query changed."""
        if not len(pairs.value):
            return pairs
        best, there = pairs.best(size)
        x = self.norm(pairs.state.index_select(0, best.flatten()).view(*best.shape, -1))  # (B, C, H)
        split = (x @ self.project).unflatten(2, (3, self.HEADS, -1)).permute(2, 0, 3, 1, 4)  # (3, B, heads, C, ..)
        mask = there[:, None, None] | ~there.any(1)[:, None, None, None]  # a query may have no candidate
        q, k, v = split.unbind()
        mixed = scaled_dot_product_attention(q, k, v, attn_mask=mask)  # (B, heads, C, ..)
        change = gelu(mixed.transpose(1, 2).flatten(2)) @ self.out  # (B, C)
        meant = there.flatten().nonzero()[:, 0]
        place, change = best.flatten().index_select(0, meant), change.flatten().index_select(0, meant)
        value = pairs.value.index_add(0, place, change)
        return ScoredPairs(pairs.query, pairs.o, value, pairs.state, pairs.begin)
