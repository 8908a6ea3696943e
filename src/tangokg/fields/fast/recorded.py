"""A field with its gradient written out: the record of its evaluations, and the backward pass through them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tangokg.fields.derivative import TangoField
from tangokg.fields.fast.pieces import advance, combine, part, retreat, weighted_sum
from tangokg.snapshots.rows import Edges

Stages = tuple[tuple[float, ...], ...]  # the matrix a of a Runge-Kutta method


@dataclass(frozen=True, eq=False)
class Tape:
    """The record of n evaluations along an interval, for their gradient."""

    z: Tensor  # (n, rows, D)
    states: Tensor  # (n, L - 1, objects, D) before each layer but the first
    sums: tuple[Tensor, ...]  # (n, objects, D) the means of each layer; of the first (n, objects + rows, D), see send
    updates: Tensor  # (n, L, objects, D) after relu and mask

    def before(self, layer: int) -> Tensor:
        """(n, .., D) what goes into a layer."""
        return self.states[:, layer - 1] if layer else self.z


@dataclass(frozen=True, eq=False)
class Back:
    """Gradients collected in the backward pass: of a tape, or of one evaluation on it, and of a field's tensors."""

    updates: Tensor  # (n or 1, L, objects, D) before relu and mask
    sums: tuple[Tensor, ...]  # (n or 1, .., D) as on the tape
    weights: tuple[Tensor, ...]
    deltas: Tensor  # (L,)
    w_trans: Tensor  # (D,)
    relations: Tensor


@dataclass(frozen=True, eq=False)
class FastField(TangoField, ABC):
    """A field that writes out its gradient; subclasses send messages along edges, and back."""

    at_once: ClassVar[bool]  # gradients of tensors are made for all evaluations together: more memory, fewer operations
    edges: tuple[Edges, ...]  # what each layer sends along; the first one takes the transitions with it

    @abstractmethod
    def send(self, layer: int, h: Tensor, sums: Tensor) -> None:
        """Add the messages of a layer, from states h, to ``sums``; in layer 0 h is z, and transitions come too."""

    @abstractmethod
    def send_back(self, layer: int, h: Tensor, of_sums: Tensor, of_z: Tensor, back: Back) -> None:
        """Add the gradient of h for that of its sums to ``of_z``; that of the relations now, or all at once."""

    def __call__(self, t: float | Tensor, z: Tensor) -> Tensor:
        dz: Tensor = _Evaluate.apply(self, z, *self.tensors())  # type: ignore[no-untyped-call]
        return dz

    def along(self, z0: Tensor, a: Stages, b: tuple[float, ...], lengths: Sequence[float]) -> Tensor:
        """z after steps of these lengths by the Runge-Kutta method (a, b); nothing is recorded without autograd."""
        record = torch.is_grad_enabled()
        z1: Tensor = _Steps.apply(self, a, b, lengths, record, z0, *self.tensors())  # type: ignore[no-untyped-call]
        return z1

    def tape(self, z: Tensor) -> Tape:
        """Room for evaluations at z (n, rows, D)."""
        n, rows, dim = z.shape
        layers, objects = len(self.weights), self.graph.num_objects
        updates, states = (z.new_empty(n, count, objects, dim) for count in (layers, layers - 1))
        sizes = [objects + rows if self.w else objects, *[objects] * (layers - 1)]
        return Tape(z, states, tuple(z.new_zeros(n, size, dim) for size in sizes), updates)

    def evaluate(self, tape: Tape, i: int) -> Tensor:
        """dz/dt at ``tape.z[i]``, noted there; the names are those of the formula in TangoField."""
        z, objects, sums = tape.z[i], self.graph.num_objects, [each[i] for each in tape.sums]
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
        *of_weights, of_w_trans, of_deltas = (buffer.view(x.shape) for buffer, x in zip(room, small, strict=True))
        updates, *sums = (torch.empty_like(x if self.at_once else x[:1]) for x in (tape.updates, *tape.sums))
        return Back(updates, tuple(sums), tuple(of_weights), of_deltas, of_w_trans, torch.zeros_like(self.relations))

    def pull_back(self, tape: Tape, i: int, grad: Tensor, back: Back) -> Tensor:
        """The gradient of ``tape.z[i]`` for that of dz/dt; those of :meth:`tensors` are complete with `gradients`."""
        objects, room = self.graph.num_objects, i if self.at_once else 0
        updates, slopes = tape.updates[i].unbind(), back.updates[room].unbind()
        sums, of_sums = [each[i] for each in tape.sums], [each[room] for each in back.sums]
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
        return (*back.weights, back.deltas, back.w_trans, back.relations)


class _Evaluate(torch.autograd.Function):
    """One evaluation with its gradient written out."""

    @staticmethod
    def forward(ctx: Any, field: FastField, z: Tensor, *tensors: Tensor) -> Tensor:
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


class _Steps(torch.autograd.Function):
    r"""Steps of a fixed grid with their gradient written out (docs/maths.md, row M26): one sum over all stages.

    .. math::
        \bar k_i = \Delta t \Big(b_i \bar z_1 + \sum_{j > i} a_{ji} \bar x_j\Big), \qquad
        \bar x_i = \bar k_i^\top \frac{\partial f}{\partial z}(x_i), \qquad \bar z_0 = \bar z_1 + \sum_i \bar x_i
    """

    @staticmethod
    def forward(
        ctx: Any,
        field: FastField,
        a: Stages,
        b: tuple[float, ...],
        lengths: Sequence[float],
        record: bool,
        z0: Tensor,
        *tensors: Tensor,
    ) -> Tensor:
        ctx.field, ctx.method, z = field, (a, b, lengths), z0.contiguous()
        ctx.save_for_backward(*tensors)
        ctx.tape = tape = field.tape(z.new_empty(len(b) * len(lengths), *z.shape)) if record else None
        with torch.autocast(z.device.type, enabled=False):
            for step, dt in enumerate(lengths):
                k: list[Tensor] = []
                for i, weights in enumerate(a, start=step * len(b)):
                    terms = [(dt * weight, slope) for weight, slope in zip(weights, k, strict=True)]
                    x = weighted_sum([(1.0, z), *terms], None if tape is None else tape.z[i])
                    k.append(field.evaluate(field.tape(x[None]), 0) if tape is None else field.evaluate(tape, i))
                z = weighted_sum([(1.0, z), *((dt * weight, slope) for weight, slope in zip(b, k, strict=True))])
        return z

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        tape, (a, b, lengths), of_z = ctx.tape, ctx.method, grad.contiguous()
        field = ctx.field.rebind(ctx.saved_tensors)
        back = field.back(tape)
        with torch.autocast(grad.device.type, enabled=False):
            for step in reversed(range(len(lengths))):
                of_x: list[Tensor] = []  # of the stages i + 1, i + 2, ..
                for i in reversed(range(len(b))):
                    weights = (b[i], *(row[i] for row in a[i + 1 :]))
                    of_k = weighted_sum([(lengths[step] * w, x) for w, x in zip(weights, (of_z, *of_x), strict=True)])
                    of_x.insert(0, field.pull_back(tape, step * len(b) + i, of_k, back))
                of_z = weighted_sum([(1.0, x) for x in (of_z, *of_x)])
            return None, None, None, None, None, of_z, *field.gradients(tape, back)
