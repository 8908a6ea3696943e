"""The derivative of an interval without a tensor that has a row for each edge: the one for a GPU."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from tangokg.fields.records import Back, Recorded, Tape, evaluate_with_gradient
from tangokg.fields.steps import add_products
from tangokg.snapshots.rows import Edges


@dataclass(frozen=True, eq=False)
class FusedField(Recorded):
    """The same function as :class:`~tangokg.fields.derivative.TangoField`, in a few GPU kernels.

    Subjects of edges are objects of their reciprocals, so the convolution layers see the first rows alone.
    """

    at_once: ClassVar = True
    relations: Tensor  # (2R, D)

    def __call__(self, t: float | Tensor, z: Tensor) -> Tensor:
        return evaluate_with_gradient(self, z)

    def others(self) -> tuple[Tensor, ...]:
        return (self.relations,)

    def rebind(self, tensors: tuple[Tensor, ...]) -> FusedField:
        deltas, w_trans, relations = tensors[len(self.weights) :]
        return replace(self, weights=tensors[: len(self.weights)], deltas=deltas, w_trans=w_trans, relations=relations)

    def edges(self, layer: int) -> Edges:
        """What a layer sends along; the first one takes the transitions with it."""
        return self.graph.edges if layer or not self.w else self.graph.both

    def tape(self, z: Tensor) -> Tape:
        tape = super().tape(z)
        tape.sums.zero_()  # all at once
        return tape

    def send(self, layer: int, h: Tensor, sums: Tensor) -> None:
        add_products(sums, ("s", h), ("r", self.relations), "o", self.edges(layer))

    def send_back(self, layer: int, h: Tensor, of_sums: Tensor, of_z: Tensor, back: Back) -> None:
        add_products(of_z, ("o", of_sums), ("r", self.relations), "s", self.edges(layer))

    def gradients(self, tape: Tape, back: Back) -> tuple[Tensor, ...]:
        """Of weights and relations from all evaluations at once."""
        both = zip(self.by_layer(tape.sums), self.by_layer(back.sums), strict=True)
        for layer, (sums, of_sums) in enumerate(both):
            slopes = back.updates[:, layer].transpose(1, 2)  # (n, D, objects)
            torch.sum(torch.bmm(slopes, sums[:, : self.graph.num_objects]), 0, out=back.weights[layer])
            add_products(back.others[0], ("s", tape.before(layer)), ("o", of_sums), "r", self.edges(layer))
        return super().gradients(tape, back)
