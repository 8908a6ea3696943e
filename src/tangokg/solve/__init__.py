"""dz/dt -> z(t) and its gradient: parts by name, the setting that picks them, and the one function that uses them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from tangokg.errors import ConfigError
from tangokg.solve.adaptive import ADAPTIVE, Adaptive
from tangokg.solve.barycentric import chebyshev_nodes
from tangokg.solve.field import Field, Solver, Stepping
from tangokg.solve.gradients import InitialValueProblem, adjoint, direct, irdm
from tangokg.solve.integrate import FixedGrid
from tangokg.solve.tableaus import TABLEAUS

__all__ = [
    "ADAPTIVE",
    "GRADIENTS",
    "SOLVERS",
    "TABLEAUS",
    "Field",
    "Method",
    "solve",
]


@dataclass(frozen=True)
class Method:
    """How an interval is integrated and differentiated; the default is classical RK4, one step, direct gradient."""

    solver: str = "rk4"  # a name in SOLVERS
    gradient: str = "direct"  # a name in GRADIENTS
    steps: int = 1  # of a fixed grid, for each interval
    nodes: int = 3  # of irdm, for each interval, ends included
    rtol: float = 1e-6  # of an adaptive solver
    atol: float = 1e-8  # of an adaptive solver

    def __post_init__(self) -> None:
        for key, known in (("solver", SOLVERS), ("gradient", GRADIENTS)):
            if (name := getattr(self, key)) not in known:
                raise ConfigError(f"{key} = {name!r} is unknown. Choose one of: {', '.join(known)}.")
        for key, least in (("steps", 1), ("nodes", 2)):
            if not isinstance(value := getattr(self, key), int) or value < least:
                raise ConfigError(f"{key} = {value!r} must be a whole number of at least {least}.")
        for key in ("rtol", "atol"):
            if not (value := getattr(self, key)) > 0:
                raise ConfigError(f"{key} = {value!r} must be above 0; 1e-6 is usual, and float32 resolves about 1e-7.")


def _make_solver(name: str) -> Callable[[Method], Solver]:
    if name in TABLEAUS:
        return lambda method: FixedGrid(TABLEAUS[name], method.steps)
    return lambda method: Adaptive(name, method.rtol, method.atol)


SOLVERS: dict[str, Callable[[Method], Solver]] = {name: _make_solver(name) for name in (*TABLEAUS, *ADAPTIVE)}

GRADIENTS: dict[str, Callable[[InitialValueProblem, Tensor], Tensor]] = {
    "direct": direct,
    "adjoint": adjoint,
    "irdm": irdm,
}


def solve(field: Field, z0: Tensor, t0: float, t1: float, method: Method) -> Tensor:
    """z(t1) of dz/dt = f(t, z), z(t0) = z0, on the grid of ``method``, with its gradient where autograd wants one.

    The value does not depend on whether a gradient is wanted: ``irdm`` stops at its nodes either way. A field that can
    take the steps of a fixed grid itself does.
    """
    if t0 == t1 or not z0.numel():
        return z0
    solver = SOLVERS[method.solver](method)
    if method.gradient == "direct" and isinstance(solver, FixedGrid) and isinstance(field, Stepping):
        lengths = [(t1 - t0) / method.steps] * method.steps
        return field.along(z0, solver.tableau.a, solver.tableau.b, lengths)
    times = chebyshev_nodes(t0, t1, method.nodes) if method.gradient == "irdm" else (t0, t1)
    return GRADIENTS[method.gradient](InitialValueProblem(field, solver, times), z0)
