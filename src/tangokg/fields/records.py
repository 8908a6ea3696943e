"""A derivative with its gradient written out: what its evaluations leave behind, and the way back through them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tangokg.fields.steps import advance, combine, part, retreat
from tangokg.snapshots.blocks import Interval


@dataclass(frozen=True, eq=False)
class Tape:
    """What n evaluations along an interval leave behind for their gradient, all in one room.

    ``sums`` are the means of layer 0, the means over transitions, and the means of the other layers: S rows.
    """

    z: Tensor  # (n, rows, D)
    states: Tensor  # (n, L - 1, objects, D) before each layer but the first
    sums: Tensor  # (n, S, D)
    updates: Tensor  # (n, L, objects, D) after relu and mask

    def before(self, layer: int) -> Tensor:
        """(n, .., D) what goes into a layer."""
        return self.states[:, layer - 1] if layer else self.z


@dataclass(frozen=True, eq=False)
class Back:
    """What gathers on the way back: the gradients of a tape, or of one evaluation on it, and of a field's tensors."""

    updates: Tensor  # (n or 1, L, objects, D) before relu and mask
    sums: Tensor  # (n or 1, S, D)
    weights: tuple[Tensor, ...]
    deltas: Tensor  # (L,)
    w_trans: Tensor  # (D,)
    others: tuple[Tensor, ...]


@dataclass(frozen=True, eq=False)
class Recorded(ABC):
    """A field that can write out its gradient; what sends messages along edges, and back, is left open."""

    at_once: ClassVar[bool]  # gradients of tensors are made for all evaluations together: more memory, fewer operations

    weights: tuple[Tensor, ...]  # (D, D) for each layer
    deltas: Tensor  # (L,)
    w_trans: Tensor  # (D,) the diagonal of W_trans
    dt: Tensor  # (rows, 1) in solver time
    graph: Interval
    w: float
    identity: bool
    masks: tuple[Tensor, ...]  # (objects, D) for each layer, or none

    @abstractmethod
    def others(self) -> tuple[Tensor, ...]:
        """What messages are made from, besides the state."""

    @abstractmethod
    def rebind(self, tensors: tuple[Tensor, ...]) -> Self:
        """The same field on other tensors."""

    @abstractmethod
    def send(self, layer: int, h: Tensor, sums: Tensor) -> None:
        """Sum the messages of a layer, from states h, into ``sums``; in layer 0 h is z, and transitions come too."""

    @abstractmethod
    def send_back(self, layer: int, h: Tensor, of_sums: Tensor, of_z: Tensor, back: Back) -> None:
        """Add the gradient of h for that of its sums to ``of_z``; that of :meth:`others` now, or all at once."""

    def mask(self, layer: int) -> Tensor | None:
        return self.masks[layer] if self.masks else None

    def tensors(self) -> tuple[Tensor, ...]:
        """All that a gradient flows to, besides the state."""
        return (*self.weights, self.deltas, self.w_trans, *self.others())

    def tape(self, z: Tensor) -> Tape:
        """Room for evaluations at z (n, rows, D)."""
        n, rows, dim = z.shape
        layers, objects = len(self.weights), self.graph.num_objects
        size = layers * objects + (rows if self.w else 0)
        updates, states = (z.new_empty(n, count, objects, dim) for count in (layers, layers - 1))
        return Tape(z, states, z.new_empty(n, size, dim), updates)

    def by_layer(self, sums: Tensor) -> tuple[Tensor, ...]:
        """Sums (.., S, D) by the layer that sends to them: (.., objects, D), in layer 0 those over transitions too."""
        objects, more = self.graph.num_objects, len(self.weights) - 1
        return sums.split_with_sizes([sums.shape[-2] - more * objects, *[objects] * more], -2)

    def evaluate(self, tape: Tape, i: int) -> Tensor:
        """dz/dt at ``tape.z[i]``, noted there; the names are those of the formula in TangoField."""
        z, objects, sums = tape.z[i], self.graph.num_objects, self.by_layer(tape.sums[i])
        states, updates = tape.states[i].unbind(), tape.updates[i].unbind()
        h = z[:objects]
        for layer, weight in enumerate(self.weights):
            if layer:
                h = advance(self, layer - 1, h, updates[layer - 1], states[layer - 1])
            self.send(layer, h if layer else z, sums[layer])
            torch.mm(sums[layer][:objects], weight.T, out=updates[layer])
        return combine(self, z, h, updates[-1], sums[0][objects:])

    def back(self, tape: Tape) -> Back:
        """Room for the gradient of the evaluations on a tape."""
        small = (*self.weights, self.w_trans, self.deltas)  # odd sizes last, so that the others stay aligned
        room = tape.z.new_zeros(sum(x.numel() for x in small)).split([x.numel() for x in small])
        *of_weights, of_w_trans, of_deltas = (own.view(x.shape) for own, x in zip(room, small, strict=True))
        updates, sums = (torch.empty_like(x if self.at_once else x[:1]) for x in (tape.updates, tape.sums))
        others = tuple(map(torch.zeros_like, self.others()))
        return Back(updates, sums, tuple(of_weights), of_deltas, of_w_trans, others)

    def pull_back(self, tape: Tape, i: int, grad: Tensor, back: Back) -> Tensor:
        """The gradient of ``tape.z[i]`` for that of dz/dt; those of :meth:`tensors` are complete with `gradients`."""
        objects, room = self.graph.num_objects, i if self.at_once else 0
        updates, slopes = tape.updates[i].unbind(), back.updates[room].unbind()
        sums, of_sums = self.by_layer(tape.sums[i]), self.by_layer(back.sums[room])
        of_z = part(self, grad, updates[-1], sums[0][objects:], slopes[-1], of_sums[0][objects:], back)
        for layer in reversed(range(len(self.weights))):
            if layer + 1 < len(self.weights):
                retreat(self, layer, grad, of_z, updates[layer], slopes[layer], back)
            torch.mm(slopes[layer], self.weights[layer], out=of_sums[layer][:objects])
            self.send_back(layer, tape.before(layer)[i], of_sums[layer], of_z, back)
            if not self.at_once:
                back.weights[layer].addmm_(slopes[layer].T, sums[layer][:objects])
        return of_z

    def gradients(self, tape: Tape, back: Back) -> tuple[Tensor, ...]:
        """Those of :meth:`tensors`, after all evaluations were pulled back."""
        return (*back.weights, back.deltas, back.w_trans, *back.others)


def evaluate_with_gradient(field: Recorded, z: Tensor) -> Tensor:
    """dz/dt of a field, differentiable by its ``pull_back``."""
    dz: Tensor = _Evaluate.apply(field, z, *field.tensors())  # type: ignore[no-untyped-call]
    return dz


class _Evaluate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, field: Recorded, z: Tensor, *tensors: Tensor) -> Tensor:
        ctx.field, ctx.tape = field, field.tape(z[None])
        ctx.save_for_backward(*tensors)
        with torch.autocast(z.device.type, enabled=False):
            return field.rebind(tensors).evaluate(ctx.tape, 0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        field, tape = ctx.field.rebind(ctx.saved_tensors), ctx.tape
        back = field.back(tape)
        with torch.autocast(grad.device.type, enabled=False):
            return None, field.pull_back(tape, 0, grad.contiguous(), back), *field.gradients(tape, back)
