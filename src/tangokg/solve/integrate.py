"""Fixed-grid integration by any explicit tableau: a plain loop that autograd can walk back through."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from tangokg.solve.field import Slope, Tensors
from tangokg.solve.tableaus import Tableau


def integrate(
    f: Callable[[float | Tensor, Tensor], Tensor], z0: Tensor, t0: float, t1: float, *, tableau: Tableau, steps: int
) -> Tensor:
    """z(t1) from z(t0) = z0 by ``steps`` equal steps; t1 may lie before t0."""
    return FixedGrid(tableau, steps)(lambda t, state: (f(t, *state),), (z0,), (t0, t1))[-1][0]


@dataclass(frozen=True)
class FixedGrid:
    """Steps of equal length inside each interval between neighbouring times (docs/maths.md, row M9)."""

    tableau: Tableau
    steps: int

    def __call__(self, f: Slope, state: Tensors, times: Sequence[float]) -> list[Tensors]:
        """``steps`` are for the whole of ``times``; an interval takes its share of them, rounded up."""
        states, whole = [], times[-1] - times[0]
        for t0, t1 in pairwise(times):
            share = max(1, math.ceil(self.steps * (t1 - t0) / whole - 1e-9))  # half of 16 is never 9
            dt = (t1 - t0) / share
            for step in range(share):
                state = _step(f, state, t0 + step * dt, dt, self.tableau)
            states.append(state)
        return states


def _step(f: Slope, state: Tensors, t: float, dt: float, tableau: Tableau) -> Tensors:
    """One step of length ``dt``: the formula of :class:`Tableau`."""
    k: list[Tensors] = []
    for a, c in zip(tableau.a, tableau.c, strict=True):
        k.append(f(t + c * dt, _moved(state, k, a, dt)))
    return _moved(state, k, tableau.b, dt)


def _moved(state: Tensors, k: list[Tensors], weights: Sequence[float], dt: float) -> Tensors:
    """``state + dt * sum of weights * k``, component by component."""
    for weight, slope in zip(weights, k, strict=True):
        if weight:
            state = tuple(torch.add(z, dz, alpha=dt * weight) for z, dz in zip(state, slope, strict=True))
    return state
