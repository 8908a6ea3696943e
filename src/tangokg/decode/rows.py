"""Take rows of a table that has further uses, with one gradient for both."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tangokg.shards import WHOLE, Shard


class TakeRows(torch.autograd.Function):
    """``table[rows]``, and ``table`` for every further use: their gradients meet in one (N, D) tensor.

    They are added in place into the gradient of that further use, which must therefore be a product such as
    :meth:`States.scores`, whose gradient is a tensor of its own. Where processes divide the rows of a table, each gets
    those that it asks for.
    """

    @staticmethod
    def forward(ctx: Any, table: Tensor, rows: Tensor, shard: Shard = WHOLE) -> tuple[Tensor, Tensor]:
        if shard.whole:
            mask, taken = None, table.index_select(0, rows)
        else:
            mask, rows = shard.place(rows)
            taken = shard.total(table.index_select(0, rows) * mask[:, None])
        ctx.save_for_backward(rows, mask)
        ctx.shape = table.shape
        return taken, table.view_as(table)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_rows: Tensor | None, of_table: Tensor | None) -> tuple[Tensor | None, None, None]:
        rows, mask = ctx.saved_tensors
        if of_rows is None:
            return of_table, None, None
        of_rows = of_rows if mask is None else of_rows * mask[:, None]
        total = of_rows.new_zeros(ctx.shape) if of_table is None else of_table
        return total.index_add_(0, rows, of_rows), None, None
