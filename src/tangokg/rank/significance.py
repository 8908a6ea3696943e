"""Uncertainty of figures: intervals by resampling the queries, and a paired test of two models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

RESAMPLES = 1_000
FLIPS = 9_999  # with the signs as they are, 10,000: the least p value is 0.0001
LEVEL = 0.95
CELLS = 2**22  # draws held at once: 32 MiB
ROUNDING = 1e-12  # sums of the same numbers in another order count as equal


@dataclass(frozen=True)
class Paired:
    """The difference between two models on the same queries."""

    difference: float
    low: float  # of the interval of the difference
    high: float
    p: float  # of a difference at least this large, were it chance which of the two answers a query better


def resampled_means(values: Tensor, generator: torch.Generator, resamples: int = RESAMPLES) -> Tensor:
    r"""Means (M, resamples) of rows (M, B), over B queries drawn with replacement (docs/maths.md, row M44).

    .. math:: m^*_{ik} = \frac{1}{B} \sum_{b=1}^{B} x_{i, q_{kb}}, \qquad q_{kb} \sim \mathrm{Uniform}\{1, \dots, B\}

    A draw serves all rows, so that the difference of two rows of the result is that of a paired bootstrap.
    """
    count = values.shape[1]
    means = []
    for chunk in _chunks(resamples, count):
        drawn = torch.randint(count, (chunk, count), generator=generator)  # (chunk, B)
        means.append(torch.stack([row.take(drawn).mean(1) for row in values]))  # (M, some)
    least, most = values.min(1, keepdim=True).values, values.max(1, keepdim=True).values
    return torch.cat(means, dim=1).clamp(least, most)  # a mean of equal values is that value, without rounding


def interval(means: Tensor, level: float = LEVEL) -> tuple[float, float]:
    """The percentile interval of means (resamples,): it holds ``level`` of them, with equal tails."""
    outside = (1 - level) / 2
    low, high = torch.quantile(means, means.new_tensor([outside, 1 - outside])).tolist()
    return low, high


def sign_flip_test(difference: Tensor, generator: torch.Generator, flips: int = FLIPS) -> float:
    r"""The two-sided p value of differences (B,) between two models, query by query (docs/maths.md, row M44).

    .. math:: p = \frac{1 + |\{k : |\sum_b \sigma_{kb} d_b| \ge |\sum_b d_b|\}|}{1 + K},
        \qquad \sigma_{kb} = \pm 1 \text{ with equal chance}

    If it were chance which of two models answers a query better, each sign would be as likely as the other.
    """
    d = difference[difference != 0]  # the others add nothing to any sum
    observed = d.sum().abs() * (1 - ROUNDING)
    extreme = 0
    for chunk in _chunks(flips, len(d)):
        plus = torch.randint(2, (chunk, len(d)), generator=generator, dtype=d.dtype)  # 1 for +, 0 for -
        extreme += int(((2 * (plus @ d) - d.sum()).abs() >= observed).sum())
    return (1 + extreme) / (1 + flips)


def paired(values: Tensor, means: Tensor, generator: torch.Generator, flips: int = FLIPS) -> Paired:
    """The first of two rows of values (2, B) less the second; ``means`` (2, resamples) are theirs, resampled."""
    d = values[0] - values[1]  # (B,)
    low, high = interval(means[0] - means[1])
    return Paired(float(d.mean()), low, high, sign_flip_test(d, generator, flips))


def _chunks(total: int, width: int) -> Iterator[int]:
    """How many rows of ``width`` to draw at a time, ``total`` in all; no result depends on it."""
    size = max(1, CELLS // max(1, width))
    return (min(size, total - first) for first in range(0, total, size))
