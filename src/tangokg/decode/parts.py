"""A loss over many queries, computed part by part so that the scores fit into memory (docs/maths.md, row M61)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

LossOf = Callable[..., Tensor]  # (part, *tensors) -> what the queries of a part add to the loss


def cut(costs: Tensor, room: int) -> list[slice]:
    """Cut queries into parts that cost at most ``room`` or hold one query; with ``room`` 0, one part for all."""
    total = int(costs.sum())
    if room <= 0 or total <= room:
        return [slice(0, len(costs))]
    ends, begin, spent = [0], 0, 0
    for i, cost in enumerate(costs.tolist()):
        if i > begin and spent + cost > room:
            ends.append(i)
            begin, spent = i, 0
        spent += cost
    return [slice(a, b) for a, b in zip(ends, [*ends[1:], len(costs)], strict=True)]


def sum_of_parts(loss_of: LossOf, parts: list[slice], tensors: tuple[Tensor, ...], weights: Iterable[Tensor]) -> Tensor:
    r"""The sum of ``loss_of(part, *tensors)``, whose gradient is computed with it, part by part.

    .. math:: L = \sum_p L_p(x), \qquad \partial L / \partial x = \sum_p \partial L_p / \partial x

    What a part holds for its gradient is freed before the next one begins. ``tensors`` are computed once for all parts;
    ``weights`` are the parameters that ``loss_of`` uses beside them. One part is an ordinary loss.
    """
    if len(parts) == 1:
        return loss_of(parts[0], *tensors)
    used = [weight for weight in weights if weight.requires_grad]
    loss: Tensor = _SumOfParts.apply(loss_of, parts, len(tensors), *tensors, *used)  # type: ignore[no-untyped-call]
    return loss


class _SumOfParts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, loss_of: LossOf, parts: list[slice], count: int, *inputs: Tensor) -> Tensor:
        leaves = [tensor.detach().requires_grad_(tensor.requires_grad) for tensor in inputs[:count]]
        wanted = [tensor for tensor in (*leaves, *inputs[count:]) if tensor.requires_grad]
        sums = [torch.zeros_like(tensor) for tensor in wanted]
        total = inputs[0].new_zeros(())
        for part in parts:
            with torch.enable_grad():
                loss = loss_of(part, *leaves)
            grads = torch.autograd.grad(loss, wanted, allow_unused=True) if wanted else ()
            for sum_, grad in zip(sums, grads, strict=True):
                if grad is not None:
                    sum_ += grad
            total += loss.detach()
        ctx.save_for_backward(*sums)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        sums = iter(ctx.saved_tensors)
        return None, None, None, *(next(sums) * grad if needed else None for needed in ctx.needs_input_grad[3:])
