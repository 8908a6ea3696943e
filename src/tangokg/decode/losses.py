"""Scores -> the loss of the answers (docs/maths.md, row M54)."""

from __future__ import annotations

import torch
from torch import Tensor

from tangokg.shards import WHOLE, Shard
from tangokg.snapshots.ranges import expand
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Queries, Windows


def edge_keys(timeline: Timeline) -> Tensor:
    """(E,) snapshot, subject and label of each edge as one ascending number."""
    j = torch.repeat_interleave(timeline.offset.diff())
    return (j * timeline.num_entities + timeline.s) * (2 * timeline.num_relations) + timeline.r


def true_answers(timeline: Timeline, windows: Windows, queries: Queries) -> tuple[Tensor, Tensor]:
    """(row, object) of all true answers to each query: the objects of (s, r) at the time asked for."""
    key = timeline.derive(edge_keys)
    j = torch.searchsorted(timeline.t, windows.t).index_select(0, queries.window)
    wanted = (j * timeline.num_entities + queries.s) * (2 * timeline.num_relations) + queries.r
    edge, row = expand(torch.searchsorted(key, wanted), torch.searchsorted(key, wanted, right=True))
    return row, timeline.o.index_select(0, edge)


def filtered_cross_entropy(
    scores: Tensor,
    row: Tensor,
    answer: Tensor,
    true: tuple[Tensor, Tensor],
    smoothing: float = 0.0,
    shard: Shard = WHOLE,
) -> Tensor:
    r"""Mean cross-entropy of each answer among all candidates but the other true ones (docs/maths.md, row M54).

    .. math:: \log \sum_{o \notin F} e^{x_o} - (1 - \epsilon) x_a - \epsilon \, \mathrm{mean}_{o \notin F} x_o

    where :math:`\epsilon` smooths the labels. Several answers (B,) share a ``row`` (B,) of the scores (U, N); ``true``
    (row, object) holds all true answers of each row. With a ``shard`` the columns are those of this process.
    """
    flat, (rows, column) = scores.reshape(-1), shard.own(*true)
    at = rows * scores.shape[1] + column
    wrong = shard.logsumexp(flat.index_fill(0, at, -torch.inf).view_as(scores))  # (U,)
    true_score = shard.at(scores, row, answer)  # (B,)
    loss = torch.logaddexp(wrong.index_select(0, row), true_score) - (1 - smoothing) * true_score
    if smoothing:
        total = shard.total(scores.sum(1).index_add(0, rows, -flat.index_select(0, at)))
        size = torch.full_like(total, (shard.count or scores.shape[1]) + 1)
        size = size.index_add(0, true[0], -torch.ones_like(true[0], dtype=true_score.dtype))
        loss = loss - smoothing * (total.index_select(0, row) + true_score) / size.index_select(0, row)
    return loss.mean()
