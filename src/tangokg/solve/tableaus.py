"""Explicit Runge-Kutta methods as Butcher tableaus (docs/maths.md, row M9)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tableau:
    r"""Nodes c, stage matrix a (row i has i entries) and weights b of an explicit method, and its order.

    .. math::
        k_i = f\Big(t + c_i \Delta t,\; z + \Delta t \sum_{j < i} a_{ij} k_j\Big), \qquad
        z(t + \Delta t) \approx z + \Delta t \sum_i b_i k_i
    """

    a: tuple[tuple[float, ...], ...]
    b: tuple[float, ...]
    c: tuple[float, ...]
    order: int


TABLEAUS: dict[str, Tableau] = {
    "euler": Tableau(a=((),), b=(1.0,), c=(0.0,), order=1),
    "midpoint": Tableau(a=((), (0.5,)), b=(0.0, 1.0), c=(0.0, 0.5), order=2),
    "heun": Tableau(a=((), (1.0,)), b=(0.5, 0.5), c=(0.0, 1.0), order=2),
    "rk4": Tableau(
        a=((), (0.5,), (0.0, 0.5), (0.0, 0.0, 1.0)),
        b=(1 / 6, 1 / 3, 1 / 3, 1 / 6),
        c=(0.0, 0.5, 0.5, 1.0),
        order=4,
    ),
}
