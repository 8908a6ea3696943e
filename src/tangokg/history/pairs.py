"""A score for each (query, partner), from what happened between the two and who they are (docs/maths.md, row M51)."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from tangokg.history.activity import activity_of
from tangokg.history.head import Asked, Head, HistorySettings, Project, Scored, Terms
from tangokg.history.lasting import NUM_LASTING, run_features
from tangokg.history.occurrences import meetings_of, occurrences_of, past_of
from tangokg.history.partners import Partners
from tangokg.history.second import PairSettings, ScoredPairs, SecondLook, draw_table, screened
from tangokg.history.statistics import NUM_STATISTICS, SCALES, TIME_CODE, Counted, count, statistics, time_code
from tangokg.masks import dropout
from tangokg.snapshots.ranges import expand


class PairScorer(Head):
    r"""What is known of s and o together (docs/maths.md, row M51).

    Every partner is scored by the last events :math:`(r_i, \Delta_i)` of the pair, the latest first, by the statistics
    x of the fact (s, r, o) and of the meetings (s, any, o), by the activity a of both (of s in all, of s with r, of o),
    by the states of both, and by how far ahead :math:`\Delta` the question asks:

    .. math::
        g = \sum_i \mathrm{gelu}(v_{r_i} + T \psi(\Delta_i) + p_i)
        y = \mathrm{gelu}(\mathrm{LN}(A_r + A h_s + B h_o + C x_{so} + G g + P (u_r \odot g) + X x_{sro} + E a
            + Q \psi(\Delta)))
        k = u_r \cdot g + (w_r + H h_s) \cdot x_{sro} + (w'_r + H' h_s) \cdot x_{so}
        K(o) = k \, e^{f \cdot \psi(\Delta)} + w \cdot y + b

    so that how much each statistic counts depends on relation and subject. The best of them are looked at again
    (:class:`SecondLook`). What depends on query or pair alone is computed once.
    """

    rows: ClassVar = ("event", "asked", "relation", "weights", "meeting_weights")

    @classmethod
    def make(cls, settings: HistorySettings, dim: int, num_labels: int, generator: torch.Generator) -> PairScorer:
        half, rate = settings.width // 2, settings.pair_dropout
        more = settings.activity, bool(settings.runs), settings.screen
        sizes = PairSettings(settings.width, half, settings.stream, half, settings.compete, rate, *more)
        return cls(sizes, dim, num_labels, generator)

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
        self.ahead = nn.Parameter(torch.zeros(TIME_CODE, width))  # Q
        self.flatten = nn.Parameter(torch.zeros(TIME_CODE))  # f
        known = NUM_STATISTICS + (NUM_LASTING if settings.runs else 0)
        weights = torch.zeros(num_labels, known)
        weights[:, : len(SCALES)], weights[:, len(SCALES) : 2 * len(SCALES)] = 0.4, 0.3  # at first a counter
        self.weights, self.habits = nn.Parameter(weights), nn.Parameter(torch.zeros(dim, known))  # w_r, H
        self.meeting_weights = nn.Parameter(torch.zeros(num_labels, NUM_STATISTICS))  # w'_r
        self.meeting_habits = nn.Parameter(torch.zeros(dim, NUM_STATISTICS))  # H'
        self.subject = table(dim, width, std=dim**-0.5)  # A
        self.object = table(dim, width, std=dim**-0.5)  # B
        self.meeting = table(NUM_STATISTICS, width, std=NUM_STATISTICS**-0.5)  # C
        self.same = table(known, width, std=NUM_STATISTICS**-0.5)  # X
        self.pair = table(rank, width, std=rank**-0.5)  # G
        self.product = table(rank, width, std=rank**-0.5)  # P
        self.norm = nn.LayerNorm(width)
        self.out = table(width, std=0.01)  # w
        self.bias = nn.Parameter(torch.tensor(-2.0))
        self.second = SecondLook(settings, generator)
        if settings.activity:
            self.acts = table(3, NUM_STATISTICS, width, std=0.5 * NUM_STATISTICS**-0.5)  # E
        if settings.runs:
            self.starts = table(3, NUM_STATISTICS, width, std=0.5 * NUM_STATISTICS**-0.5)  # E of starts

    def forward(self, asked: Asked) -> list[Scored]:
        pairs = self.score(asked.partners, asked.project, asked.gap, asked.generator)
        asked.said["pairs"] = pairs
        return [(pairs.query, pairs.o, pairs.value), *pairs.others]

    def score(
        self, partners: Partners, project: Project, gap: float, generator: torch.Generator | None = None
    ) -> ScoredPairs:
        """Scores of all partners; where they are screened, those of all but the best are K without y."""
        queries, past = partners.queries, partners.past
        counted = partners.meetings.derive(count, meetings_of, gap, self.out.dtype)
        g, meetings = self.add_events(counted, partners), statistics(counted, past, partners.t)  # (Z, G), (Z, F)
        of_query, of_pair = self.add_sides(partners, project, gap)  # (B, H), (Z, H)
        of_pair = of_pair + meetings @ self.meeting + g @ self.pair
        query, z, begin = partners.pairs()  # (P,), (P,), (B,)
        same = self.same_facts(partners, begin, gap)
        product = partners.look_up(self.asked, queries.r).index_select(0, query) * g.index_select(0, z)  # (P, G)
        k = self.additive(partners, project, (query, z), product, meetings, same)
        pairs = ScoredPairs(query, past.o.index_select(0, z), k, product, begin)
        place, _, known = same
        if self.settings.screen:
            pairs, kept, at = screened(pairs, self.settings.screen)
            z, mask = z.index_select(0, kept), at.index_select(0, place) >= 0
            place, known = at.index_select(0, place)[mask], known[mask]
        x = of_query.index_select(0, pairs.query) + of_pair.index_select(0, z) + pairs.state @ self.product  # (P, H)
        x = x.index_add(0, place, known @ self.same)
        y = dropout(gelu(self.norm(x)), self.settings.dropout, generator)
        pairs = replace(pairs, value=pairs.value + y @ self.out, state=y)
        again: ScoredPairs = self.second(pairs, partners, gap, generator)
        return again

    def additive(
        self,
        partners: Partners,
        project: Project,
        pair: tuple[Tensor, Tensor],
        product: Tensor,
        meetings: Tensor,
        facts: tuple[Tensor, Tensor, Tensor],
    ) -> Tensor:
        """(P,) what counts and events say of each pair (query, partner), faded, and the bias."""
        (query, z), (place, row, same), queries = pair, facts, partners.queries
        s = project(torch.cat([self.habits, self.meeting_habits], dim=1), queries.window, queries.s)
        of_same = partners.look_up(self.weights, queries.r) + s[:, : same.shape[1]]  # (B, F)
        of_met = partners.look_up(self.meeting_weights, queries.r) + s[:, same.shape[1] :]
        k = product.sum(1) + (meetings.index_select(0, z) * of_met.index_select(0, query)).sum(1)  # (P,)
        k = k.index_add(0, place, (same * of_same.index_select(0, row)).sum(1))
        return k * self.fade(partners).index_select(0, query) + self.bias

    def add_sides(self, partners: Partners, project: Project, gap: float) -> tuple[Tensor, Tensor]:
        """What depends on the query alone (B, H), and on the partner alone (Z, H)."""
        queries, o = partners.queries, partners.past.o
        window = partners.window.index_select(0, partners.past.row)
        of_query = project(self.subject, queries.window, queries.s) + partners.look_up(self.relation, queries.r)
        of_query = of_query + (partners.ahead_code(self.ahead.dtype) @ self.ahead).index_select(0, queries.window)
        of_pair = project(self.object, window, o)
        kinds = [(False, self.acts)] if self.settings.activity else []
        kinds += [(True, self.starts)] if self.settings.runs else []
        for starts, of_events in kinds:
            activity = activity_of(partners, gap, self.out.dtype, starts)
            of_query = of_query + activity.all_events(of_events[0], queries.window, queries.s)
            of_query = of_query + activity.events_with(queries.window, queries.s, queries.r) @ of_events[1]
            of_pair = of_pair + activity.all_events(of_events[2], window, o)
        return of_query, of_pair

    def fade(self, partners: Partners) -> Tensor:
        """(B,) the factor of k for how far ahead each query asks."""
        of_window = torch.exp(partners.ahead_code(self.flatten.dtype) @ self.flatten)
        return of_window.index_select(0, partners.queries.window)

    def add_events(self, counted: Counted, partners: Partners) -> Tensor:
        """(Z, G): the last events of each pair, added up."""
        pair, _, vectors = self.events(counted, partners)
        return vectors.new_zeros(len(partners.past.o), vectors.shape[1]).index_add(0, pair, vectors)

    def events(self, counted: Counted, partners: Partners) -> tuple[Tensor, Tensor, Tensor]:
        """The last events of each pair: the pair (X,), ascending, its row among the meetings (X,), a vector (X, G)."""
        past, occurrences, size = partners.past, counted.occurrences, self.settings.stream
        first = occurrences.first.index_select(0, past.fact)
        at, pair = expand(torch.maximum(first, past.at - size + 1), past.at + 1)  # (X,), (X,)
        age = (partners.t.index_select(0, pair) - occurrences.times.index_select(0, at)) / counted.gap
        r = partners.meetings.r.index_select(0, occurrences.edge.index_select(0, at))
        place = past.at.index_select(0, pair) - at  # 0: the latest
        mask = place[:, None] == torch.arange(size, device=at.device)  # (X, L)
        token = partners.look_up(self.event, r) + time_code(age.to(self.time.dtype)) @ self.time  # (X, G)
        return pair, at, gelu(token + mask.to(token.dtype) @ self.position)

    def terms(self, partners: Partners, gap: float) -> Terms:
        """What each of the last events of a pair adds to K, exactly (docs/maths.md, row M59)."""
        assert not partners.timeline.is_part, "edges are named by their rows in the whole history"
        counted = partners.meetings.derive(count, meetings_of, gap, self.out.dtype)
        pair, at, vectors = self.events(counted, partners)
        query, z, _ = partners.pairs()  # (P,), (P,)
        x, row = expand(torch.searchsorted(pair, z), torch.searchsorted(pair, z, right=True))  # events of the pairs
        query = query.index_select(0, row)
        of_query = partners.look_up(self.asked, partners.queries.r).index_select(0, query)  # (.., G)
        value = (vectors.index_select(0, x) * of_query).sum(1) * self.fade(partners).index_select(0, query)
        edge = counted.occurrences.edge.index_select(0, at.index_select(0, x))
        return Terms(query, partners.past.o.index_select(0, z.index_select(0, row)), edge, value)

    def same_facts(self, partners: Partners, begin: Tensor, gap: float) -> tuple[Tensor, Tensor, Tensor]:
        """The pairs whose (s, r, o) happened before: their rows, queries and statistics."""
        queries, windows = partners.queries, partners.windows
        facts = partners.facts.derive(count, occurrences_of, gap, self.out.dtype)
        known = windows.known.index_select(0, queries.window)
        past = past_of(facts.occurrences, queries.s * facts.occurrences.num_labels + queries.r, known)
        u = partners.of.index_select(0, past.row)
        z = torch.searchsorted(partners.key, u * facts.occurrences.num_entities + past.o)
        place = begin.index_select(0, past.row) + z - partners.start.index_select(0, u)
        t = windows.t.index_select(0, queries.window).index_select(0, past.row)
        same = statistics(facts, past, t)
        if self.settings.runs:
            same = torch.cat([same, run_features(partners, past, gap, same.dtype)], dim=1)
        return place, past.row, same
