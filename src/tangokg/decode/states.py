"""Entity states at the target times, untouched ones implied, and what is computed against all of them at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tangokg.snapshots.blocks import Block

Sparse = tuple[Tensor, Tensor, Tensor]  # (row, object, value) added to the logits


def take_rows(table: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """``table[rows]``, and ``table`` for every further use: their gradients meet in one (N, D) tensor.

    They are added in place into the gradient of that further use, which must therefore be a product such as
    :meth:`States.scores`, whose gradient is a tensor of its own.
    """
    return _TakeRows.apply(table, rows)  # type: ignore[no-any-return, no-untyped-call]


class _TakeRows(torch.autograd.Function):
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


@dataclass(frozen=True, eq=False)
class States:
    r"""The states (N, D) of each window w: ``touched`` rows as they are, all others ``factor[w] * base``.

    No (W, N, D) tensor exists: products with all candidates are one product with ``base``, whose columns of touched
    entities are then replaced by products with their own states; or, where many queries are asked at a window, one
    product for each window with its states written out.
    """

    base: Tensor  # (N, D)
    factor: Tensor  # (W,) without gradient
    touched: Tensor  # (M, D)
    block: Block

    def take(self, window: Tensor, entity: Tensor) -> tuple[Tensor, States]:
        """States (B, D) of some entities, and the states to go on with (see :func:`take_rows`)."""
        rows, base = take_rows(self.base, entity)
        rows = rows * self.factor.index_select(0, window)[:, None]  # (B, D)
        if len(self.touched):
            at, touched = self.block.find(window, entity)
            rows = torch.where(touched[:, None], self.touched.index_select(0, at), rows)  # (B, D)
        return rows, replace(self, base=base)

    def scores(self, query: Tensor, window: Tensor) -> Tensor:
        """Products (B, N) of each query vector (B, D) with all states of its window; ``window`` ascends."""
        query = query.to(self.base.dtype)
        logits: Tensor = _Scores.apply(query, self.base, self.touched, self._layout(window))  # type: ignore[no-untyped-call]
        return logits

    def cross_entropy(self, query: Tensor, window: Tensor, answer: Tensor, sparse: Sparse | None = None) -> Tensor:
        """Mean cross-entropy of the answers under softmax over all candidates, in one (B, N) matrix overall."""
        row, column, value = sparse or (answer[:0], answer[:0], query.new_zeros(0))
        loss: Tensor = _CrossEntropy.apply(  # type: ignore[no-untyped-call]
            query.to(self.base.dtype), self.base, self.touched, value, row, column, answer, self._layout(window)
        )
        return loss

    def _layout(self, window: Tensor) -> _Layout:
        borders = torch.arange(len(self.block) + 1, device=window.device)
        return _Layout(
            factor=self.factor,
            window=window,
            entity=self.block.entity,
            queries=torch.searchsorted(window, borders).tolist(),
            rows=self.block.offset.tolist(),
        )


@dataclass(frozen=True, eq=False)
class _Layout:
    """Which query rows and which touched rows belong to which window."""

    factor: Tensor  # (W,)
    window: Tensor  # (B,)
    entity: Tensor  # (M,)
    queries: list[int]  # (W + 1) borders
    rows: list[int]  # (W + 1) borders

    def windows(self) -> list[tuple[int, slice, slice]]:
        """Number, queries and touched rows of each window at which something is asked."""
        borders = zip(self.queries, self.queries[1:], self.rows, self.rows[1:], strict=False)
        return [(w, slice(a, b), slice(c, d)) for w, (a, b, c, d) in enumerate(borders) if a < b]

    @property
    def scale(self) -> Tensor:
        """(B, 1) factor of each query's window."""
        return self.factor.index_select(0, self.window)[:, None]

    def by_window(self, base: Tensor) -> bool:
        """Whether writing out the states of a window, (N, D), costs less than replacing columns of the scores.

        The columns take a second product of B_w M_w D and four passes over B_w M_w scattered scores; the states take
        five passes over N D. One (N, D) tensor exists at a time.
        """
        columns: int = sum((b.stop - b.start) * (m.stop - m.start) for _, b, m in self.windows())
        return 8 * columns > len(self.windows()) * base.numel()

    def states(self, w: int, rows: slice, base: Tensor, touched: Tensor) -> Tensor:
        """The states (N, D) of one window, written out."""
        return (base * self.factor[w]).index_copy_(0, self.entity[rows], touched[rows])


def _logits(query: Tensor, base: Tensor, touched: Tensor, layout: _Layout) -> Tensor:
    if layout.by_window(base):
        logits = base.new_empty(len(query), len(base))  # (B, N)
        for w, queries, rows in layout.windows():
            _product_into(logits[queries], query[queries], layout.states(w, rows, base, touched).T)
        return logits
    logits = ((query * layout.scale) @ base.T).to(base.dtype)  # (B, N); autocast may multiply in half precision
    for _, queries, rows in layout.windows():
        own = (query[queries] @ touched[rows].T).to(base.dtype)  # (B_w, M_w)
        logits[queries].index_copy_(1, layout.entity[rows], own)
    return logits


def _product_into(out: Tensor, a: Tensor, b: Tensor) -> None:
    """``a @ b`` without a copy; autocast, which may choose half precision, knows no ``out``."""
    if torch.is_autocast_enabled(out.device.type):
        out.copy_(a @ b)
    else:
        torch.mm(a, b, out=out)


def _backward(
    grad: Tensor, query: Tensor, base: Tensor, touched: Tensor, layout: _Layout
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of query, base and touched; ``grad`` (B, N) is used up."""
    of_query, of_touched = torch.zeros_like(query), torch.zeros_like(touched)
    if layout.by_window(base):
        of_base = torch.zeros_like(base)
        for w, queries, rows in layout.windows():
            of_query[queries] = grad[queries] @ layout.states(w, rows, base, touched)
            of_states = grad[queries].T @ query[queries]  # (N, D)
            of_touched[rows] = of_states.index_select(0, layout.entity[rows])
            of_states.index_fill_(0, layout.entity[rows], 0.0)
            of_base.addcmul_(of_states, layout.factor[w])
        return of_query, of_base, of_touched
    for _, queries, rows in layout.windows():
        entity = layout.entity[rows]
        own = grad[queries].index_select(1, entity)  # (B_w, M_w)
        of_query[queries] = own @ touched[rows]
        of_touched[rows] = own.T @ query[queries]
        grad[queries].index_fill_(1, entity, 0.0)
    of_query.addcmul_(grad @ base, layout.scale)
    return of_query, grad.T @ (query * layout.scale), of_touched


class _Scores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, base: Tensor, touched: Tensor, layout: _Layout) -> Tensor:
        ctx.save_for_backward(query, base, touched)
        ctx.layout = layout
        return _logits(query, base, touched, layout)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        query, base, touched = ctx.saved_tensors
        return (*_backward(grad.clone(), query, base, touched, ctx.layout), None)


class _CrossEntropy(torch.autograd.Function):
    """Softmax and its gradient overwrite the logits: one (B, N) matrix from end to end."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        base: Tensor,
        touched: Tensor,
        value: Tensor,
        row: Tensor,
        column: Tensor,
        answer: Tensor,
        layout: _Layout,
    ) -> Tensor:
        logits = _logits(query, base, touched, layout)
        if len(row):
            logits.index_put_((row, column), value, accumulate=True)
        torch.ops.aten._log_softmax.out(logits, 1, False, out=logits)
        loss = -logits.gather(1, answer[:, None]).mean()
        ctx.save_for_backward(query, base, touched, row, column, answer)
        ctx.layout, ctx.log_softmax = layout, logits
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, base, touched, row, column, answer = ctx.saved_tensors
        residual, ctx.log_softmax = ctx.log_softmax.exp_(), None  # used up: a second backward needs a second matrix
        residual.scatter_add_(1, answer[:, None], residual.new_full((len(answer), 1), -1.0))  # softmax - truth
        of_value = residual[row, column]
        grads = (*_backward(residual, query, base, touched, ctx.layout), of_value)
        of_query, of_base, of_touched, of_value = (g.mul_(grad / max(len(answer), 1)) for g in grads)
        return of_query, of_base, of_touched, of_value, None, None, None, None
