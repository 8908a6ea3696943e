"""Scores -> the loss of the answers (docs/maths.md, row M54)."""

from __future__ import annotations

import torch
from torch import Tensor

from tangokg.snapshots.ranges import expand
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Queries, Windows


def edge_keys(timeline: Timeline) -> Tensor:
    """(E,) snapshot, subject and label of each edge as one ascending number."""
    j = torch.repeat_interleave(timeline.offset.diff())
    return (j * timeline.num_entities + timeline.s) * (2 * timeline.num_relations) + timeline.r


def other_answers(timeline: Timeline, windows: Windows, queries: Queries) -> tuple[Tensor, Tensor]:
    """(row, object) of the other true answers to each query: the further objects of (s, r) at the time asked for."""
    key = timeline.derive(edge_keys)
    j = torch.searchsorted(timeline.t, windows.t).index_select(0, queries.window)
    asked = (j * timeline.num_entities + queries.s) * (2 * timeline.num_relations) + queries.r
    edge, row = expand(torch.searchsorted(key, asked), torch.searchsorted(key, asked, right=True))
    o = timeline.o.index_select(0, edge)
    other = (o != queries.answer.index_select(0, row)).nonzero()[:, 0]
    return row.index_select(0, other), o.index_select(0, other)


def filtered_cross_entropy(
    scores: Tensor, answer: Tensor, left_out: tuple[Tensor, Tensor], smoothing: float = 0.0
) -> Tensor:
    r"""Mean cross-entropy of the answers among all candidates but those left out (docs/maths.md, row M54).

    .. math:: \log \sum_{o \notin F} e^{x_o} - (1 - \epsilon) x_a - \epsilon \, \mathrm{mean}_{o \notin F} x_o

    where :math:`\epsilon` smooths the labels.
    """
    row, o = left_out
    logits = scores.index_put((row, o), scores.new_tensor(-torch.inf))
    loss = logits.logsumexp(1) - (1 - smoothing) * scores.gather(1, answer[:, None])[:, 0]
    if smoothing:
        left = scores.reshape(-1).index_select(0, row * scores.shape[1] + o)
        total = scores.sum(1).index_add(0, row, -left)
        size = torch.full_like(total, scores.shape[1]).index_add(0, row, -torch.ones_like(left))
        loss = loss - smoothing * total / size
    return loss.mean()
