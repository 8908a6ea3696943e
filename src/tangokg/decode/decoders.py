"""States + query -> a vector whose product with a candidate's state is its score (docs/maths.md, rows M6, M7)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from tangokg.decode.settings import Decoding
from tangokg.errors import ConfigError
from tangokg.masks import dropout

ALL_LABELS = 2_000  # contracted at once, whether a batch has them or not


class Decoder(nn.Module, ABC):
    """Any score that is linear in the candidate: score(s, r, o) = query(h_s, h_r) · h_o."""

    settings: ClassVar[type[Decoding]] = Decoding

    @abstractmethod
    def __init__(self, settings: Any, dim: int, generator: torch.Generator) -> None:
        """Make the weights for states of this size; ``settings`` are of the decoder's own class."""
        super().__init__()

    @abstractmethod
    def forward(self, h_s: Tensor, h_rel: Tensor, r: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Query vectors (B, D) from subject states (B, D), relation states (2R, D) and relation ids (B,).

        With a generator (training) dropout masks are drawn from it.
        """

    def held(self, dim: int) -> int:
        """Roughly how many numbers it keeps for the gradient of one query."""
        return 8 * dim


class DistMult(Decoder):
    r"""DistMult: :math:`\langle h_s, h_r, h_o \rangle = (h_s \odot h_r) \cdot h_o`."""

    def __init__(self, settings: Decoding, dim: int, generator: torch.Generator) -> None:
        super().__init__(settings, dim, generator)
        self.dropout = settings.dropout

    def forward(self, h_s: Tensor, h_rel: Tensor, r: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return dropout(h_s * h_rel.index_select(0, r), self.dropout, generator)  # (B, D)


@dataclass(frozen=True)
class TuckERDecoding(Decoding):
    """Settings of the decoder TuckER."""

    dropout_subject: float | None = None  # on the normalised subject; none: dropout
    dropout_matrix: float = 0.0  # on the matrix that the core and the relation make, then one for each query
    dropout_query: float | None = None  # on the normalised product of the two; none: dropout


class TuckER(Decoder):
    r"""TuckER: :math:`\mathcal W \times_1 h_s \times_2 h_r \times_3 h_o`, with its authors' batch normalisations.

    The core is contracted with each *distinct* relation of the batch, once: U (D, D) matrices, not B. A GPU contracts
    all of them where they are fewer than the queries. Dropout on the matrices takes one for each query of a training
    step.
    """

    settings: ClassVar = TuckERDecoding

    def __init__(self, settings: TuckERDecoding, dim: int, generator: torch.Generator) -> None:
        super().__init__(settings, dim, generator)
        rate = settings.rate
        self.rates = rate(settings.dropout_subject), settings.dropout_matrix, rate(settings.dropout_query)
        self.core = nn.Parameter(torch.empty(dim, dim * dim).uniform_(-1.0, 1.0, generator=generator))
        self.norm_in = nn.BatchNorm1d(dim)
        self.norm_out = nn.BatchNorm1d(dim)

    def forward(self, h_s: Tensor, h_rel: Tensor, r: Tensor, generator: torch.Generator | None = None) -> Tensor:
        of_subject, of_matrix, of_query = self.rates
        x = dropout(self.norm_in(h_s), of_subject, generator)  # (B, D)
        shape = (-1, *[x.shape[1]] * 2)
        if generator is not None and of_matrix:
            matrices = (h_rel.index_select(0, r) @ self.core).view(shape)  # (B, D, D)
            x = torch.bmm(x[:, None], dropout(matrices, of_matrix, generator))[:, 0]  # (B, D)
        else:
            if h_rel.is_cuda and len(h_rel) <= min(len(r), ALL_LABELS):  # nearly all occur; a GPU is not asked which
                distinct, group = h_rel, r
            else:
                label, group = torch.unique(r, return_inverse=True)  # (U,), (B,)
                distinct = h_rel.index_select(0, label)
            x = grouped_product(x, group, (distinct @ self.core).view(shape))  # (B, D)
        return dropout(self.norm_out(x), of_query, generator)


@dataclass(frozen=True)
class ConvTransEDecoding(Decoding):
    """Settings of ConvTransE."""

    channels: int = 50  # kernels
    kernel: int = 3  # positions that one covers, an odd number

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kernel % 2 == 0:
            raise ConfigError(f"kernel must be an odd number, found {self.kernel}.")


class ConvTransE(Decoder):
    r"""ConvTransE: one convolution over subject and relation side by side, then a linear map to a query vector.

    .. math:: q = \mathrm{relu}(\mathrm{LN}(W \, \mathrm{relu}(\mathrm{conv}([h_s; h_r]))))

    with some kernels over the D positions (docs/maths.md, row M56).
    """

    settings: ClassVar = ConvTransEDecoding

    def __init__(self, settings: ConvTransEDecoding, dim: int, generator: torch.Generator) -> None:
        super().__init__(settings, dim, generator)
        self.dropout = settings.dropout
        width, inner = settings.kernel, settings.channels * dim
        size, std = (settings.channels, 2, width), (2 * width) ** -0.5
        self.kernel = nn.Parameter(torch.empty(size).normal_(0.0, std, generator=generator))
        self.linear = nn.Parameter(torch.empty(inner, dim).normal_(0.0, inner**-0.5, generator=generator))
        self.norm = nn.LayerNorm(dim)

    def forward(self, h_s: Tensor, h_rel: Tensor, r: Tensor, generator: torch.Generator | None = None) -> Tensor:
        x = torch.stack([h_s, h_rel.index_select(0, r)], dim=1)  # (B, 2, D)
        x = self._convolve(dropout(x, self.dropout, generator))  # (B, channels, D)
        x = dropout(torch.relu(x).flatten(1), self.dropout, generator) @ self.linear  # (B, D)
        return torch.relu(dropout(self.norm(x), self.dropout, generator))

    def held(self, dim: int) -> int:
        return 4 * len(self.kernel) * dim

    def _convolve(self, x: Tensor) -> Tensor:
        """(B, 2, D) -> (B, channels, D) as one product: a GPU takes 4 ms to prepare the gradient of ``conv1d``."""
        width, size = self.kernel.shape[2], x.shape[2]
        padded = pad(x, (width // 2, width // 2))
        shifted = torch.stack([padded[..., i : i + size] for i in range(width)], dim=2)  # (B, 2, width, D)
        return self.kernel.flatten(1) @ shifted.flatten(1, 2)


def grouped_product(x: Tensor, group: Tensor, matrices: Tensor) -> Tensor:
    """Row b of the result is ``x[b] @ matrices[group[b]]``: one product for each group, or on a GPU for all blocks."""
    group, order = torch.sort(group, stable=True)
    rows = x.index_select(0, order)  # (B, D)
    if x.is_cuda:
        rows = _in_blocks(rows, group, matrices)
    else:
        pieces = rows.split(torch.bincount(group, minlength=len(matrices)).tolist())
        rows = torch.cat([piece @ matrix for piece, matrix in zip(pieces, matrices.unbind(), strict=True)])
    back = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))
    return rows.index_select(0, back)


def _in_blocks(x: Tensor, group: Tensor, matrices: Tensor, width: int = 32) -> Tensor:
    """The rows of each group in blocks of ``width``, the last one padded, and one batched product over all blocks.

    The number of blocks is the largest possible one, so that it need not be read from the GPU.
    """
    ends = torch.searchsorted(group, torch.arange(len(matrices) + 1, device=group.device))  # (U + 1,)
    blocks = (ends.diff() + width - 1) // width  # (U,)
    last = blocks.cumsum(0)  # (U,)
    numbers = torch.arange(len(x) // width + len(matrices), device=group.device)
    of_block = torch.searchsorted(last, numbers, right=True).clamp(max=len(matrices) - 1)  # group of each
    before = ((last - blocks) * width - ends[:-1]).index_select(0, group)  # padding before each row
    place = torch.arange(len(x), device=x.device) + before
    padded = x.new_zeros(len(numbers) * width, x.shape[1]).index_copy(0, place, x)
    product = torch.bmm(padded.view(-1, width, x.shape[1]), matrices.index_select(0, of_block))
    return product.flatten(0, 1).index_select(0, place)
