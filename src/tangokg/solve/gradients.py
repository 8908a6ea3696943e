r"""Three gradients of z(t1) with respect to z(t0) and the field's tensors θ (docs/maths.md, rows M10, M11).

``direct`` differentiates the steps of the solver. The other two integrate, back from t1,

.. math::
    \frac{da}{dt} = -a^\top \frac{\partial f}{\partial z}, \qquad
    \frac{dg}{dt} = -a^\top \frac{\partial f}{\partial \theta}, \qquad a(t_1) = \frac{dL}{dz(t_1)}, \quad g(t_1) = 0,

so that :math:`dL/dz(t_0) = a(t_0)` and :math:`dL/d\theta = g(t_0)`. The state z(t) that f needs on the way is
integrated back with them (``adjoint``, which keeps z(t1) alone) or interpolated through the states at Chebyshev nodes,
where the forward pass stopped (``irdm``). Both go back on the grid of the forward pass: for ``irdm`` with one RK4 step
asked for and six nodes this came 10 to 220 times nearer to the true gradient than one step back over the whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tangokg.solve.barycentric import interpolate
from tangokg.solve.field import Field, Solver, Tensors


@dataclass(frozen=True, eq=False)
class InitialValueProblem:
    """A field, the solver that carries z along it, and the times at which it stops, ends included."""

    field: Field
    solver: Solver
    times: tuple[float, ...]


def forward(problem: InitialValueProblem, z0: Tensor) -> list[Tensor]:
    """z at each of the times after the first."""
    along = problem.solver(lambda t, state: (problem.field(t, *state),), (z0,), problem.times)
    return [z for (z,) in along]


def direct(problem: InitialValueProblem, z0: Tensor) -> Tensor:
    """z(t1), differentiated step by step by autograd."""
    return forward(problem, z0)[-1]


def adjoint(problem: InitialValueProblem, z0: Tensor) -> Tensor:
    """z(t1), with the state integrated back in the reverse pass."""
    return _reversible(problem, z0, keep=1, back=_back_with_state)


def irdm(problem: InitialValueProblem, z0: Tensor) -> Tensor:
    """z(t1), with the state interpolated in the reverse pass through those at the problem's times."""
    return _reversible(problem, z0, keep=len(problem.times), back=_back_with_interpolation)


# (problem with detached tensors, kept states, a(t1), tensors that want a gradient) -> a(t0), *g(t0)
Backwards = Callable[[InitialValueProblem, tuple[Tensor, ...], Tensor, tuple[Tensor, ...]], Tensors]


def _back_with_state(
    problem: InitialValueProblem, kept: tuple[Tensor, ...], a1: Tensor, wanted: tuple[Tensor, ...]
) -> Tensors:
    def f(t: float | Tensor, state: Tensors) -> Tensors:
        dz, slopes = _slopes(problem, t, state[0], state[1], wanted)
        return (dz, *slopes)

    start = (kept[-1], a1, *map(torch.zeros_like, wanted))
    return problem.solver(f, start, problem.times[::-1])[-1][1:]


def _back_with_interpolation(
    problem: InitialValueProblem, kept: tuple[Tensor, ...], a1: Tensor, wanted: tuple[Tensor, ...]
) -> Tensors:
    def f(t: float | Tensor, state: Tensors) -> Tensors:
        z = interpolate(problem.times, kept, float(t))
        return _slopes(problem, t, z, state[0], wanted)[1]

    start = (a1, *map(torch.zeros_like, wanted))
    return problem.solver(f, start, problem.times[::-1])[-1]


def _slopes(
    problem: InitialValueProblem, t: float | Tensor, z: Tensor, a: Tensor, wanted: tuple[Tensor, ...]
) -> tuple[Tensor, Tensors]:
    """f(t, z), and the time derivatives of a and of each g; zero where f does not depend on the tensor."""
    with torch.enable_grad():
        z = z.detach().requires_grad_()
        dz = problem.field(t, z)
        if not dz.requires_grad:
            return dz, tuple(map(torch.zeros_like, (z, *wanted)))
        return dz.detach(), torch.autograd.grad(dz, (z, *wanted), -a, materialize_grads=True)


def _reversible(problem: InitialValueProblem, z0: Tensor, keep: int, back: Backwards) -> Tensor:
    z1: Tensor = _Reversible.apply(problem, keep, back, z0, *problem.field.tensors())  # type: ignore[no-untyped-call]
    return z1


class _Reversible(torch.autograd.Function):
    """Forward without a record; the reverse pass evaluates again the field that was bound at the forward pass."""

    @staticmethod
    def forward(
        ctx: Any, problem: InitialValueProblem, keep: int, back: Backwards, z0: Tensor, *tensors: Tensor
    ) -> Tensor:
        states = [z0, *forward(problem, z0)]
        ctx.problem, ctx.back, ctx.keep = problem, back, keep
        ctx.save_for_backward(*states[-keep:], *tensors)
        return states[-1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, a1: Tensor) -> tuple[Tensor | None, ...]:
        kept, tensors = ctx.saved_tensors[: ctx.keep], ctx.saved_tensors[ctx.keep :]
        needed = ctx.needs_input_grad[4:]
        leaves = tuple(w.detach().requires_grad_(need) for w, need in zip(tensors, needed, strict=True))
        field = ctx.problem.field.rebind(leaves)
        problem = InitialValueProblem(field, ctx.problem.solver, ctx.problem.times)
        wanted = tuple(w for w in leaves if w.requires_grad)
        a0, *g0 = ctx.back(problem, kept, a1, wanted)
        gradients = iter(g0)
        return (None, None, None, a0, *(next(gradients) if w.requires_grad else None for w in leaves))
