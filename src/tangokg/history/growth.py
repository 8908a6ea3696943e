"""Tables with a row for each entity or edge label, for vocabularies that have grown since training."""

from __future__ import annotations

import torch
from torch import Tensor


def grow_rows(table: Tensor, num_entities: int) -> Tensor:
    """A table (N, ..) for more entities: the mean of the known rows for each one added."""
    more = num_entities - len(table)
    return torch.cat([table, table.mean(0, keepdim=True).expand(more, *table.shape[1:])]) if more else table


def grow(table: Tensor, num_relations: int, new: Tensor) -> Tensor:
    """A (2R, D) table for more relations: ``new`` (2, 1, D) stands for each one added, in both directions."""
    halves = table.view(2, -1, table.shape[1])  # (2, R, D): as stated, reciprocal
    more = num_relations - halves.shape[1]
    return torch.cat([halves, new.expand(-1, more, -1)], dim=1).flatten(0, 1) if more else table


def grow_by_mean(table: Tensor, num_relations: int) -> Tensor:
    """The same, with the mean of the known relations for each one added."""
    return grow(table, num_relations, table.view(2, -1, table.shape[1]).mean(1, keepdim=True))
