"""Scores -> ranks of the true answers: counted, never sorted, under several filters in one pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from tangokg.errors import TrainingError

CELLS = 2**20  # scores compared at once: the temporaries stay small and, on a CPU, in the cache

Pairs = tuple[Tensor, Tensor]  # (row, object), distinct: candidates of a query


@dataclass(frozen=True, eq=False)
class Ranks:
    """Rank of the true answer of each query, from 1; candidates with its score stand behind, around or before it."""

    optimistic: Tensor  # (B,) int64
    realistic: Tensor  # (B,) float64, the mean of the other two: the one that metrics use
    pessimistic: Tensor  # (B,) int64


def rank_answers(scores: Tensor, answer: Tensor, left_out: Mapping[str, Pairs]) -> dict[str, Ranks]:
    r"""Ranks of ``answer`` (B,) among ``scores`` (B, N), for each set of candidates left out (docs/maths.md, row M20).

    .. math::
        g = |\{o \notin F : x_o > x_a\}|, \quad e = |\{o \notin F : o \neq a,\; x_o = x_a\}|, \quad
        \mathrm{rank} = 1 + g, \; 1 + g + e/2, \; 1 + g + e

    All N candidates are counted once; each filter F, a list of distinct (row, object) pairs, is then taken off. The
    answer itself is never left out, whatever F says.
    """
    true = scores.gather(1, answer[:, None])  # (B, 1)
    greater, equal = _count(scores, true)  # (B,) each
    ranks = {}
    for name, (row, o) in left_out.items():
        other = o != answer.index_select(0, row)
        row, o = row[other], o[other]
        x, x_true = scores[row, o], true[:, 0].index_select(0, row)
        g = greater.index_add(0, row, (x > x_true).long(), alpha=-1)
        e = equal.index_add(0, row, (x == x_true).long(), alpha=-1)
        ranks[name] = Ranks(1 + g, 1 + g + e.double() / 2, 1 + g + e)
    return ranks


def _count(scores: Tensor, true: Tensor) -> tuple[Tensor, Tensor]:
    """How many candidates score above the true one, and how many others score the same: (B,) each."""
    rows = max(1, CELLS // scores.shape[1])
    greater, equal, largest = [], [], []
    for x, x_true in zip(torch.split(scores, rows), torch.split(true, rows), strict=True):
        greater.append((x > x_true).sum(1))
        equal.append((x == x_true).sum(1) - 1)
        largest.append(x.amax(1))  # NaN where the row holds one
    damaged = torch.cat(largest).isnan()
    if damaged.any():  # NaN compares false with everything: it would pass as rank 1
        raise TrainingError(
            f"scores: {int(damaged.sum())} of {len(scores)} queries have a score that is not a number (NaN), and such "
            f"scores have no rank. Expected finite or infinite scores: the model's weights are probably damaged; go "
            f"back to an earlier checkpoint, or train again with a lower learning rate."
        )
    return torch.cat(greater), torch.cat(equal)
