"""ConvE: an image of subject and relation -> a query vector (docs/maths.md, row M35)."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, linear

from tangokg.decode.decoders import Decoder
from tangokg.decode.settings import Decoding
from tangokg.masks import dropout

AT_ONCE = 2_048  # queries whose feature maps exist together in evaluation


@dataclass(frozen=True)
class ConvEDecoding(Decoding):
    """Settings of ConvE: its authors' sizes."""

    filters: int = 32  # kernels, and so feature maps
    kernel: int = 3  # width and height of a filter
    dropout_features: float | None = None  # on the feature maps; none: dropout
    dropout_query: float | None = None  # on the projection of them; none: dropout


class ConvE(Decoder):
    r"""ConvE: the query is a projection of the feature maps of an image of subject and relation (row M35).

    .. math:: q = \mathrm{relu} \, \mathrm{BN} (A \, \mathrm{relu} \, \mathrm{BN}(K * \mathrm{BN}(I)) + a)

    where the image I has the entries of :math:`h_s` and :math:`h_r` in turn, twice as many rows as a rectangle of D
    entries that is as square as can be. Dettmers, Minervini, Stenetorp and Riedel, 2018, *Convolutional 2D knowledge
    graph embeddings*, in the form of CompGCN's authors.
    """

    settings: ClassVar = ConvEDecoding

    def __init__(self, settings: ConvEDecoding, dim: int, generator: torch.Generator) -> None:
        super().__init__(settings, dim, generator)
        filters = settings.filters
        height = max(d for d in range(1, isqrt(dim) + 1) if dim % d == 0)
        self.image = 2 * height, dim // height
        window = [min(settings.kernel, side) for side in self.image]  # a small image has small filters
        maps = [side - size + 1 for side, size in zip(self.image, window, strict=True)]
        features = filters * maps[0] * maps[1]
        self.rates = settings.rate(settings.dropout_features), settings.rate(settings.dropout_query)
        self.kernels = nn.Parameter(torch.empty(filters, 1, *window))
        self.projection = nn.Parameter(torch.empty(dim, features))
        self.shift = nn.Parameter(torch.empty(dim))
        inputs = window[0] * window[1], features, features
        for weight, count in zip((self.kernels, self.projection, self.shift), inputs, strict=True):
            nn.init.uniform_(weight, -(count**-0.5), count**-0.5, generator=generator)
        self.norm_image, self.norm_maps = nn.BatchNorm2d(1), nn.BatchNorm2d(filters)
        self.norm_query = nn.BatchNorm1d(dim)

    def forward(self, h_s: Tensor, h_rel: Tensor, r: Tensor, generator: torch.Generator | None = None) -> Tensor:
        size = AT_ONCE if generator is None else max(1, len(r))
        parts = zip(h_s.split(size), r.split(size), strict=True)
        return torch.cat([self._ask(part, h_rel.index_select(0, label), generator) for part, label in parts])

    def held(self, dim: int) -> int:
        return 6 * self.projection.shape[1]

    def _ask(self, h_s: Tensor, h_r: Tensor, generator: torch.Generator | None) -> Tensor:
        image = torch.stack([h_s, h_r], dim=2).view(-1, 1, *self.image)  # (B, 1, 2a, D / a)
        maps = torch.relu(self.norm_maps(conv2d(self.norm_image(image), self.kernels)))  # (B, filters, ., .)
        features = dropout(maps, self.rates[0], generator).flatten(1)
        query = dropout(linear(features, self.projection, self.shift), self.rates[1], generator)  # (B, D)
        return torch.relu(self.norm_query(query))
