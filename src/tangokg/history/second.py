"""A second look at the best partners of a query, which compares them with one another (docs/maths.md, row M51)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention

from tangokg.history.activity import activity_of
from tangokg.history.head import Scored
from tangokg.history.partners import Partners
from tangokg.history.statistics import NUM_STATISTICS
from tangokg.masks import dropout


@dataclass(frozen=True)
class PairSettings:
    width: int = 128  # of the scorer
    rank: int = 64  # of the vector that a pair's events add up to
    stream: int = 10  # last events of a pair that are looked at one by one
    best: int = 64  # partners of a query that are looked at again
    compete: bool = True  # whether these are compared with one another
    dropout: float = 0.25
    activity: bool = True  # whether it knows how active subject and object were
    runs: bool = False  # whether it knows since when facts last, and what began since
    screen: int = 0  # partners of a query that y is computed for, the best by K; 0: all


@dataclass(frozen=True, eq=False)
class ScoredPairs:
    """Each query with each partner of its subject, grouped by query."""

    query: Tensor  # (P,)
    o: Tensor  # (P,)
    value: Tensor  # (P,) log-intensity
    state: Tensor  # (P, H)
    begin: Tensor  # (B,) where the pairs of each query begin
    others: list[Scored] = field(default_factory=list)  # what is said of pairs that were screened out


def draw_table(generator: torch.Generator, *shape: int, std: float) -> nn.Parameter:
    """Weights drawn from a normal distribution."""
    return nn.Parameter(torch.empty(shape).normal_(0.0, std, generator=generator))


def best_of(value: Tensor, row: Tensor, begin: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The ``size`` largest values of each row: their places (B, size), and a mask of the valid ones."""
    order = torch.argsort(row * 2**33 - in_order(value), stable=True)
    end = torch.cat([begin[1:], begin.new_tensor([len(value)])])
    place = begin[:, None] + torch.arange(size, device=value.device)  # (B, size)
    mask = place < end[:, None]
    return (order[torch.where(mask, place, 0)] if len(value) else place), mask


def in_order(value: Tensor) -> Tensor:
    """Whole numbers within 2**31 of 0, in the order of ``value`` as float32: its bits, reversed below 0."""
    bits = value.float().view(torch.int32).long()
    return torch.where(bits < 0, -(bits + 2**31), bits)


def screened(pairs: ScoredPairs, size: int) -> tuple[ScoredPairs, Tensor, Tensor]:
    """The best ``size`` pairs of each query, where they stood (Q,), and where each stands now (P,), -1: nowhere."""
    best, mask = best_of(pairs.value.detach(), pairs.query, pairs.begin, size)  # (B, C)
    kept = best.flatten().index_select(0, mask.flatten().nonzero()[:, 0]).sort().values  # (Q,)
    at = torch.full_like(pairs.query, -1).index_copy(0, kept, torch.arange(len(kept), device=kept.device))
    dropped = (at < 0).nonzero()[:, 0]
    others = tuple(x.index_select(0, dropped) for x in (pairs.query, pairs.o, pairs.value))
    query, o, value, state = (x.index_select(0, kept) for x in (pairs.query, pairs.o, pairs.value, pairs.state))
    begin = torch.searchsorted(query, torch.arange(len(pairs.begin), device=query.device))
    return ScoredPairs(query, o, value, state, begin, [(others[0], others[1], others[2])]), kept, at


class SecondLook(nn.Module):
    r"""The best partners of a query again, with a second layer, and compared with one another.

    .. math::
        y' = y + \mathrm{gelu}(\mathrm{LN}(M y + U a_{o r})), \qquad
        D(o) = K(o) + w \cdot y'_o + w' \cdot \mathrm{gelu}(\mathrm{attention}(y'_o; y'_1, \dots, y'_C))

    with the activity of o in the role that the query asks about.
    """

    ATTENTION_HEADS = 4

    def __init__(self, settings: PairSettings, generator: torch.Generator) -> None:
        super().__init__()
        width = settings.width
        self.settings = settings
        self.hidden = draw_table(generator, width, width, std=width**-0.5)
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.out = draw_table(generator, width, std=0.01)
        self.project = draw_table(generator, width, 3 * width, std=width**-0.5)
        self.compared = nn.Parameter(torch.zeros(width))
        if settings.activity:
            self.uses = draw_table(generator, NUM_STATISTICS, width, std=0.5 * NUM_STATISTICS**-0.5)

    def forward(
        self, pairs: ScoredPairs, partners: Partners, gap: float, generator: torch.Generator | None
    ) -> ScoredPairs:
        """The same pairs, value and state of the best of each query changed."""
        if not len(pairs.value):
            return pairs
        best, mask = best_of(pairs.value.detach(), pairs.query, pairs.begin, self.settings.best)  # (B, C)
        place = best.flatten().index_select(0, mask.flatten().nonzero()[:, 0])  # (Q,)
        y = pairs.state.index_select(0, place)
        x = y @ self.hidden
        if self.settings.activity:
            queries, query = partners.queries, pairs.query.index_select(0, place)
            window, r = queries.window.index_select(0, query), queries.r.index_select(0, query)
            o = pairs.o.index_select(0, place)
            x = x + activity_of(partners, gap, x.dtype).events_with(window, o, partners.inverse(r)) @ self.uses
        y = y + dropout(gelu(self.norms[0](x)), self.settings.dropout, generator)
        change = y @ self.out
        if self.settings.compete:
            change = change + self.compare(y, mask)
        value, state = pairs.value.index_add(0, place, change), pairs.state.index_copy(0, place, y)
        return replace(pairs, value=value, state=state)

    def compare(self, y: Tensor, mask: Tensor) -> Tensor:
        """(Q,) from the attention of each candidate to the others of its query; ``mask`` (B, C) is where y stands."""
        return gelu(self.attend(self.norms[1](y) @ self.project, mask)) @ self.compared

    def attend(self, x: Tensor, mask: Tensor) -> Tensor:
        at = mask.flatten().nonzero()[:, 0]
        x = x.new_zeros(mask.numel(), x.shape[1]).index_copy(0, at, x).view(*mask.shape, 3, self.ATTENTION_HEADS, -1)
        q, k, v = x.permute(2, 0, 3, 1, 4).unbind()  # (B, heads, C, ..) each
        allowed = mask[:, None, None] | ~mask.any(1)[:, None, None, None]  # a query may have no candidate
        mixed = scaled_dot_product_attention(q, k, v, attn_mask=allowed).transpose(1, 2).flatten(2).flatten(0, 1)
        return mixed.index_select(0, at)
