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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tangokg.fields.records import Recorded
from tangokg.fields.steps import weighted_sum
from tangokg.solve.barycentric import interpolate
from tangokg.solve.field import Evaluations, Field, Solver, State
from tangokg.solve.integrate import FixedGrid
from tangokg.solve.tableaus import Tableau


@dataclass(frozen=True, eq=False)
class Problem:
    """A field, the solver that carries z along it, the times at which it stops (ends included), and the counter."""

    field: Field
    solver: Solver
    times: tuple[float, ...]
    count: Evaluations


def forward(problem: Problem, z0: Tensor) -> list[Tensor]:
    """z at each of the times after the first."""

    def f(t: float | Tensor, state: State) -> State:
        problem.count.forward += 1
        return (problem.field(t, state[0]),)

    return [z for (z,) in problem.solver(f, (z0,), problem.times)]


def direct(problem: Problem, z0: Tensor) -> Tensor:
    """z(t1), recorded step by step: by autograd, or on a fixed grid by a field that can."""
    field = problem.field
    if not isinstance(problem.solver, FixedGrid) or not isinstance(field, Recorded):
        return forward(problem, z0)[-1]
    if torch.is_grad_enabled() and any(x.requires_grad for x in (z0, *field.tensors())):
        z1: Tensor = _Steps.apply(problem, z0, *field.tensors())  # type: ignore[no-untyped-call]
        return z1

    def f(t: float | Tensor, state: State) -> State:
        problem.count.forward += 1
        return (field.evaluate(field.tape(state[0][None]), 0),)  # of which nothing is kept

    with torch.autocast(z0.device.type, enabled=False):
        return problem.solver(f, (z0,), problem.times)[-1][0]


def adjoint(problem: Problem, z0: Tensor) -> Tensor:
    """z(t1), with the state integrated back in the reverse pass."""
    return _reversible(problem, z0, keep=1, back=_back_with_state)


def irdm(problem: Problem, z0: Tensor) -> Tensor:
    """z(t1), with the state interpolated in the reverse pass through those at the problem's times."""
    return _reversible(problem, z0, keep=len(problem.times), back=_back_with_interpolation)


# (problem with detached tensors, kept states, a(t1), tensors that want a gradient) -> a(t0), *g(t0)
Backwards = Callable[[Problem, tuple[Tensor, ...], Tensor, tuple[Tensor, ...]], State]


def _back_with_state(problem: Problem, kept: tuple[Tensor, ...], a1: Tensor, wanted: tuple[Tensor, ...]) -> State:
    def f(t: float | Tensor, state: State) -> State:
        dz, slopes = _slopes(problem, t, state[0], state[1], wanted)
        return (dz, *slopes)

    start = (kept[-1], a1, *map(torch.zeros_like, wanted))
    return problem.solver(f, start, problem.times[::-1])[-1][1:]


def _back_with_interpolation(
    problem: Problem, kept: tuple[Tensor, ...], a1: Tensor, wanted: tuple[Tensor, ...]
) -> State:
    def f(t: float | Tensor, state: State) -> State:
        z = interpolate(problem.times, kept, float(t))
        return _slopes(problem, t, z, state[0], wanted)[1]

    start = (a1, *map(torch.zeros_like, wanted))
    return problem.solver(f, start, problem.times[::-1])[-1]


def _slopes(
    problem: Problem, t: float | Tensor, z: Tensor, a: Tensor, wanted: tuple[Tensor, ...]
) -> tuple[Tensor, State]:
    """f(t, z), and the time derivatives of a and of each g; zero where f does not depend on the tensor."""
    problem.count.reverse += 1
    with torch.enable_grad():
        z = z.detach().requires_grad_()
        dz = problem.field(t, z)
        if not dz.requires_grad:
            return dz, tuple(map(torch.zeros_like, (z, *wanted)))
        return dz.detach(), torch.autograd.grad(dz, (z, *wanted), -a, materialize_grads=True)


def _reversible(problem: Problem, z0: Tensor, keep: int, back: Backwards) -> Tensor:
    z1: Tensor = _Reversible.apply(problem, keep, back, z0, *problem.field.tensors())  # type: ignore[no-untyped-call]
    return z1


class _Steps(torch.autograd.Function):
    r"""Steps of a fixed grid with their gradient written out (docs/maths.md, row M26): one sum over all stages.

    .. math::
        \bar k_i = \Delta t \Big(b_i \bar z_1 + \sum_{j > i} a_{ji} \bar x_j\Big), \qquad
        \bar x_i = \bar k_i^\top \frac{\partial f}{\partial z}(x_i), \qquad \bar z_0 = \bar z_1 + \sum_i \bar x_i
    """

    @staticmethod
    def forward(ctx: Any, problem: Problem, z0: Tensor, *tensors: Tensor) -> Tensor:
        ctx.problem, (tableau, lengths) = problem, _grid(problem)
        ctx.save_for_backward(*tensors)
        field, stages, z = problem.field.rebind(tensors), len(tableau.b), z0.contiguous()
        assert isinstance(field, Recorded)
        ctx.tape = tape = field.tape(z0.new_empty(stages * len(lengths), *z0.shape))
        with torch.autocast(z0.device.type, enabled=False):
            for step, dt in enumerate(lengths):
                k: list[Tensor] = []
                for i, weights in enumerate(tableau.a, start=step * stages):
                    weighted_sum([(1.0, z), *_terms(dt, weights, k)], tape.z[i])
                    k.append(field.evaluate(tape, i))
                z = weighted_sum([(1.0, z), *_terms(dt, tableau.b, k)])
        problem.count.forward += len(tape.z)
        return z

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, a: Tensor) -> tuple[Tensor | None, ...]:
        tape, (tableau, lengths) = ctx.tape, _grid(ctx.problem)
        field, stages, a = ctx.problem.field.rebind(ctx.saved_tensors), len(tableau.b), a.contiguous()
        back = field.back(tape)
        with torch.autocast(a.device.type, enabled=False):
            for step in reversed(range(len(lengths))):
                of_x: list[Tensor] = []  # of the stages i + 1, i + 2, ..
                for i in reversed(range(stages)):
                    after = [weights[i] for weights in tableau.a[i + 1 :]]
                    of_k = weighted_sum(_terms(lengths[step], (tableau.b[i], *after), [a, *of_x]))
                    of_x.insert(0, field.pull_back(tape, step * stages + i, of_k, back))
                a = weighted_sum([(1.0, x) for x in (a, *of_x)])
            return None, a, *field.gradients(tape, back)


def _grid(problem: Problem) -> tuple[Tableau, list[float]]:
    """The tableau, and the length of each step."""
    assert isinstance(problem.solver, FixedGrid)
    return problem.solver.tableau, problem.solver.lengths(problem.times)


def _terms(dt: float, weights: Sequence[float], slopes: Sequence[Tensor]) -> list[tuple[float, Tensor]]:
    """The terms of a stage that are not zero."""
    return [(dt * weight, slope) for weight, slope in zip(weights, slopes, strict=True) if weight]


class _Reversible(torch.autograd.Function):
    """Forward without a record; in reverse, the field as it was bound at the forward pass is evaluated anew."""

    @staticmethod
    def forward(ctx: Any, problem: Problem, keep: int, back: Backwards, z0: Tensor, *tensors: Tensor) -> Tensor:
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
        problem = Problem(field, ctx.problem.solver, ctx.problem.times, ctx.problem.count)
        wanted = tuple(w for w in leaves if w.requires_grad)
        a0, *g0 = ctx.back(problem, kept, a1, wanted)
        found = iter(g0)
        return (None, None, None, a0, *(next(found) if w.requires_grad else None for w in leaves))
