"""The rows of a table divided among processes, and exact sums over all of it (docs/maths.md, row M63).

Every process computes the same step from the same questions; only what has a row or a column for each entity is
divided. Two rules make its gradients those of one process: what all processes have alike is passed through
:meth:`Shard.spread` before it meets rows of this process alone, and what comes back is added up by :meth:`Shard.total`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed

from tangokg.errors import TrainingError

PIECE = 2**22  # numbers of a table that are sent at once, when it is put together
LOST = (
    "another process of this training has ended, so that this one cannot go on. The checkpoint of the run is whole: "
    "go on with --resume, with as many processes as you like."
)


def meet(collective: Callable[[], Any]) -> None:
    """Call what all processes call together; one that has ended is an error of ours."""
    try:
        collective()
    except RuntimeError as error:  # torch has no class of its own for a connection that was closed
        raise TrainingError(LOST) from error


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        total = x.detach().clone()
        meet(lambda: distributed.all_reduce(total))
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


class _Spread(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        total = grad.clone(memory_format=torch.contiguous_format)
        meet(lambda: distributed.all_reduce(total))
        return total


class _LogSumExp(torch.autograd.Function):
    """Torch's own is NaN in the gradient of a row that has no finite number here, such as true answers alone."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, shard: Shard) -> Tensor:
        own = x.logsumexp(1)  # (B,)
        most = shard.largest(own)
        most = torch.where(most.isfinite(), most, 0.0)
        result = most + shard.total(torch.exp(own - most)).log()
        ctx.save_for_backward(x, result)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        x, result = ctx.saved_tensors
        return (x - result[:, None]).exp_().mul_(grad[:, None]), None


@dataclass(frozen=True)
class Shard:
    """Which rows of ``count`` this process has: a run of them; lengths of runs differ by one at most."""

    rank: int = 0
    size: int = 1
    count: int = 0  # rows of all processes; not looked at where there is one process

    @property
    def whole(self) -> bool:
        """Whether this process has all rows."""
        return self.size == 1

    @property
    def rows(self) -> slice:
        """The rows that this process has."""
        return self._rows_of(self.rank)

    @property
    def most(self) -> int:
        """The largest number of rows of any process."""
        return -(-self.count // self.size)

    def _rows_of(self, rank: int) -> slice:
        return slice(self.count * rank // self.size, self.count * (rank + 1) // self.size)

    def place(self, row: Tensor) -> tuple[Tensor, Tensor]:
        """Whether each row is here, and where; 0 where it is not."""
        if self.whole:
            return torch.ones_like(row, dtype=torch.bool), row
        own = self.rows
        here = (row >= own.start) & (row < own.stop)
        return here, torch.where(here, row - own.start, 0)

    def own(self, row: Tensor, o: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
        """Of pairs (row, entity) with values those whose entity is here, in the numbering of this process."""
        if self.whole:
            return row, o, *values
        here, column = self.place(o)
        return tuple(x[here] for x in (row, column, *values))

    def total(self, x: Tensor) -> Tensor:
        """The sum over all processes; what it is used for is the same in each."""
        return x if self.whole else _Total.apply(x)  # type: ignore[no-untyped-call]

    def spread(self, x: Tensor) -> Tensor:
        """``x``, alike in all processes, for a use that differs: its gradient is the sum over all of them."""
        return x if self.whole else _Spread.apply(x)  # type: ignore[no-untyped-call]

    def largest(self, x: Tensor) -> Tensor:
        """The largest over all processes, without gradient."""
        if self.whole:
            return x.detach()
        most = x.detach().clone()
        meet(lambda: distributed.all_reduce(most, distributed.ReduceOp.MAX))
        return most

    def least(self, number: int) -> int:
        """The smallest number of all processes, which then do as many steps."""
        return number if self.whole else -int(self.largest(torch.tensor(-number)))

    def take(self, table: Tensor, row: Tensor) -> Tensor:
        """``table[row]``, wherever the rows are; each process gets all of them."""
        if self.whole:
            return table.index_select(0, row)
        here, place = self.place(row)
        return self.total(table.index_select(0, place) * here[:, None])

    def at(self, scores: Tensor, row: Tensor, o: Tensor) -> Tensor:
        """The scores at pairs (row, entity), wherever the columns of the entities are."""
        if self.whole:
            return scores.reshape(-1).index_select(0, row * scores.shape[1] + o)
        here, column = self.place(o)
        value = scores.reshape(-1).index_select(0, row * scores.shape[1] + column)
        return self.total(torch.where(here, value, 0.0))

    def logsumexp(self, x: Tensor) -> Tensor:
        r""":math:`\log \sum_p \sum_o e^{x_{po}}` over the columns of all processes p."""
        return x.logsumexp(1) if self.whole else _LogSumExp.apply(x, self)  # type: ignore[no-untyped-call]

    def put_together(self, own: Tensor, everywhere: bool = True) -> Tensor:
        """The rows of all processes, sent in bounded pieces: in each of them, or in the first process alone."""
        if self.whole:
            return own
        wanted = everywhere or self.rank == 0
        table = own.new_empty(self.count, *own.shape[1:]) if wanted else own
        rows = max(1, PIECE // max(1, own[:1].numel()))
        for rank in range(self.size):
            run = self._rows_of(rank)
            for first in range(run.start, run.stop, rows):
                last = min(first + rows, run.stop)
                start = first - run.start
                piece = (
                    own[start : start + last - first]
                    if rank == self.rank
                    else own.new_empty(last - first, *own.shape[1:])
                )
                self._send(piece, rank)
                if wanted:
                    table[first:last] = piece
        return table

    def _send(self, piece: Tensor, rank: int) -> None:
        piece = piece.contiguous()
        meet(lambda: distributed.broadcast(piece, rank))


WHOLE = Shard()
