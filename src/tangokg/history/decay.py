"""Sums that decay with time: linear ODEs with jumps at the facts, in closed form (docs/maths.md, row M49)."""

from __future__ import annotations

import torch
from torch import Tensor

from tangokg.history.occurrences import Occurrences
from tangokg.snapshots.ranges import expand


def decayed_sums(occurrences: Occurrences, scale: Tensor) -> Tensor:
    r"""(E, K) for each occurrence n of a fact: the decayed sum of all occurrences up to it, each of weight 1.

    .. math:: a_n = \sum_{i \le n} e^{-(t_n - t_i) / \tau} = 1 + e^{-(t_n - t_{n-1}) / \tau} a_{n-1}

    ``scale`` (K,) holds the :math:`\tau` in the data's unit. Maps of this form are joined in pairs, then fours, and so
    on, as long as a fact has more: no loop over occurrences, and no number grows with the length of the past.
    """
    t = occurrences.times
    factor = torch.exp(-t.diff(prepend=t[:1])[:, None] / scale).to(scale.dtype)  # (E, K)
    total = torch.ones_like(factor)
    place = torch.arange(len(t), device=t.device) - occurrences.first.index_select(0, occurrences.fact)  # in its fact
    rows, reach = (place > 0).nonzero()[:, 0], 1  # those that are not whole yet
    while len(rows):
        decay, before = factor.index_select(0, rows), rows - reach
        total.index_add_(0, rows, decay * total.index_select(0, before))
        factor.index_copy_(0, rows, decay * factor.index_select(0, before))
        reach *= 2
        rows = rows[place.index_select(0, rows) >= reach]
    return total


def decayed_sums_at(occurrences: Occurrences, rows: Tensor, scale: Tensor) -> Tensor:
    """(P, K) the same sums for some occurrences n, term by term: faster where few of each fact are asked for.

    Time and memory grow with the past of all rows together.
    """
    i, of = expand(occurrences.first.index_select(0, occurrences.fact.index_select(0, rows)), rows + 1)
    age = occurrences.times.index_select(0, rows).index_select(0, of) - occurrences.times.index_select(0, i)
    terms = torch.exp(-age[:, None] / scale)
    return terms.new_zeros(len(rows), len(scale)).index_add_(0, of, terms)
