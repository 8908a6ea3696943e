"""Index arithmetic on runs of rows: the one trick behind every batch that is assembled without a Python loop."""

from __future__ import annotations

import torch
from torch import Tensor


def expand(start: Tensor, stop: Tensor) -> tuple[Tensor, Tensor]:
    """Concatenate the ranges ``start[i] .. stop[i]``: ``(positions, owner)``, where ``owner`` is i for each position.

    >>> expand(torch.tensor([4, 0]), torch.tensor([6, 1]))
    (tensor([4, 5, 0]), tensor([0, 0, 1]))
    """
    length = stop - start
    owner = torch.repeat_interleave(length)  # (total,)
    first = length.cumsum(0) - length  # position at which each range begins in the output
    positions = torch.arange(len(owner), device=start.device) - (first - start).index_select(0, owner)
    return positions, owner
