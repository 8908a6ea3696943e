"""Attention of a query over the last events of its subject (docs/maths.md, row M52)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from tangokg.history.partners import Partners
from tangokg.history.statistics import TIME_CODE, time_code
from tangokg.masks import dropout
from tangokg.snapshots.timeline import Timeline

ATTENTION_HEADS = 4  # of the attention

Multiply = Callable[[Tensor, Tensor], Tensor]  # weight (D, H), entities of any shape -> (.., H)
# node (X,), snapshots that each knows (X,), size -> (row of the node, r, o, t) of its last edges, the latest first
LastEdges = Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor, Tensor, Tensor]]


def sort_subjects(timeline: Timeline) -> tuple[Tensor, Tensor]:
    """The edges of a timeline by subject, then time: their rows, and (s, j) of each as one ascending number."""
    order = torch.argsort(timeline.s, stable=True)
    j = torch.repeat_interleave(timeline.offset.diff())
    return order, (timeline.s * len(timeline) + j)[order]


def last_edges(timeline: Timeline) -> LastEdges:
    """The last ``size`` known edges of any entities."""
    return partial(_last_edges, timeline)


def _last_edges(timeline: Timeline, node: Tensor, known: Tensor, size: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    order, key = timeline.derive(sort_subjects)
    at = torch.searchsorted(key, node * len(timeline) + known)[:, None] - 1 - torch.arange(size, device=node.device)
    mask = at >= torch.searchsorted(key, node * len(timeline))[:, None]  # (X, size)
    flat = mask.flatten().nonzero()[:, 0]
    at = at.flatten().index_select(0, flat)
    edge, j = order.index_select(0, at), key.index_select(0, at) % len(timeline)
    r, o = timeline.r.index_select(0, edge), timeline.o.index_select(0, edge)
    return flat // size, r, o, timeline.t.index_select(0, j)


def last_events_of(partners: Partners, size: int, gap: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The last ``size`` known events of each subject, the latest first: ``(mask, r, o, age in median gaps)``."""
    timeline = partners.timeline
    order, key = timeline.derive(sort_subjects)
    known = partners.windows.known.index_select(0, partners.window)
    end = torch.searchsorted(key, partners.s * len(timeline) + known)  # (U,)
    at = end[:, None] - 1 - torch.arange(size, device=end.device)  # (U, S)
    if not len(order):  # a name that the vocabulary has and no fact
        nothing = torch.zeros_like(at)
        return nothing > 0, nothing, nothing, nothing.to(timeline.t.dtype)
    mask = at >= torch.searchsorted(key, partners.s * len(timeline))[:, None]
    edge, j = order[at.clamp(min=0)], key[at.clamp(min=0)] % len(timeline)
    age = (partners.windows.t.index_select(0, partners.window)[:, None] - timeline.t[j]) / gap
    return mask, timeline.r[edge], timeline.o[edge], age


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
        self.decay = nn.Parameter(torch.zeros(num_labels, ATTENTION_HEADS * TIME_CODE))
        self.out = nn.Parameter(torch.zeros(width, dim))

    def forward(
        self, partners: Partners, h_s: Tensor, multiply: Multiply, gap: float, generator: torch.Generator | None = None
    ) -> Tensor:
        """What is added to the subject states (B, D); ``multiply`` gives embeddings times a weight."""
        queries = partners.queries
        mask, r, o, age = last_events_of(partners, self.size, gap)
        code = time_code(age.to(h_s.dtype))  # (U, S, 8)
        keys = multiply(self.key_entity, o) + partners.look_up(self.key_relation, r) + code @ self.key_time
        values = multiply(self.value_entity, o) + partners.look_up(self.value_relation, r)  # (U, S, width)
        ask = h_s @ self.query_state + partners.look_up(self.query_relation, queries.r)  # (B, width)
        split = (len(queries), ATTENTION_HEADS, -1)
        keys = keys.index_select(0, partners.of).view(len(queries), self.size, ATTENTION_HEADS, -1)
        weight = torch.einsum("bhd,bshd->bhs", ask.view(split), keys) / (ask.shape[1] / ATTENTION_HEADS) ** 0.5
        decay = partners.look_up(self.decay, queries.r).view(*split[:2], -1)  # (B, heads, 8)
        decay = torch.einsum("bhc,bsc->bhs", decay, code.index_select(0, partners.of))
        weight = (weight + decay).masked_fill(~mask.index_select(0, partners.of)[:, None], -torch.inf)
        weight = torch.cat([weight, torch.zeros_like(weight[..., :1])], dim=2).softmax(2)[..., :-1]
        values = values.index_select(0, partners.of).view(len(queries), self.size, ATTENTION_HEADS, -1)
        context = torch.einsum("bhs,bshd->bhd", weight, values).flatten(1)  # (B, width)
        return dropout(context, self.rate, generator) @ self.out
