"""z(t): every solver against exact solutions, and what ``solve`` promises for every pair of solver and gradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import pytest
import torch
from torch import Tensor

import tangokg.solve
from tangokg.errors import ConfigError, TrainingError
from tangokg.solve import ADAPTIVE, GRADIENTS, SOLVERS, TABLEAUS, Method, solve
from tangokg.solve.integrate import integrate
from test_layering import imported


@dataclass(frozen=True, eq=False)
class Rule:
    """A field without tensors of its own that notes the times at which it is evaluated."""

    f: Callable[[float | Tensor, Tensor], Tensor]
    seen: list[float] = field(default_factory=list)

    def __call__(self, t: float | Tensor, z: Tensor) -> Tensor:
        self.seen.append(float(t.detach() if isinstance(t, Tensor) else t))
        return self.f(t, z)

    def tensors(self) -> tuple[Tensor, ...]:
        return ()

    def rebind(self, tensors: tuple[Tensor, ...]) -> Self:
        return self


def rational(t: float | Tensor, z: Tensor) -> Tensor:
    """dz/dt = -2 t z², solved by 1 / (1 + t²) from z(0) = 1: not linear, and t stands in it."""
    return -2 * t * z * z


ONE = torch.ones(1, dtype=torch.float64)


@pytest.mark.parametrize("name", TABLEAUS)
def test_global_error_shrinks_at_the_declared_order(name: str) -> None:
    """Halving dt divides the global error by about 2**order (dz/dt = A z, exact solution known)."""
    tableau = TABLEAUS[name]
    a = torch.tensor([[-0.4, 1.1], [-0.9, 0.2]], dtype=torch.float64)
    z0 = torch.tensor([1.0, -0.5], dtype=torch.float64)
    exact = torch.linalg.matrix_exp(2.0 * a) @ z0
    run = partial(integrate, lambda t, z: a @ z, z0, 0.0, 2.0, tableau=tableau)
    errors = [torch.dist(run(steps=n), exact) for n in (32, 64, 128)]
    observed = [torch.log2(coarse / fine) for coarse, fine in pairwise(errors)]
    assert observed == pytest.approx([tableau.order] * 2, abs=0.15)


@pytest.mark.parametrize(("t0", "t1"), [(0.0, 1.5), (1.5, 0.3)])
@pytest.mark.parametrize("name", TABLEAUS)
def test_the_order_holds_on_a_nonlinear_field_with_time_in_it_and_backwards(name: str, t0: float, t1: float) -> None:
    tableau = TABLEAUS[name]
    errors = []
    for steps in (64, 128, 256):
        z = integrate(rational, ONE / (1 + t0 * t0), t0, t1, tableau=tableau, steps=steps)
        errors.append(abs(z.item() - 1 / (1 + t1 * t1)))
    observed = [torch.log2(torch.tensor(coarse / fine)).item() for coarse, fine in pairwise(errors)]
    assert min(observed) > tableau.order - 0.2


@pytest.mark.parametrize("name", TABLEAUS)
def test_a_tableau_is_consistent(name: str) -> None:
    tableau = TABLEAUS[name]
    assert sum(tableau.b) == pytest.approx(1.0)
    assert [sum(row) for row in tableau.a] == pytest.approx(list(tableau.c))
    assert [len(row) for row in tableau.a] == list(range(len(tableau.b)))
    for i, weight in enumerate(tableau.b):
        assert weight or any(row[i] for row in tableau.a[i + 1 :]), f"nothing uses stage {i}"


@pytest.mark.parametrize(("t0", "t1"), [(0.0, 1.5), (1.5, 0.3)])
@pytest.mark.parametrize("name", ADAPTIVE)
def test_adaptive_error_falls_with_the_tolerance(name: str, t0: float, t1: float) -> None:
    errors = []
    for tolerance in (1e-3, 1e-5, 1e-7):
        method = Method(name, rtol=tolerance, atol=tolerance)
        z1 = solve(Rule(rational), ONE / (1 + t0 * t0), t0, t1, method)
        errors.append(abs(z1.item() - 1 / (1 + t1 * t1)))
        assert errors[-1] < 50 * tolerance
    assert errors[-1] < errors[0] / 100


@pytest.mark.parametrize("gradient", GRADIENTS)
@pytest.mark.parametrize("name", SOLVERS)
def test_no_solver_looks_outside_the_interval(name: str, gradient: str) -> None:
    """Forward and reverse: another graph holds beyond the ends."""
    rule, z0 = Rule(rational), ONE.clone().requires_grad_()
    solve(rule, z0, 0.2, 0.9, Method(name, gradient, 3, 4, 1e-3, 1e-3)).sum().backward()
    assert 0.2 - 1e-12 < min(rule.seen) < 0.2 + 1e-12
    assert 0.9 - 0.25 < max(rule.seen) < 0.9 + 1e-12


@pytest.mark.parametrize("gradient", GRADIENTS)
@pytest.mark.parametrize("name", SOLVERS)
def test_an_interval_of_no_length_and_a_state_of_no_rows_are_returned_as_they_are(name: str, gradient: str) -> None:
    method = Method(name, gradient)
    z0, empty = ONE.clone().requires_grad_(), torch.zeros(0, 3)
    assert solve(Rule(rational), z0, 0.5, 0.5, method) is z0
    assert solve(Rule(rational), empty, 0.0, 1.0, method) is empty


@pytest.mark.parametrize("gradient", GRADIENTS)
@pytest.mark.parametrize("name", SOLVERS)
def test_the_value_does_not_depend_on_whether_a_gradient_is_wanted(name: str, gradient: str) -> None:
    method = Method(name, gradient, 2, 4, 1e-3, 1e-3)
    with_gradient = solve(Rule(rational), ONE.clone().requires_grad_(), 0.1, 0.8, method)
    with torch.no_grad():
        without = solve(Rule(rational), ONE.clone().requires_grad_(), 0.1, 0.8, method)
    assert with_gradient.requires_grad
    assert not without.requires_grad
    assert torch.equal(with_gradient, without)
    assert not solve(Rule(rational), ONE, 0.1, 0.8, method).requires_grad


@pytest.mark.parametrize(("gradient", "forward", "reverse"), [("direct", 8, 0), ("adjoint", 8, 8), ("irdm", 10, 10)])
@pytest.mark.parametrize("name", TABLEAUS)
def test_a_fixed_grid_evaluates_once_for_each_step_and_stage(
    name: str, gradient: str, forward: int, reverse: int
) -> None:
    """With irdm, 8 steps go to the intervals between 5 nodes, 1.2, 2.8, 2.8 and 1.2 of them, each rounded up."""
    stages = len(TABLEAUS[name].b)
    rule = Rule(rational)
    z1 = solve(rule, ONE.clone().requires_grad_(), 0.0, 1.0, Method(name, gradient, steps=8, nodes=5))
    assert len(rule.seen) == stages * forward
    z1.sum().backward()
    assert len(rule.seen) == stages * (forward + reverse)


@pytest.mark.parametrize("gradient", GRADIENTS)
@pytest.mark.parametrize("name", ADAPTIVE)
def test_only_reverse_gradients_evaluate_again_on_the_way_back(name: str, gradient: str) -> None:
    rule = Rule(rational)
    z1 = solve(rule, ONE.clone().requires_grad_(), 0.0, 1.0, Method(name, gradient, rtol=1e-3, atol=1e-3))
    forward = len(rule.seen)
    z1.sum().backward()
    assert forward > 0
    assert (len(rule.seen) == forward) == (gradient == "direct")


@pytest.mark.parametrize("name", SOLVERS)
def test_float32_agrees_with_float64_and_keeps_its_type(name: str) -> None:
    method = Method(name, steps=16, rtol=1e-5, atol=1e-6)
    z1 = solve(Rule(rational), ONE, 0.0, 1.0, method)
    z1_single = solve(Rule(rational), ONE.float(), 0.0, 1.0, method)
    assert z1_single.dtype == torch.float32
    torch.testing.assert_close(z1_single.double(), z1, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ADAPTIVE)
def test_a_state_that_runs_away_is_reported(name: str) -> None:
    """dz/dt = z² from 10 is infinite at t = 0.1."""
    with pytest.raises(TrainingError, match=rf"solver '{name}' stopped between t = 0 and 1 .*take a fixed grid"):
        solve(Rule(lambda t, z: z * z), 10 * ONE, 0.0, 1.0, Method(name, rtol=1e-2, atol=1e-2))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"solver": "rk5"}, r"solver = 'rk5' is unknown\. Choose one of: euler, midpoint, heun, rk4, dopri5"),
        ({"gradient": "reverse"}, r"gradient = 'reverse' is unknown\. Choose one of: direct, adjoint, irdm\."),
        ({"steps": 0}, r"steps = 0 must be a whole number of at least 1"),
        ({"steps": 1.5}, r"steps = 1\.5 must be a whole number of at least 1"),
        ({"nodes": 1}, r"nodes = 1 must be a whole number of at least 2"),
        ({"rtol": 0.0}, r"rtol = 0\.0 must be above 0"),
        ({"atol": -1.0}, r"atol = -1\.0 must be above 0"),
    ],
)
def test_a_wrong_setting_is_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Method(**settings)


def test_solvers_know_nothing_of_graphs_and_fields() -> None:
    found = {name for path in Path(tangokg.solve.__file__).parent.glob("*.py") for name in imported(path)}
    assert found <= {"solve", "errors"}
