"""What an evaluation of a derivative leaves behind for its gradient, and the two joined for autograd."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


@dataclass(frozen=True, eq=False)
class Record:
    """Along one evaluation: the state, and for each layer what went in, the mean of its messages, and what came."""

    z: Tensor  # (rows, D)
    states: list[Tensor]  # (objects, D) before each layer, and after the last
    means: list[Tensor]  # (objects, D)
    updates: list[Tensor]  # (objects, D) after relu and mask
    change: Tensor  # (rows, D) mean over the transitions; no rows without a transition layer


@runtime_checkable
class Recorded(Protocol):
    """A field that can write out its gradient."""

    def tensors(self) -> tuple[Tensor, ...]: ...
    def rebind(self, tensors: tuple[Tensor, ...]) -> Self: ...
    def evaluate(self, z: Tensor) -> tuple[Tensor, Record]: ...
    def pull_back(self, record: Record, grad: Tensor, sums: tuple[Tensor, ...]) -> Tensor: ...


def evaluate_with_gradient(field: Recorded, z: Tensor) -> Tensor:
    """dz/dt of a field, differentiable by its ``pull_back``."""
    dz: Tensor = _Evaluate.apply(field, z, *field.tensors())  # type: ignore[no-untyped-call]
    return dz


class _Evaluate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, field: Recorded, z: Tensor, *tensors: Tensor) -> Tensor:
        with torch.autocast(z.device.type, enabled=False):
            dz, ctx.record = field.rebind(tensors).evaluate(z)
        ctx.field = field
        ctx.save_for_backward(*tensors)
        return dz

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        tensors = ctx.saved_tensors
        sums = tuple(map(torch.zeros_like, tensors))
        with torch.autocast(grad.device.type, enabled=False):
            return None, ctx.field.rebind(tensors).pull_back(ctx.record, grad, sums), *sums
