"""Attention of a query over the last events of its subject (docs/maths.md, row M52)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, gelu, scaled_dot_product_attention

from tangokg.history.partners import Partners
from tangokg.history.statistics import TIME_CODE, time_code
from tangokg.masks import dropout
from tangokg.snapshots.timeline import Timeline

HEADS = 4  # of the attention


def sort_subjects(timeline: Timeline) -> tuple[Tensor, Tensor]:
    """The edges of a timeline by subject, then time: their rows, and (s, j) of each as one ascending number."""
    order = torch.argsort(timeline.s, stable=True)
    j = torch.repeat_interleave(timeline.offset.diff())
    return order, (timeline.s * len(timeline) + j)[order]


class SubjectStream(nn.Module):
    r"""Attention of a query over the last events of its subject (docs/maths.md, row M52).

    .. math::
        c = \sum_i \alpha_i (V e_{o_i} + v_{r_i}), \qquad
        \alpha_i \propto \exp\big(q_r \cdot (K e_{o_i} + k_{r_i} + T \psi(\Delta_i)) / \sqrt{d}\big)

    in several heads, beside a zero for "none of these"; ``W c`` is added to the subject's state before it is decoded.
    """

    def __init__(self, dim: int, size: int, width: int, num_labels: int, rate: float, generator: torch.Generator):
        super().__init__()
        self.size, self.rate = size, rate

        def table(*shape: int, std: float) -> nn.Parameter:
            return nn.Parameter(torch.empty(shape).normal_(0.0, std, generator=generator))

        self.query_relation = table(num_labels, width, std=0.3)
        self.query_state = table(dim, width, std=dim**-0.5)
        self.key_entity = table(dim, width, std=dim**-0.5)
        self.key_relation = table(num_labels, width, std=0.3)
        self.key_time = table(TIME_CODE, width, std=0.3)
        self.value_entity = table(dim, width, std=dim**-0.5)
        self.value_relation = table(num_labels, width, std=0.1)
        self.decay = nn.Parameter(torch.zeros(num_labels, HEADS * TIME_CODE))
        self.out = nn.Parameter(torch.zeros(width, dim))

    def forward(
        self, partners: Partners, h_s: Tensor, entities: Tensor, gap: float, generator: torch.Generator | None = None
    ) -> Tensor:
        """What is added to the subject states (B, D)."""
        timeline, queries = partners.timeline, partners.queries
        order, key = timeline.derive(sort_subjects)
        known = partners.windows.known.index_select(0, partners.window)
        end = torch.searchsorted(key, partners.s * len(timeline) + known)  # (U,)
        at = end[:, None] - 1 - torch.arange(self.size, device=end.device)  # (U, S)
        there = at >= torch.searchsorted(key, partners.s * len(timeline))[:, None]
        edge = order[at.clamp(min=0)]
        r, o = timeline.r[edge], timeline.o[edge]
        j = key[at.clamp(min=0)] % len(timeline)
        age = (partners.windows.t.index_select(0, partners.window)[:, None] - timeline.t[j]) / gap
        code = time_code(age.to(entities.dtype))  # (U, S, 8)
        keys = embedding(o, entities @ self.key_entity) + partners.look_up(self.key_relation, r) + code @ self.key_time
        values = embedding(o, entities @ self.value_entity) + partners.look_up(self.value_relation, r)  # (U, S, width)
        ask = h_s @ self.query_state + partners.look_up(self.query_relation, queries.r)  # (B, width)
        split = (len(queries), HEADS, -1)
        keys = keys.index_select(0, partners.of).view(len(queries), self.size, HEADS, -1)
        weight = torch.einsum("bhd,bshd->bhs", ask.view(split), keys) / (ask.shape[1] / HEADS) ** 0.5
        decay = partners.look_up(self.decay, queries.r).view(*split[:2], -1)  # (B, heads, 8)
        decay = torch.einsum("bhc,bsc->bhs", decay, code.index_select(0, partners.of))
        weight = (weight + decay).masked_fill(~there.index_select(0, partners.of)[:, None], -torch.inf)
        weight = torch.cat([weight, torch.zeros_like(weight[..., :1])], dim=2).softmax(2)[..., :-1]
        values = values.index_select(0, partners.of).view(len(queries), self.size, HEADS, -1)
        context = torch.einsum("bhs,bshd->bhd", weight, values).flatten(1)  # (B, width)
        return dropout(context, self.rate, generator) @ self.out


class SubjectSequence(nn.Module):
    r"""A transformer over the last events of a subject, which a query then reads (docs/maths.md, row M52).

    Each block moves the events by attention among themselves, and the query by attention to the events; the events
    never see the query, so they are computed once for each (window, subject). A learned token stands for "none".
    """

    def __init__(
        self, dim: int, size: int, width: int, blocks: int, num_labels: int, rate: float, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.size, self.rate = size, rate

        def table(*shape: int, std: float) -> nn.Parameter:
            return nn.Parameter(torch.empty(shape).normal_(0.0, std, generator=generator))

        self.entity = table(dim, width, std=dim**-0.5)
        self.event = table(num_labels, width, std=0.3)
        self.time = table(TIME_CODE, width, std=0.3)
        self.none = table(width, std=0.3)
        self.state = table(dim, width, std=dim**-0.5)
        self.asked = table(num_labels, width, std=0.3)
        self.blocks = nn.ModuleList(Block(width, rate, generator) for _ in range(blocks))
        self.norm = nn.LayerNorm(width)
        self.out = nn.Parameter(torch.zeros(width, dim))

    def forward(
        self, partners: Partners, h_s: Tensor, entities: Tensor, gap: float, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The query's vector (B, H) after all events; the events (X, H), each with its subject (X,) and object (X,)."""
        timeline, queries = partners.timeline, partners.queries
        there, r, o, age = subject_events(partners, self.size, gap)
        x = embedding(o, entities @ self.entity) + partners.look_up(self.event, r)
        x = x + time_code(age.to(entities.dtype)) @ self.time
        x = torch.cat([self.none.expand(len(x), 1, -1), dropout(x, self.rate, generator)], dim=1)  # (U, 1 + S, H)
        mask = torch.cat([torch.ones_like(there[:, :1]), there], dim=1)  # (U, 1 + S)
        ask = h_s @ self.state + partners.look_up(self.asked, queries.r)  # (B, H)
        for block in self.blocks:
            x, ask = block(x, ask, mask, partners.of, generator)
        at = there.flatten().nonzero()[:, 0]
        flat = x[:, 1:].flatten(0, 1).index_select(0, at)
        return self.norm(ask), flat, at // self.size, o.flatten().index_select(0, at)


def subject_events(partners: Partners, size: int, gap: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The last ``size`` known events of each subject: which are there (U, S), their relations, objects and ages."""
    timeline = partners.timeline
    order, key = timeline.derive(sort_subjects)
    known = partners.windows.known.index_select(0, partners.window)
    end = torch.searchsorted(key, partners.s * len(timeline) + known)  # (U,)
    at = end[:, None] - 1 - torch.arange(size, device=end.device)  # (U, S)
    there = at >= torch.searchsorted(key, partners.s * len(timeline))[:, None]
    edge = order[at.clamp(min=0)]
    j = key[at.clamp(min=0)] % len(timeline)
    age = (partners.windows.t.index_select(0, partners.window)[:, None] - timeline.t[j]) / gap
    return there, timeline.r[edge], timeline.o[edge], age


class Block(nn.Module):
    """Events attend to one another, a query attends to the events; then each through a layer of its own."""

    def __init__(self, width: int, rate: float, generator: torch.Generator) -> None:
        super().__init__()
        self.rate = rate

        def table(*shape: int, std: float) -> nn.Parameter:
            return nn.Parameter(torch.empty(shape).normal_(0.0, std, generator=generator))

        std = width**-0.5
        self.project = table(width, 3 * width, std=std)
        self.ask = table(width, width, std=std)
        self.mixed = table(2, width, width, std=0.3 * std)
        self.up = table(2, width, 2 * width, std=std)
        self.down = table(2, 2 * width, width, std=0.3 * std)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(4))

    def forward(
        self, x: Tensor, ask: Tensor, mask: Tensor, of: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        u, size, width = x.shape
        q, k, v = (self.norms[0](x) @ self.project).view(u, size, 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind()
        mixed = scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None])
        x = x + dropout(mixed.transpose(1, 2).flatten(2) @ self.mixed[0], self.rate, generator)
        read = (self.norms[1](ask) @ self.ask).view(len(ask), HEADS, 1, -1)
        mixed = scaled_dot_product_attention(
            read, k.index_select(0, of), v.index_select(0, of), attn_mask=mask.index_select(0, of)[:, None, None]
        )
        ask = ask + dropout(mixed.flatten(1) @ self.mixed[1], self.rate, generator)
        x = x + dropout(gelu(self.norms[2](x) @ self.up[0]) @ self.down[0], self.rate, generator)
        ask = ask + dropout(gelu(self.norms[3](ask) @ self.up[1]) @ self.down[1], self.rate, generator)
        return x, ask
