"""Scores for a few candidates of each query, as (row, object, value): counters and copy modes are made of these."""

from __future__ import annotations

from torch import Tensor


def add_sparse(scores: Tensor, row: Tensor, o: Tensor, value: Tensor) -> Tensor:
    """``scores`` (B, N) with ``value[i]`` added at ``(row[i], o[i])``; repeats add up; differentiable in both."""
    return scores.reshape(-1).index_add(0, row * scores.shape[1] + o, value).view_as(scores)


def sparse_scores(row: Tensor, o: Tensor, value: Tensor, num_rows: int, num_entities: int) -> Tensor:
    """The same on scores of zero, without a copy of them: (B, N) in the dtype of ``value``."""
    zero = value.new_zeros(num_rows * num_entities)
    return zero.index_add_(0, row * num_entities + o, value).view(num_rows, num_entities)
