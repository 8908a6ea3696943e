"""Dropout masks from a generator that is passed in: drawn once, then constant."""

from __future__ import annotations

import torch
from torch import Tensor


def dropout_mask(like: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    r"""A mask m with :math:`m_i \in \{0, 1 / keep\}`, :math:`P(m_i = 0) = 1 - keep`, of the shape of ``like``.

    Eight entries are cut from one 64-bit draw, which is what makes large masks cheap on a CPU; ``keep`` is therefore
    rounded to 1/256.
    """
    keep = max(1, round((1.0 - rate) * 256))
    words = torch.empty((like.numel() + 7) // 8, dtype=torch.int64, device=like.device)
    words.random_(-(2**63), None, generator=generator)
    bytes_ = words.view(torch.uint8)[: like.numel()].view(like.shape)
    return (bytes_ < keep).to(like.dtype).mul_(256.0 / keep) if keep < 256 else torch.ones_like(like)


def dropout(x: Tensor, rate: float, generator: torch.Generator | None) -> Tensor:
    """``x`` with entries dropped; unchanged where ``generator`` is None (evaluation) or the rate is 0."""
    if generator is None or rate == 0.0:
        return x
    return x * dropout_mask(x, rate, generator)
