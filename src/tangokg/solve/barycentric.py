r"""Interpolation in time through Chebyshev nodes of the second kind (docs/maths.md, row M11).

.. math::
    t_j = t_0 + (t_1 - t_0) \sin^2 \frac{\pi j}{2 (n - 1)}, \qquad
    z(t) \approx \sum_j \ell_j(t) z_j, \qquad
    \ell_j(t) = \frac{w_j / (t - t_j)}{\sum_i w_i / (t - t_i)}, \qquad
    w_j = (-1)^j \cdot \begin{cases} 1/2 & j \in \{0, n - 1\} \\ 1 & \text{else} \end{cases}

The ends are nodes. The weights belong to these nodes alone: with those of the other kind the sum is no longer a
polynomial from n = 4 on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def chebyshev_nodes(t0: float, t1: float, n: int) -> tuple[float, ...]:
    """The n >= 2 nodes from t0 to t1, both ends included exactly."""
    inner = (t0 + (t1 - t0) * math.sin(math.pi * j / (2 * (n - 1))) ** 2 for j in range(1, n - 1))
    return (t0, *inner, t1)


def lagrange(nodes: Sequence[float], t: float) -> tuple[float, ...]:
    """The n numbers by which the values at ``nodes`` are weighted at ``t``; they sum to one."""
    last = len(nodes) - 1
    touch = 1e-15 * abs(nodes[last] - nodes[0])  # the float next to a node at 0 is so small that 1 / t is infinite
    for at, node in enumerate(nodes):
        if abs(t - node) <= touch:
            return tuple(float(j == at) for j in range(len(nodes)))
    terms = [(-1.0) ** j * (0.5 if j in (0, last) else 1.0) / (t - node) for j, node in enumerate(nodes)]
    total = sum(terms)
    return tuple(term / total for term in terms)


def interpolate(nodes: Sequence[float], values: Sequence[Tensor], t: float) -> Tensor:
    """The polynomial through ``values`` at ``nodes``, at ``t``."""
    z = torch.zeros_like(values[0])
    for weight, value in zip(lagrange(nodes, t), values, strict=True):
        z.add_(value, alpha=weight)
    return z
