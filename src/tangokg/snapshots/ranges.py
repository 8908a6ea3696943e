"""Index arithmetic on runs of rows: the one trick behind every batch that is assembled without a Python loop."""

from __future__ import annotations

import torch
from torch import Tensor


def expand(start: Tensor, stop: Tensor, total: int | None = None) -> tuple[Tensor, Tensor]:
    """Concatenate the ranges ``start[i] .. stop[i]``: ``(positions, owner)``, where ``owner`` is i for each position.

    ``total``, the sum of their lengths if the caller knows it, saves a GPU a round trip to the host. If it exceeds
    that sum, the rest has position 0 and the number of ranges as owner.

    >>> expand(torch.tensor([4, 0]), torch.tensor([6, 1]))
    (tensor([4, 5, 0]), tensor([0, 0, 1]))
    >>> expand(torch.tensor([4, 0]), torch.tensor([6, 1]), 5)
    (tensor([4, 5, 0, 0, 0]), tensor([0, 0, 1, 2, 2]))
    """
    length = stop - start
    after = length.cumsum(0)
    if total is None:
        owner = torch.repeat_interleave(length)  # (total,)
        return torch.arange(len(owner), device=start.device) - (after - stop).index_select(0, owner), owner
    at = torch.arange(total, device=start.device)
    owner = torch.searchsorted(after, at, right=True)  # the range that ends after each position
    shift = torch.cat([after - stop, after.new_zeros(1)]).index_select(0, owner)
    return torch.where(owner < len(start), at - shift, 0), owner
