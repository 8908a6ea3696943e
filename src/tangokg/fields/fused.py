"""The derivative of an interval with its gradient written out: a few GPU kernels where autograd would start dozens."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from tangokg.fields.records import Record, evaluate_with_gradient
from tangokg.fields.steps import add_products, advance, combine, part, retreat
from tangokg.snapshots.blocks import Interval


@dataclass(frozen=True, eq=False)
class FusedField:
    """The same function as :class:`~tangokg.fields.derivative.TangoField`; no tensor has a row for each edge.

    Subjects of edges are objects of their reciprocals, so the convolution layers see the first rows alone.
    """

    weights: tuple[Tensor, ...]  # (D, D) for each layer
    deltas: Tensor  # (L,)
    w_trans: Tensor  # (D,)
    relations: Tensor  # (2R, D)
    dt: Tensor  # (rows, 1) in solver time
    graph: Interval
    w: float
    identity: bool
    masks: tuple[Tensor, ...]  # (objects, D) for each layer, or none

    def __call__(self, t: float | Tensor, z: Tensor) -> Tensor:
        return evaluate_with_gradient(self, z)

    def mask(self, layer: int) -> Tensor | None:
        return self.masks[layer] if self.masks else None

    def tensors(self) -> tuple[Tensor, ...]:
        """All that a gradient flows to, besides the state."""
        return (*self.weights, self.deltas, self.w_trans, self.relations)

    def rebind(self, tensors: tuple[Tensor, ...]) -> FusedField:
        """The same field on other tensors."""
        deltas, w_trans, relations = tensors[len(self.weights) :]
        return replace(self, weights=tensors[: len(self.weights)], deltas=deltas, w_trans=w_trans, relations=relations)

    def evaluate(self, z: Tensor) -> tuple[Tensor, Record]:
        """dz/dt, and what :meth:`pull_back` needs; the names are those of the formula in TangoField."""
        layers, rel, objects = len(self.weights), ("r", self.relations), self.graph.num_objects
        room = z.new_zeros(layers * objects + (len(z) if self.w else 0), z.shape[1])
        *means, change = room.split([objects] * layers + [len(room) - layers * objects])
        states, updates = [z[:objects]], []
        for layer, weight in enumerate(self.weights):
            add_products(means[layer], ("s", states[-1]), rel, "o", self.graph.edges)
            updates.append(means[layer] @ weight.T)  # (objects, D)
            states.append(advance(states[-1], updates[-1], self.mask(layer), self.deltas, layer))
        if self.w:
            add_products(change, ("s", z), rel, "o", self.graph.changes)
        dz = combine(z, states[-1], change, self.w_trans, self.dt, self.w, self.identity)
        return dz, Record(z, states, means, updates, change)

    def pull_back(self, record: Record, grad: Tensor, sums: tuple[Tensor, ...]) -> Tensor:
        """The gradient of z for that of dz/dt; those of :meth:`tensors` are added to ``sums``."""
        graph, objects, rel = self.graph, self.graph.num_objects, ("r", self.relations)
        *of_weights, of_deltas, of_w_trans, of_relations = sums
        same = (record.change, self.w_trans, self.dt, self.w, self.identity)
        of_z, g, slope = part(grad.contiguous(), of_w_trans, objects, *same)
        if self.w:
            add_products(of_z, ("o", slope), rel, "s", graph.changes)
            add_products(of_relations, ("s", record.z), ("o", slope), "r", graph.changes)
        for layer in reversed(range(len(self.weights))):
            slope = retreat(g, of_deltas, record.updates[layer], self.mask(layer), self.deltas, layer)
            of_weights[layer].addmm_(slope.T, record.means[layer])
            slope = slope @ self.weights[layer]  # (objects, D) of the mean
            add_products(of_relations, ("s", record.states[layer]), ("o", slope), "r", graph.edges)
            add_products(g, ("o", slope), rel, "s", graph.edges)
        of_z[:objects].add_(g)
        return of_z
