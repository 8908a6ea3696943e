"""Reverse passes over fields that do not depend on all that they hold."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from tangokg.solve import GRADIENTS, SOLVERS, Method, solve


@dataclass(frozen=True, eq=False)
class Scaled:
    """dz/dt = scale * z, holding two tensors that it never uses, one of them without elements."""

    scale: Tensor
    idle: Tensor
    empty: Tensor

    def __call__(self, t: float | Tensor, z: Tensor) -> Tensor:
        return self.scale * z

    def tensors(self) -> tuple[Tensor, ...]:
        return self.scale, self.idle, self.empty

    def rebind(self, tensors: tuple[Tensor, ...]) -> Scaled:
        return Scaled(*tensors)


@dataclass(frozen=True, eq=False)
class Constant(Scaled):
    """dz/dt = 1: nothing at all has a gradient but z0."""

    def __call__(self, t: float | Tensor, z: Tensor) -> Tensor:
        return torch.ones_like(z)

    def rebind(self, tensors: tuple[Tensor, ...]) -> Constant:
        return Constant(*tensors)


@pytest.mark.parametrize("gradient", [gradient for gradient in GRADIENTS if gradient != "direct"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_a_tensor_that_is_not_used_has_a_gradient_of_zero(solver: str, gradient: str) -> None:
    scale, idle, empty = torch.tensor(0.5).double(), torch.ones(2).double(), torch.ones(0, 3).double()
    for kind, growth in ((Scaled, 0.5), (Constant, 0.0)):
        leaves = [tensor.clone().requires_grad_() for tensor in (torch.ones(3).double(), scale, idle, empty)]
        z1 = solve(
            kind(*leaves[1:]), leaves[0], 0.0, 1.0, Method(solver, gradient, steps=64, nodes=8, rtol=1e-4, atol=1e-4)
        )
        dz0, dscale, didle, dempty = torch.autograd.grad(z1.sum(), leaves)
        grown = torch.tensor(growth, dtype=torch.float64).exp()
        torch.testing.assert_close(dz0, grown.expand(3), rtol=1e-2, atol=0)
        torch.testing.assert_close(dscale, 3 * growth / 0.5 * grown, rtol=1e-2, atol=0)
        assert torch.equal(didle, torch.zeros(2).double())
        assert dempty.shape == (0, 3)
