"""Scores for a few candidates of each query, as (row, object, value), as counters give them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


def sparse_scores(row: Tensor, o: Tensor, value: Tensor, num_rows: int, num_entities: int) -> Tensor:
    """Scores (B, N) with ``value[i]`` at ``(row[i], o[i])``, 0 elsewhere; repeats add up; ``value`` has a gradient."""
    zero = value.new_zeros(num_rows * num_entities)
    return zero.index_add_(0, row * num_entities + o, value).view(num_rows, num_entities)


@dataclass(frozen=True, eq=False)
class SparseScores:
    """Sparse scores (B, N): values shared by the queries of a group, plus values of single queries.

    Pairs (group, object) are distinct and ascending, pairs (row, object) likewise.
    """

    num_entities: int
    group_of: Tensor  # (B,) the group of each query
    group: Tensor  # (M,) as shared_o and shared
    shared_o: Tensor
    shared: Tensor
    row: Tensor  # (P,) as o and own
    o: Tensor
    own: Tensor

    def dense(self) -> Tensor:
        """All scores (B, N)."""
        groups = int(self.group_of.max()) + 1 if len(self.group_of) else 0
        shared = sparse_scores(self.group, self.shared_o, self.shared, groups, self.num_entities)
        scores = shared.index_select(0, self.group_of)  # (B, N)
        scores.view(-1).index_add_(0, self.row * self.num_entities + self.o, self.own)
        return scores

    def shared_at(self, row: Tensor, o: Tensor) -> Tensor:
        """The shared part of the scores at some pairs."""
        group = self.group_of.index_select(0, row)
        return _value_at(group, o, self.group, self.shared_o, self.shared, self.num_entities)

    def at(self, row: Tensor, o: Tensor) -> Tensor:
        """The scores at some pairs."""
        return self.shared_at(row, o) + _value_at(row, o, self.row, self.o, self.own, self.num_entities)


def _value_at(row: Tensor, o: Tensor, rows: Tensor, objects: Tensor, values: Tensor, width: int) -> Tensor:
    """The value at each pair (row, o) from a list of pairs in ascending order; 0 if the pair is not listed."""
    if not len(values):
        return values.new_zeros(len(row))
    key, wanted = rows * width + objects, row * width + o
    place = torch.searchsorted(key, wanted).clamp(max=len(key) - 1)
    return torch.where(key.index_select(0, place) == wanted, values.index_select(0, place), 0.0)
