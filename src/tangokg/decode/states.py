"""Entity states at the target times, with untouched ones implied, and the products and losses over all of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import embedding, pad

from tangokg.decode.parts import cut, sum_of_parts
from tangokg.decode.rows import TakeRows
from tangokg.shards import WHOLE, Shard
from tangokg.snapshots.blocks import Block
from tangokg.snapshots.rows import few
from tangokg.snapshots.windows import Queries

ALIGNED = {"cpu": 1, "cuda": 8}  # of which the number of columns is a multiple
EVEN = 16  # the same where processes divide the columns
MATRICES = 2  # of (B, N) at once in the loss: the scores, and those of touched entities
FEW = 8  # queries
COLUMN_COST = 8  # of replacing one score, in numbers of written states
STATE_BYTES = {"cpu": 0, "cuda": 2**30}  # of states written out at once; on a CPU one window's stay in the cache


@dataclass(frozen=True, eq=False)
class States:
    r"""The states (N, D) of each window w: ``touched`` rows as they are, all others ``factor[w] * base``.

    No (W, N, D) tensor exists: products with all candidates are one product with ``base``, whose columns of touched
    entities are then replaced by products with their own states; or, where many queries are asked at a window, one
    product for each window with its states written out.

    Where processes divide the entities (docs/maths.md, row M63), ``base`` has the rows of this one, scores have a
    column for each of them, and all else is as it is in one process.
    """

    base: Tensor  # (N, D)
    factor: Tensor  # (W,) without gradient
    touched: Tensor  # (M, D)
    block: Block
    shard: Shard = WHOLE
    columns: int = 0  # to compute scores in, at least

    def take(self, window: Tensor, entity: Tensor) -> tuple[Tensor, States]:
        """States (B, D) of some entities, and the states for further use (see :class:`TakeRows`)."""
        rows, base = TakeRows.apply(self.base, entity, self.shard)  # type: ignore[no-untyped-call]
        rows = rows * self.factor.index_select(0, window)[:, None]  # (B, D)
        if len(self.touched):
            key = window * self.block.num_entities + entity
            at = torch.searchsorted(self.block.key, key).clamp(max=len(self.block.key) - 1)
            touched = self.block.key.index_select(0, at) == key  # (B,) else the entity has no row
            rows = torch.where(touched[:, None], self.touched.index_select(0, at), rows)  # (B, D)
        return rows, replace(self, base=base)

    def project(self, weight: Tensor, window: Tensor, entity: Tensor) -> Tensor:
        """States of some entities times ``weight`` (D, H): each is multiplied once, however often it is used.

        Where a few questions are answered, their entities alone are multiplied.
        """
        if self.shard.whole and few(entity, len(self.base)):
            return self.take(window, entity)[0] @ weight
        projected = replace(self, base=self.base @ self.shard.spread(weight), touched=self.touched @ weight)
        return projected.take(window, entity)[0]  # (B, H)

    def multiply(self, weight: Tensor, entity: Tensor) -> Tensor:
        """Rows of ``base`` of entities of any shape, times ``weight`` (D, H), whatever moved them: (.., H)."""
        if self.shard.whole and few(entity, len(self.base)):
            return embedding(entity, self.base) @ weight
        table = self.base @ self.shard.spread(weight)
        if self.shard.whole:
            return embedding(entity, table)
        rows = self.shard.take(table, entity.flatten())
        return rows.view(*entity.shape, -1)

    def scores(self, query: Tensor, queries: Queries) -> Tensor:
        """Products (B, N) of each query vector (B, D) with all states of its window; windows ascend."""
        query, local = query.to(self.base.dtype), self
        if not self.shard.whole:
            query, local = self.shard.spread(query), self._local()
        logits: Tensor = _Scores.apply(query, local.base, local.touched, local._layout(queries))  # type: ignore[no-untyped-call]
        return logits

    def _local(self) -> States:
        """The states whose entity has a column in the scores of this process, numbered by column.

        Products have one shape in all processes, so that entities with equal states have equal scores: ties stay ties.
        """
        mask, column = self.shard.place(self.block.entity)
        entity, window, n = column[mask], self.block.window[mask], len(self.base)
        ends = torch.arange(len(self.block) + 1, device=window.device)
        borders = torch.searchsorted(window, ends).tolist()
        block = Block(entity, window, window * n + entity, borders, (), n)
        touched, columns = self.shard.spread(self.touched)[mask], -(-self.shard.most // EVEN) * EVEN
        return States(self.base, self.factor, touched, block, columns=columns)

    def cross_entropy(self, query: Tensor, queries: Queries, room: int = 0) -> Tensor:
        """Mean cross-entropy of the answers under softmax over all candidates.

        One (B, N) matrix is written, or several in turn, each for as many queries as ``room`` bytes hold.
        """
        query, local, shard = query.to(self.base.dtype), self, self.shard
        if not shard.whole:
            query, local = shard.spread(query), self._local()
        columns = shard.most or len(self.base)
        parts = cut(torch.full((len(query),), MATRICES * columns * self.base.element_size()), room)
        loss: Tensor
        if len(parts) == 1:
            used = query, local.base, local.touched, queries.answer
            loss = _CrossEntropy.apply(*used, local._layout(queries), shard)  # type: ignore[no-untyped-call]
            return loss

        def loss_of(part: slice, query: Tensor, base: Tensor, touched: Tensor) -> Tensor:
            part_queries = queries.select(part)
            used = query[part], base, touched, part_queries.answer
            mean: Tensor = _CrossEntropy.apply(*used, local._layout(part_queries), shard)  # type: ignore[no-untyped-call]
            return mean * (len(part_queries) / len(queries))

        return sum_of_parts(loss_of, parts, (query, local.base, local.touched), ())

    def _layout(self, queries: Queries) -> _Layout:
        """Whether to write out the states of a window, (N, D), or to replace columns of the scores.

        The columns take a second product of B_w M_w D and four passes over B_w M_w scattered scores; the states take
        five passes over N D. On a GPU what counts is the number of launches, and the states of all windows, for which
        there is room, take few.
        """
        ends = pairwise(accumulate(queries.sizes, initial=0)), pairwise(self.block.borders)
        parts = [_Part(w, slice(*b), slice(*m)) for w, (b, m) in enumerate(zip(*ends, strict=False)) if b[0] < b[1]]
        kind, numel = self.base.device.type, self.base.numel()
        room = STATE_BYTES[kind] // max(1, numel * self.base.element_size())  # number of windows
        columns = sum((b.stop - b.start) * (m.stop - m.start) for b, m in ((part.queries, part.rows) for part in parts))
        if not self.columns and len(parts) > room and COLUMN_COST * columns <= len(parts) * numel:
            return _Layout(self.factor, queries.window, self.block, parts, None, len(self.base))
        groups: list[list[_Part]] = []
        for part in parts:
            if groups and len(groups[-1]) < room and groups[-1][-1].window + 1 == part.window:
                groups[-1].append(part)
            else:
                groups.append([part])
        width = max(self.columns, -(-len(self.base) // ALIGNED[kind]) * ALIGNED[kind])
        return _Layout(self.factor, queries.window, self.block, parts, groups, width)


@dataclass(frozen=True)
class _Part:
    """A window with queries: its number, its queries, its touched rows."""

    window: int
    queries: slice
    rows: slice


@dataclass(frozen=True, eq=False)
class _Layout:
    """Which query rows and which touched rows belong to which window, and how the scores are computed."""

    factor: Tensor  # (W,)
    window: Tensor  # (B,)
    block: Block
    parts: list[_Part]
    groups: list[list[_Part]] | None  # neighbouring windows whose states are written out together; None: none are
    width: int  # of the scores: N, or a few columns more, for products on a GPU are twice as fast where 8 divides it

    @property
    def scale(self) -> Tensor:
        """(B, 1) factor of each query's window."""
        return self.factor.index_select(0, self.window)[:, None]

    def entity(self, part: _Part) -> Tensor:
        return self.block.entity[part.rows]

    def write_out(self, group: list[_Part], base: Tensor, touched: Tensor) -> _Written:
        """The states of neighbouring windows."""
        first, last = group[0], group[-1]
        rows, factor = slice(first.rows.start, last.rows.stop), self.factor[first.window : last.window + 1, None, None]
        place = (self.block.window[rows] - first.window) * self.width + self.block.entity[rows]
        states = base * factor
        if self.width > len(base):
            states = pad(states, (0, 0, 0, self.width - len(base)))
        states.view(-1, base.shape[1]).index_copy_(0, place, touched[rows])
        return _Written(states, factor, rows, place)


class _Written(NamedTuple):
    """The states of some windows, written out."""

    states: Tensor  # (G, width, D)
    factor: Tensor  # (G, 1, 1)
    rows: slice  # the touched rows of these windows
    place: Tensor  # where they stand in the states (G * width, D)


def _logits(query: Tensor, base: Tensor, touched: Tensor, layout: _Layout) -> Tensor:
    if layout.groups is None:
        scaled, few = query * layout.scale, base.device.type == "cpu" and len(query) <= FEW
        logits = (base @ scaled.T).T.contiguous() if few else scaled @ base.T  # the first is twice as fast for two
        logits = logits.to(base.dtype)  # (B, N); autocast may multiply in half precision
        for part in layout.parts:
            products = (query[part.queries] @ touched[part.rows].T).to(base.dtype)  # (B_w, M_w)
            logits[part.queries].index_copy_(1, layout.entity(part), products)
        return logits
    logits = base.new_empty(len(query), layout.width)  # (B, N), and a few columns more
    for group in layout.groups:
        states = layout.write_out(group, base, touched).states
        for part in group:
            _product_into(logits[part.queries], query[part.queries], states[part.window - group[0].window].T)
    logits[:, len(base) :] = -torch.inf
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
    if layout.groups is None:
        for part in layout.parts:
            entity = layout.entity(part)
            columns = grad[part.queries].index_select(1, entity)  # (B_w, M_w)
            of_query[part.queries] = columns @ touched[part.rows]
            of_touched[part.rows] = columns.T @ query[part.queries]
            grad[part.queries].index_fill_(1, entity, 0.0)
        of_query.addcmul_(grad @ base, layout.scale)
        return of_query, grad.T @ (query * layout.scale), of_touched
    of_base = torch.zeros_like(base)
    for group in layout.groups:
        states, factor, rows, place = layout.write_out(group, base, touched)
        for part in group:
            _product_into(of_query[part.queries], grad[part.queries], states[part.window - group[0].window])
        for part in group:  # the states are used up: their gradients take their place
            _product_into(states[part.window - group[0].window], grad[part.queries].T, query[part.queries])
        flat = states.view(-1, base.shape[1])
        of_touched[rows] = flat.index_select(0, place)
        flat.index_fill_(0, place, 0.0)
        of_base.add_(states.mul_(factor).sum(0)[: len(base)])
    return of_query, of_base, of_touched


class _Scores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, base: Tensor, touched: Tensor, layout: _Layout) -> Tensor:
        ctx.save_for_backward(query, base, touched)
        ctx.layout = layout
        return _logits(query, base, touched, layout)[:, : len(base)]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        query, base, touched = ctx.saved_tensors
        more = ctx.layout.width - len(base)
        grad = pad(grad, (0, more)) if more else grad.clone()
        return (*_backward(grad, query, base, touched, ctx.layout), None)


class _CrossEntropy(torch.autograd.Function):
    """Softmax and its gradient overwrite the logits: one (B, N) matrix from end to end."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, base: Tensor, touched: Tensor, answer: Tensor, layout: _Layout, shard: Shard
    ) -> Tensor:
        logits = _logits(query, base, touched, layout)
        if shard.whole:
            torch.ops.aten._log_softmax.out(logits, 1, False, out=logits)
            true = logits.gather(1, answer[:, None])
        else:
            logits.sub_(shard.logsumexp(logits)[:, None])
            true = shard.at(logits, torch.arange(len(answer), device=answer.device), answer)
        loss = -true.mean()
        ctx.save_for_backward(query, base, touched, answer)
        ctx.layout, ctx.log_softmax, ctx.shard = layout, logits, shard
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, base, touched, answer = ctx.saved_tensors
        residual, ctx.log_softmax = ctx.log_softmax.exp_(), None  # used up: a second backward needs a second matrix
        mask, column = ctx.shard.place(answer)
        residual.scatter_add_(1, column[:, None], -mask.to(residual.dtype)[:, None])  # softmax - truth
        grads = _backward(residual, query, base, touched, ctx.layout)
        return *(g.mul_(grad / max(len(answer), 1)) for g in grads), None, None, None
