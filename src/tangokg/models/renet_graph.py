"""RE-Net's aggregator: an R-GCN with block-diagonal weights over all snapshots at once (docs/maths.md, row M41)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from tangokg.fields.fast import add_products, serves
from tangokg.history.growth import grow_by_mean
from tangokg.masks import dropout
from tangokg.models.renet_sequences import Appearances
from tangokg.snapshots.rows import Edges

CHUNK = 2**14  # edges added up at once where there is no kernel: their products stay in the cache


@dataclass(frozen=True, eq=False)
class Neighbourhoods:
    """The last layer before its two parts are added, because most rows are never read."""

    h: Tensor  # (M, D) states before the layer
    at: Tensor  # (A,) which of them is that of each row
    mean: Tensor  # (A, D) of the messages
    loop: Tensor  # (D, D)
    first: Tensor  # (A, D) the mean of the first layer, which no dropout touches

    def all(self, rate: float = 0.0, generator: torch.Generator | None = None) -> Tensor:
        """All rows (A, D)."""
        return self.mean + dropout((self.h @ self.loop).index_select(0, self.at), rate, generator)

    def read(self, row: Tensor, rate: float = 0.0, generator: torch.Generator | None = None) -> Tensor:
        """The given rows (n, D)."""
        loop = self.h.index_select(0, self.at.index_select(0, row)) @ self.loop
        return self.mean.index_select(0, row) + dropout(loop, rate, generator)


class Aggregator(nn.Module):
    r"""The neighbourhood of each entity in each snapshot as a vector; snapshots do not meet.

    .. math::
        h_o^{l+1} = \sigma\Big(\frac{1}{|N_t(o)|} \sum_{(s, r) \in N_t(o)} W_r^l \, h_s^l + W_0^l \, h_o^l\Big),
        \qquad h_o^0 = e_o, \qquad g(N_t(o)) = h_o^L

    :math:`W_r` is block-diagonal, one for each of the 2R labels; :math:`\sigma` is relu, and nothing in the last
    layer. Dropout falls on :math:`W_0 h_o`. Where the size of blocks does not divide D, the last one is cut.
    """

    def __init__(
        self, dim: int, labels: int, layers: int, block: int, dropout: float, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.block, self.dropout = block, dropout
        size = -(-dim // block) * block * block  # entries of all blocks of a label
        self.blocks = nn.Parameter(torch.empty(labels, layers * size))
        self.loops = nn.Parameter(torch.empty(layers, dim, dim))
        gain = nn.init.calculate_gain("relu")
        with torch.no_grad():
            for weight in (*self.blocks.split(size, dim=1), *self.loops):
                nn.init.xavier_uniform_(weight, gain, generator=generator)

    def forward(
        self,
        entities: Tensor,
        num_relations: int,
        appearances: Appearances,
        generator: torch.Generator | None = None,
        first: Tensor | None = None,
    ) -> Neighbourhoods:
        """From embeddings (N, D), and the means of the first layer where they are known; a generator draws masks."""
        table = grow_by_mean(self.blocks, num_relations)
        layers = table.view(len(table), len(self.loops), -1, self.block, self.block).unbind(1)
        if first is None:
            first = block_means(entities, layers[0], appearances.from_entities, len(appearances))  # (A, D)
        result = Neighbourhoods(entities, appearances.entity, first, self.loops[0], first)
        for blocks, loop in zip(layers[1:], self.loops[1:], strict=True):
            h = result.all(self.dropout, generator).relu()  # (A, D)
            mean = block_means(h, blocks, appearances.from_rows, len(appearances))
            result = Neighbourhoods(h, torch.arange(len(h), device=h.device), mean, loop, first)
        return result


def block_means(h: Tensor, blocks: Tensor, edges: Edges, rows: int) -> Tensor:
    r""":math:`\sum_e w_e W_{r_e} h_{s_e}` of the edges into each row, (rows, D).

    With blocks (2R, C, b, b) this is b sums of products, entry by entry, of one entry of each block of h with one row
    of each block of W: none needs a tensor with a row for each edge (the sum of row M25).
    """
    dim, (_, count, size, _) = h.shape[1], blocks.shape
    wide = pad(h, (0, count * size - dim)).view(-1, count, size)  # (M, C, b)
    mean: Tensor = _BlockSums.apply(wide, blocks, edges, rows)  # type: ignore[no-untyped-call]
    return mean[:, :dim]


class _BlockSums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, blocks: Tensor, edges: Edges, rows: int) -> Tensor:
        ctx.save_for_backward(h, blocks)
        ctx.edges = edges
        out = h.new_zeros(rows, h.shape[1] * h.shape[2])
        for x, y in _terms(h, blocks):
            _add(out, ("s", x), ("r", y), "o", edges)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        h, blocks = ctx.saved_tensors
        g = ("o", grad.contiguous())
        of_h, of_blocks = torch.empty_like(h), torch.empty_like(blocks)
        for i, (x, y) in enumerate(_terms(h, blocks)):
            of_h[:, :, i] = _add(torch.zeros_like(x), g, ("r", y), "s", ctx.edges).view_as(h).sum(2)
            of_blocks[:, :, i] = _add(torch.zeros_like(y), ("s", x), g, "r", ctx.edges).view_as(blocks[:, :, i])
        return of_h, of_blocks, None, None


def _terms(h: Tensor, blocks: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """For each i: entry i of each block of h, b times (M, C b), and row i of each block of the weights (2R, C b)."""
    for i in range(h.shape[2]):
        yield h[:, :, i, None].expand(h.shape).flatten(1).contiguous(), blocks[:, :, i].flatten(1).contiguous()


def _add(out: Tensor, x: tuple[str, Tensor], y: tuple[str, Tensor], to: str, edges: Edges) -> Tensor:
    """:func:`~tangokg.fields.fast.add_products`, in pieces where no kernel serves."""
    if edges.by and serves(out):
        return add_products(out, x, y, to, edges)
    columns = (edges.s, edges.r, edges.o, edges.weight)
    for piece in zip(*(column.split(CHUNK) for column in columns), strict=True):
        add_products(out, x, y, to, Edges(*piece))
    return out
