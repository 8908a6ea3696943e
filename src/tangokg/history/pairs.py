"""A score for each (query, partner), from what happened between the two and who they are (docs/maths.md, row M51)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention

from tangokg.history.activity import activity_of
from tangokg.history.occurrences import meetings_of, occurrences_of, past_of
from tangokg.history.partners import Partners
from tangokg.history.statistics import NUM_STATISTICS, SCALES, TIME_CODE, Counted, count, statistics, time_code
from tangokg.masks import dropout

Project = Callable[[Tensor, Tensor, Tensor], Tensor]  # weight (D, H), window, entity -> states times weight (.., H)
Scored = tuple[Tensor, Tensor, Tensor]  # (row, object, log-intensity), each pair once


class Terms(NamedTuple):
    """What single edges of a timeline add to the score of some candidates."""

    query: Tensor  # (X,)
    o: Tensor  # (X,)
    edge: Tensor  # (X,) row of the timeline
    value: Tensor  # (X,)


@dataclass(frozen=True)
class PairSettings:
    width: int = 128  # of the scorer
    rank: int = 64  # of the vector that a pair's events add up to
    stream: int = 10  # last events of a pair that are looked at one by one
    best: int = 64  # partners of a query that are looked at again
    compete: bool = True  # whether these are compared with one another
    dropout: float = 0.25
    activity: bool = True  # whether it knows how active subject and object were
    members: int = 1  # scorers that share all weights but the last


@dataclass(frozen=True, eq=False)
class ScoredPairs:
    """Each query with each partner of its subject, grouped by query."""

    query: Tensor  # (P,)
    o: Tensor  # (P,)
    value: Tensor  # (K, P) log-intensity, of each member
    state: Tensor  # (K, P, H)
    begin: Tensor  # (B,) where the pairs of each query begin


def draw_table(generator: torch.Generator, *shape: int, std: float) -> nn.Parameter:
    """Weights drawn from a normal distribution."""
    return nn.Parameter(torch.empty(shape).normal_(0.0, std, generator=generator))


class PairScorer(nn.Module):
    r"""What is known of s and o together (docs/maths.md, row M51).

    Every partner is scored by the last events :math:`(r_i, \Delta_i)` of the pair, the latest first, by the statistics
    x of the fact (s, r, o) and of the meetings (s, any, o), by the activity a of both (of s in all, of s with r, of o),
    and by the states of both:

    .. math::
        g = \sum_i \mathrm{gelu}(v_{r_i} + T \psi(\Delta_i) + p_i)
        y = \mathrm{gelu}(\mathrm{LN}(A_r + A h_s + B h_o + C x_{so} + G g + P (u_r \odot g) + X x_{sro} + E a))
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
        self.asked = table(num_labels, rank, std=0.1)  # u
        self.relation = table(num_labels, width, std=0.3)  # A_r
        weights = torch.zeros(num_labels, NUM_STATISTICS)
        weights[:, : len(SCALES)], weights[:, len(SCALES) : 2 * len(SCALES)] = 0.4, 0.3  # at first a counter
        self.weights = nn.Parameter(weights)  # w_r
        self.subject = table(dim, width, std=dim**-0.5)  # A
        self.object = table(dim, width, std=dim**-0.5)  # B
        self.meeting = table(NUM_STATISTICS, width, std=NUM_STATISTICS**-0.5)  # C
        self.same = table(NUM_STATISTICS, width, std=NUM_STATISTICS**-0.5)  # X
        self.pair = table(rank, width, std=rank**-0.5)  # G
        self.product = table(rank, width, std=rank**-0.5)  # P
        self.norm = nn.LayerNorm(width)
        self.signs = nn.Parameter(torch.randn(settings.members, 1, width, generator=generator).sign())
        self.out = table(settings.members, width, 1, std=0.01)  # w
        self.bias = nn.Parameter(torch.tensor(-2.0))
        self.second = SecondLook(settings, generator)
        if settings.activity:
            self.acts = table(3, NUM_STATISTICS, width, std=0.5 * NUM_STATISTICS**-0.5)  # E

    def forward(
        self, partners: Partners, project: Project, gap: float, generator: torch.Generator | None = None
    ) -> ScoredPairs:
        """Scores of all partners; ``project`` multiplies the states of some entities by a weight."""
        queries, past = partners.queries, partners.past
        met = partners.timeline.derive(count, meetings_of, gap, self.time.dtype)
        g = self.add_events(met, partners)  # (Z, G)
        of_pair = statistics(met, past, partners.t) @ self.meeting + g @ self.pair  # (Z, H)
        window = partners.window.index_select(0, past.row)
        of_pair = of_pair + project(self.object, window, past.o)
        of_query = project(self.subject, queries.window, queries.s) + partners.look_up(self.relation, queries.r)
        if self.settings.activity:
            activity = activity_of(partners, gap, g.dtype)
            of_query = of_query + activity.all_events(self.acts[0], queries.window, queries.s)
            of_query = of_query + activity.events_with(queries.window, queries.s, queries.r) @ self.acts[1]
            of_pair = of_pair + activity.all_events(self.acts[2], window, past.o)
        query, z, begin = partners.pairs()  # (P,), (P,), (B,)
        product = partners.look_up(self.asked, queries.r).index_select(0, query) * g.index_select(0, z)  # (P, G)
        x = of_query.index_select(0, query) + of_pair.index_select(0, z) + product @ self.product  # (P, H)
        place, row, same = self.same_facts(partners, begin, gap)
        x = x.index_add(0, place, same @ self.same)
        weights = partners.look_up(self.weights, queries.r.index_select(0, row))
        k = product.sum(1).index_add(0, place, (same * weights).sum(1))
        y = dropout(gelu(self.norm(x * self.signs)), self.settings.dropout, generator)  # (K, P, H)
        value = k + (y @ self.out)[..., 0] + self.bias
        pairs = ScoredPairs(query, past.o.index_select(0, z), value, y, begin)
        again: ScoredPairs = self.second(pairs, partners, gap, generator)
        return again

    def add_events(self, met: Counted, partners: Partners) -> Tensor:
        """(Z, G): the last events of each pair, added up."""
        return self.events(met, partners)[1].sum(1)

    def events(self, met: Counted, partners: Partners) -> tuple[Tensor, Tensor]:
        """The last events of each pair: their rows (Z, L) among the meetings, -1 for none, and vectors (Z, L, G)."""
        past, occurrences, size = partners.past, met.occurrences, self.settings.stream
        at = past.at[:, None] - torch.arange(size, device=past.at.device)  # (Z, L)
        there = at >= occurrences.first.index_select(0, past.fact)[:, None]
        at, rows = at.clamp(min=0), torch.where(there, at, -1)
        age = ((partners.t[:, None] - occurrences.times[at]) / met.gap).to(self.time.dtype)
        r = partners.timeline.r[occurrences.edge[at]]
        token = partners.look_up(self.event, r) + time_code(age) @ self.time + self.position  # (Z, L, G)
        return rows, gelu(token) * there[..., None]

    def terms(self, partners: Partners, gap: float) -> Terms:
        """What each of the last events of a pair adds to K, exactly (docs/maths.md, row M59)."""
        met = partners.timeline.derive(count, meetings_of, gap, self.time.dtype)
        at, vectors = self.events(met, partners)
        query, z, _ = partners.pairs()  # (P,), (P,)
        asked = partners.look_up(self.asked, partners.queries.r).index_select(0, query)  # (P, G)
        value = (vectors.index_select(0, z) @ asked[..., None])[..., 0]  # (P, L)
        pair, place = (at.index_select(0, z) >= 0).nonzero().T
        edge = met.occurrences.edge[at[z[pair], place]]
        return Terms(query[pair], partners.past.o[z[pair]], edge, value[pair, place])

    def same_facts(self, partners: Partners, begin: Tensor, gap: float) -> tuple[Tensor, Tensor, Tensor]:
        """Of the pairs whose (s, r, o) happened before: where they stand, their query, and their statistics."""
        queries, windows = partners.queries, partners.windows
        facts = partners.timeline.derive(count, occurrences_of, gap, self.time.dtype)
        known = windows.known.index_select(0, queries.window)
        past = past_of(facts.occurrences, queries.s * facts.occurrences.num_labels + queries.r, known)
        u = partners.of.index_select(0, past.row)
        z = torch.searchsorted(partners.key, u * facts.occurrences.num_entities + past.o)
        place = begin.index_select(0, past.row) + z - partners.start.index_select(0, u)
        t = windows.t.index_select(0, queries.window).index_select(0, past.row)
        return place, past.row, statistics(facts, past, t)


def best_of(value: Tensor, row: Tensor, begin: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The ``size`` largest values of each row: their places (B, size), and which of these are meant."""
    order = torch.argsort(value, descending=True, stable=True)
    order = order[torch.argsort(row[order], stable=True)]
    end = torch.cat([begin[1:], begin.new_tensor([len(value)])])
    place = begin[:, None] + torch.arange(size, device=value.device)  # (B, size)
    there = place < end[:, None]
    return (order[torch.where(there, place, 0)] if len(value) else place), there


class SecondLook(nn.Module):
    r"""The best partners of a query again, with a second layer, and compared with one another.

    .. math::
        y' = y + \mathrm{gelu}(\mathrm{LN}(M y + U a_{o r})), \qquad
        D(o) = K(o) + w \cdot y'_o + w' \cdot \mathrm{gelu}(\mathrm{attention}(y'_o; y'_1, \dots, y'_C))

    with the activity of o in the role that the query asks about.
    """

    HEADS = 4

    def __init__(self, settings: PairSettings, generator: torch.Generator) -> None:
        super().__init__()
        width = settings.width
        self.settings = settings
        self.hidden = draw_table(generator, width, width, std=width**-0.5)
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.out = draw_table(generator, settings.members, width, 1, std=0.01)
        self.project = draw_table(generator, width, 3 * width, std=width**-0.5)
        self.compared = nn.Parameter(torch.zeros(settings.members, width, 1))
        if settings.activity:
            self.uses = draw_table(generator, NUM_STATISTICS, width, std=0.5 * NUM_STATISTICS**-0.5)

    def forward(
        self, pairs: ScoredPairs, partners: Partners, gap: float, generator: torch.Generator | None
    ) -> ScoredPairs:
        """The same pairs, value and state of the best of each query changed."""
        if not len(pairs.query):
            return pairs
        best, meant = best_of(pairs.value.detach().mean(0), pairs.query, pairs.begin, self.settings.best)  # (B, C)
        place = best.flatten().index_select(0, meant.flatten().nonzero()[:, 0])  # (Q,)
        y = pairs.state.index_select(1, place)  # (K, Q, H)
        x = y @ self.hidden
        if self.settings.activity:
            queries, query = partners.queries, pairs.query.index_select(0, place)
            window, r = queries.window.index_select(0, query), queries.r.index_select(0, query)
            o = pairs.o.index_select(0, place)
            x = x + activity_of(partners, gap, x.dtype).events_with(window, o, partners.inverse(r)) @ self.uses
        y = y + dropout(gelu(self.norms[0](x)), self.settings.dropout, generator)
        change = (y @ self.out)[..., 0]  # (K, Q)
        if self.settings.compete:
            change = change + self.compare(y, meant)
        value, state = pairs.value.index_add(1, place, change), pairs.state.index_copy(1, place, y)
        return ScoredPairs(pairs.query, pairs.o, value, state, pairs.begin)

    def compare(self, y: Tensor, meant: Tensor) -> Tensor:
        """(K, Q) from the attention of each candidate to the others of its query; ``meant`` (B, C) is where y stands."""
        at = meant.flatten().nonzero()[:, 0]
        x = self.norms[1](y) @ self.project  # (K, Q, 3H)
        x = x.new_zeros(len(x), meant.numel(), x.shape[2]).index_copy(1, at, x)
        x = x.view(-1, meant.shape[1], 3, self.HEADS, y.shape[2] // self.HEADS)  # (K B, C, 3, heads, ..)
        q, k, v = x.permute(2, 0, 3, 1, 4).unbind()  # (K B, heads, C, ..) each
        mask = meant[:, None, None] | ~meant.any(1)[:, None, None, None]  # a query may have no candidate
        mask = mask.repeat(len(y), 1, 1, 1)
        mixed = scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2)
        mixed = mixed.reshape(len(y), meant.numel(), -1).index_select(1, at)
        return (gelu(mixed) @ self.compared)[..., 0]
