"""Some rows of a table beside further uses of it, with one gradient for both."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tangokg.shards import WHOLE, Shard


class TakeRows(torch.autograd.Function):
    """``table[rows]``, and ``table`` for every further use: their gradients meet in one (N, D) tensor.

    They are added in place into the gradient of that further use, which must therefore be a product such as
    :meth:`States.scores`, whose gradient is a tensor of its own.
    """

    @staticmethod
    def forward(ctx: Any, table: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(rows)
        ctx.shape = table.shape
        return table.index_select(0, rows), table.view_as(table)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_rows: Tensor | None, of_table: Tensor | None) -> tuple[Tensor | None, None]:
        (rows,) = ctx.saved_tensors
        if of_rows is None:
            return of_table, None
        total = of_rows.new_zeros(ctx.shape) if of_table is None else of_table
        return total.index_add_(0, rows, of_rows), None


def take_rows(table: Tensor, rows: Tensor, shard: Shard = WHOLE) -> tuple[Tensor, Tensor]:
    """:class:`TakeRows`, where processes divide the rows of the table too."""
    if shard.whole:
        taken, further = TakeRows.apply(table, rows)  # type: ignore[no-untyped-call]
        return taken, further
    here, place = shard.place(rows)
    taken, further = TakeRows.apply(table, place)  # type: ignore[no-untyped-call]
    return shard.total(taken * here[:, None]), further
