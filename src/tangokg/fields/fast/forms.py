"""The two forms of a fast field, which differ in how messages are summed along edges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from tangokg.fields.fast.pieces import add_products
from tangokg.fields.fast.recorded import Back, FastField, Tape


@dataclass(frozen=True, eq=False)
class Gathered(FastField):
    """For a CPU: ``relations`` has a row for each edge, then one for each change, times their weight (E + C, D)."""

    at_once: ClassVar = False

    def send(self, layer: int, h: Tensor, sums: Tensor) -> None:
        edges = self.edges[layer]
        message = h.index_select(0, edges.s).mul_(self.relations[: len(edges)])  # (E, D)
        sums.index_add_(0, edges.o, message)

    def send_back(self, layer: int, h: Tensor, of_sums: Tensor, of_z: Tensor, back: Back) -> None:
        edges = self.edges[layer]
        message = of_sums.index_select(0, edges.o)  # (E, D)
        back.relations[: len(edges)].addcmul_(message, h.index_select(0, edges.s))
        of_z.index_add_(0, edges.s, message.mul_(self.relations[: len(edges)]))


@dataclass(frozen=True, eq=False)
class Fused(FastField):
    """For a GPU: no tensor has a row for each edge, and few kernels are started.

    Subjects of edges are objects of their reciprocals, so the convolution layers see the first rows alone.
    """

    at_once: ClassVar = True

    def send(self, layer: int, h: Tensor, sums: Tensor) -> None:
        add_products(sums, ("s", h), ("r", self.relations), "o", self.edges[layer])

    def send_back(self, layer: int, h: Tensor, of_sums: Tensor, of_z: Tensor, back: Back) -> None:
        add_products(of_z, ("o", of_sums), ("r", self.relations), "s", self.edges[layer])

    def gradients(self, tape: Tape, back: Back) -> tuple[Tensor, ...]:
        """Of weights and relations from all evaluations at once."""
        both = zip(tape.sums, back.sums, strict=True)
        for layer, (sums, of_sums) in enumerate(both):
            slopes = back.updates[:, layer].transpose(1, 2)  # (n, D, objects)
            torch.sum(torch.bmm(slopes, sums[:, : self.graph.num_objects]), 0, out=back.weights[layer])
            add_products(back.relations, ("s", tape.before(layer)), ("o", of_sums), "r", self.edges[layer])
        return super().gradients(tape, back)
