"""CompGCN: a graph convolution over the union of all training facts, decoded as a static model (row M35)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from tangokg.decode import ConvE, ConvEDecoding, Decoder, Decoding, DistMult, check_settings
from tangokg.fields.fast import add_products
from tangokg.history import sort_occurrences
from tangokg.masks import dropout
from tangokg.models.static import Static, Tables, check_static
from tangokg.snapshots.rows import Edges
from tangokg.snapshots.timeline import Timeline

COMPGCN_DECODERS = ("conve", "distmult")


@dataclass(frozen=True)
class CompGCNSettings:
    """Settings of CompGCN: its authors' best, but for the loss (bce there) and three dropouts (0.3)."""

    dim: int = 200  # D, size of the states
    first_dim: int = 100  # of the embeddings that the first layer starts from
    layers: int = 1  # convolutions
    composition: str = "corr"  # of an entity and a relation: sub, mult or corr, the circular correlation
    decoder: str = "conve"  # conve or distmult
    filters: int = 200  # of ConvE
    kernel: int = 7  # width and height of a filter
    dropout: float = 0.1  # on the sums of messages
    dropout_states: float = 0.1  # after each layer
    dropout_features: float = 0.1  # on the feature maps of ConvE
    dropout_query: float = 0.1  # on what ConvE makes of them
    loss: str = "bce-asked"  # true is with bce all that stood with (s, r) in training; bce-asked, ce: the answer
    smoothing: float = 0.1  # of the targets of both bce; 0: none

    def __post_init__(self) -> None:
        check_static(self)
        check_settings(self, choices={"composition": tuple(COMPOSITIONS), "decoder": COMPGCN_DECODERS})


class Composition(NamedTuple):
    r"""A composition as a product of wider rows: :math:`\phi(h, w) = \mathrm{back}(x(h) \odot y(w))`, back linear.

    So its sum over edges is the sum of products, and back is taken of each entity's sum alone.
    """

    wide: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]  # h (N, D), w (M, D) -> x (N, W), y (M, W)
    back: Callable[[Tensor, int], Tensor]  # (.., W), D -> (.., D)


def _wide_sub(h: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    return torch.cat([h, torch.ones_like(h)], 1), torch.cat([torch.ones_like(w), -w], 1)


def _wide_corr(h: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    a, b = torch.fft.rfft(h), torch.fft.rfft(w)  # complex, D // 2 + 1 wide
    return torch.cat([a.real, a.imag, a.real, -a.imag], 1), torch.cat([b.real, b.imag, b.imag, b.real], 1)


def _back_corr(total: Tensor, dim: int) -> Tensor:
    """From the parts of conj(a) b to the correlation: real = re re + im im, imaginary = re im - im re."""
    a, b, c, d = total.chunk(4, dim=-1)
    result: Tensor = torch.fft.irfft(torch.complex(a + b, c + d), n=dim)
    return result


COMPOSITIONS = {
    "sub": Composition(_wide_sub, lambda total, dim: total[..., :dim] + total[..., dim:]),
    "mult": Composition(lambda h, w: (h, w), lambda total, dim: total),
    "corr": Composition(_wide_corr, _back_corr),
}


class _Messages(torch.autograd.Function):
    """The sum over edges of weight * x[o] * y[r], to the rows s; without a row for each edge on a GPU."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, rows: int, edges: Edges) -> Tensor:
        ctx.save_for_backward(x, y)
        ctx.edges = edges
        return add_products(x.new_zeros(rows, x.shape[1]), ("o", x), ("r", y), "s", edges)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        (x, y), grad = ctx.saved_tensors, grad.contiguous()
        of_x = add_products(torch.zeros_like(x), ("s", grad), ("r", y), "o", ctx.edges)
        of_y = add_products(torch.zeros_like(y), ("s", grad), ("o", x), "r", ctx.edges)
        return of_x, of_y, None, None


class CompGCNLayer(nn.Module):
    r"""One convolution (docs/maths.md, row M35).

    .. math::
        h'_s = \tanh \mathrm{BN} \, \tfrac{1}{3} \Big(\sum_{\lambda} W_\lambda \sum_{(r, o) \in N_\lambda(s)}
        \frac{\phi(h_o, w_r)}{\sqrt{|N_\lambda(s)| \, |N_\lambda(o)|}} + W_{loop} \, \phi(h_s, w_{loop})\Big),
        \qquad w'_r = W_{rel} \, w_r

    :math:`\lambda` is a direction, facts as stated or reciprocal. W commutes with the sum: one product for an entity.
    """

    def __init__(self, size: tuple[int, int], composition: str, dropout: float, generator: torch.Generator) -> None:
        super().__init__()
        self.composition, self.dropout = COMPOSITIONS[composition], dropout
        self.of_stated, self.of_reciprocal = nn.Parameter(torch.empty(*size)), nn.Parameter(torch.empty(*size))
        self.of_loop, self.of_relation = nn.Parameter(torch.empty(*size)), nn.Parameter(torch.empty(*size))
        self.loop = nn.Parameter(torch.empty(1, size[0]))
        for weight in self.parameters():
            nn.init.xavier_normal_(weight, generator=generator)
        self.norm = nn.BatchNorm1d(size[1])

    def forward(
        self, h: Tensor, h_rel: Tensor, edges: Edges, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        """States (N, D') of entities and (2R, D') of relations from (N, D) and (2R, D)."""
        x, y = (rows.contiguous() for rows in self.composition.wide(h, torch.cat([h_rel, self.loop])))
        total: Tensor = _Messages.apply(x, y, 2 * len(h), edges)  # type: ignore[no-untyped-call]  # (2N, W)
        stated, reciprocal = self.composition.back(total, h.shape[1]).chunk(2)  # (N, D)
        loop = self.composition.back(x * y[-1], h.shape[1])  # (N, D)
        moved = dropout(stated @ self.of_stated, self.dropout, generator)  # (N, D')
        moved = moved + dropout(reciprocal @ self.of_reciprocal, self.dropout, generator) + loop @ self.of_loop
        return torch.tanh(self.norm(moved / 3)).to(h.dtype), (h_rel @ self.of_relation).to(h.dtype)


class CompGCN(Static):
    r"""States of entities from the graph of all training facts without their times (docs/maths.md, row M35).

    .. math::
        x_o = q(h_s, w_r) \cdot h_o + b_o, \qquad
        h, w = \mathrm{layers}(\{(s, r, o) : (s, r, o, t) \text{ in training for some } t\})

    Vashishth, Sanyal, Nitin and Talukdar, 2020, *Composition-based multi-relational graph convolutional networks*, with
    their decoders ConvE and DistMult. Their program counts for :math:`|N(o)|` what o sends out as a subject, and
    drops the messages of entities that are never one; here it is how many hear of o, and all messages count. A pair
    (s, r) is asked as often as it has facts; in their program once an epoch. The graph is that of training for good:
    it gives the same answers at all times, and a name added later has the mean state.

    The last normalisation of ConvE begins with the weights :math:`D^{-1/2}`, theirs with 1. States have the size 1, so
    first scores would be as large as :math:`\sqrt D`, which a binary loss of N candidates has to lower first. With 100
    dimensions the validation MRR after one epoch, on some of its snapshots, was 6 on ICEWS14s (bce), and is so 19.
    """

    rows: ClassVar = {**Static.rows, "bias": "entity"}
    s: Tensor
    r: Tensor
    o: Tensor
    weight: Tensor

    def __init__(self, settings: CompGCNSettings, train: Timeline, generator: torch.Generator) -> None:
        if settings.decoder == "conve":
            decoding = ConvEDecoding(
                0.0, settings.filters, settings.kernel, settings.dropout_features, settings.dropout_query
            )
            conve = ConvE(decoding, settings.dim, generator)
            nn.init.constant_(conve.norm_query.weight, settings.dim**-0.5)  # theirs begins at 1: see above
            decoder: Decoder = conve
        else:
            decoder = DistMult(Decoding(), settings.dim, generator)
        super().__init__(settings.first_dim, decoder, settings.loss, settings.smoothing, train, generator)
        sizes = [settings.first_dim, *[settings.dim] * settings.layers]
        each = [CompGCNLayer(size, settings.composition, settings.dropout, generator) for size in pairwise(sizes)]
        self.layers, self.dropout = nn.ModuleList(each), settings.dropout_states
        first = torch.zeros(()) if self.bias is None else self.bias.detach()
        self.bias = nn.Parameter(first.repeat(train.num_entities))  # theirs begins at 0: see first_bias
        for name, column in union_of(train).items():
            self.register_buffer(name, column, persistent=False)
        self._edges: Edges | None = None

    @property
    def edges(self) -> Edges:
        """The graph, on a GPU in the orders of its kernels; derived once for a device."""
        if self._edges is None or self._edges.weight is not self.weight:
            with torch.inference_mode(False):
                self._edges = Edges.in_orders(self.s, self.r, self.o, self.weight)
        return self._edges

    def tables(self, generator: torch.Generator | None) -> Tables:
        h: Tensor = self.entities
        h_rel: Tensor = self.relations
        for layer in self.layers:
            h, h_rel = layer(h, h_rel, self.edges, generator)
            h = dropout(h, self.dropout, generator)
        return Tables(h, h_rel, self.bias)


def union_of(train: Timeline) -> dict[str, Tensor]:
    """The distinct (s, r, o) of a timeline with their weights; reciprocal facts have the rows s + N."""
    facts, n = sort_occurrences(train), train.num_entities
    s, r = facts.pair // facts.num_labels, facts.pair % facts.num_labels
    back = torch.where(r >= train.num_relations, n, 0)
    degree_s, degree_o = (torch.bincount(end + back, minlength=2 * n)[end + back] for end in (s, facts.o))  # (F,)
    return {"s": s + back, "r": r, "o": facts.o, "weight": (degree_s * degree_o).double() ** -0.5}
