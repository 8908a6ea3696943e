"""Sums that decay with time: linear ODEs with jumps at the facts, in closed form (docs/maths.md, row M49)."""

from __future__ import annotations

import torch
from torch import Tensor

from tangokg.history.occurrences import Occurrences


def decayed_sums(occurrences: Occurrences, scale: Tensor) -> Tensor:
    r"""(E, K) of each occurrence n of a fact, what all up to it have left of their weight 1.

    .. math:: a_n = \sum_{i \le n} e^{-(t_n - t_i) / \tau} = 1 + e^{-(t_n - t_{n-1}) / \tau} a_{n-1}

    ``scale`` (K,) holds the :math:`\tau` in the data's unit. Maps of this form are joined in pairs, then fours, and so
    on: no loop over occurrences, and no number grows with the length of the past.
    """
    t = occurrences.times
    factor = torch.exp(-t.diff(prepend=t[:1])[:, None] / scale).to(scale.dtype)  # (E, K)
    factor[occurrences.first] = 0
    total = torch.ones_like(factor)
    longest = occurrences.first.diff(append=occurrences.first.new_tensor([len(t)])).max() if len(t) else 0
    reach = 1
    while reach < longest:
        total = torch.cat([total[:reach], total[reach:] + factor[reach:] * total[:-reach]])
        factor = torch.cat([factor[:reach], factor[reach:] * factor[:-reach]])
        reach *= 2
    return total
