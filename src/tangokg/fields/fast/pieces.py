r"""The pieces of a derivative and of its gradient, each in plain torch and, where there is a GPU, as one kernel.

The largest is the sum over labelled edges (docs/maths.md, row M25)

.. math:: \mathrm{out}_{k_e} \mathrel{+}= w_e \, x_{i_e} \odot y_{j_e} .

The messages of a graph are linear in the states, in the relations and in what meets them in reverse,
:math:`\sum_e w_e \langle h_{s_e}, h_{r_e}, g_{o_e} \rangle`; each of its three derivatives is this sum with the roles
exchanged, and none of them needs a tensor with a row for each edge.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tangokg.snapshots.rows import Edges

if TYPE_CHECKING:
    from tangokg.fields.fast.recorded import Back, FastField

try:
    from tangokg.fields.fast import kernels
except ImportError:  # no Triton here: the plain way serves
    kernels = None  # type: ignore[assignment]

ENDS = {"s": 0, "r": 1, "o": 2}


def serves(tensor: Tensor) -> bool:
    """Whether there are kernels for this tensor: single precision on a GPU, with Triton."""
    return kernels is not None and tensor.is_cuda and tensor.dtype == torch.float32


def add_products(out: Tensor, x: tuple[str, Tensor], y: tuple[str, Tensor], to: str, edges: Edges) -> Tensor:
    """Add, for each edge, its weight times the row of x at one end times the row of y at another to the third of out.

    ``x``, ``y`` and ``to`` name the end, one of s, r, o, by which their rows are taken. Where x and y are n tables,
    (n, .., D), the sum is over all of them.
    """
    (end_x, xs), (end_y, ys) = x, y
    if xs.dim() == 2:
        xs, ys = xs[None], ys[None]
    kernel = serves(out) and bool(edges.by)
    edges = edges.by[ENDS[to]] if kernel else edges
    i, j, k = (getattr(edges, end) for end in (end_x, end_y, to))
    if kernel:
        kernels.add_products(out, xs, ys, i, j, k, edges.weight)
        return out
    for left, right in zip(xs, ys, strict=True):
        product = left.index_select(0, i) * right.index_select(0, j)  # (E, D)
        out.index_add_(0, k, product.mul_(edges.weight[:, None].to(product.dtype)))
    return out


def weighted_sum(terms: Sequence[tuple[float, Tensor]], out: Tensor | None = None) -> Tensor:
    """The sum of weight times tensor, in a tensor of its own or in ``out``; terms of weight 0 are left out."""
    (first, x), *rest = [(weight, x) for weight, x in terms if weight]
    out = torch.empty_like(x) if out is None else out
    if serves(x):
        if len(rest) >= kernels.TERMS:
            rest = [(1.0, weighted_sum(rest))]
        kernels.weighted_sum(out, [(first, x), *rest])
        return out
    if first == 1 and rest:
        (second, y), *rest = rest
        torch.add(x, y, alpha=second, out=out)
    else:
        torch.mul(x, first, out=out)
    for weight, x in rest:
        out.add_(x, alpha=weight)
    return out


def advance(field: FastField, layer: int, h: Tensor, update: Tensor, out: Tensor) -> Tensor:
    """``h + delta * update``, after the update (objects, D) became ``relu(update) * mask`` in place."""
    mask = field.masks[layer]
    if serves(h):
        kernels.advance(out, h, update, mask, field.deltas, layer)
        return out
    update.relu_()
    if mask is not None:
        update.mul_(mask)
    return torch.addcmul(h, field.deltas[layer], update, out=out)


def combine(field: FastField, z: Tensor, h: Tensor, update: Tensor, change: Tensor) -> Tensor:
    """dz/dt (rows, D): the last layer advances from h (objects, D), and the mean over transitions (rows, D) comes in.

    Without a transition layer ``change`` has no rows. The update becomes what :func:`advance` makes of it.
    """
    layer, objects, w = len(field.weights) - 1, len(h), field.w
    dz = torch.empty_like(z)
    if serves(z):
        of_layer = (update, field.masks[layer], field.deltas, layer)
        kernels.combine(dz, z, h, *of_layer, change, field.w_trans, field.dt, w, field.identity)
        return dz
    if w:
        torch.mul(change, field.w_trans, out=dz).relu_().mul_(w)
    else:
        dz.zero_()
    dz[:objects].add_(advance(field, layer, h, update, torch.empty_like(h))).sub_(z[:objects])
    if field.identity:
        dz.add_(z)
    return dz.mul_(field.dt)


def part(
    field: FastField, grad: Tensor, update: Tensor, change: Tensor, of_update: Tensor, of_change: Tensor, back: Back
) -> Tensor:
    """The gradient of :func:`combine`: of z alone (rows, D), with no share of h; that of h is ``grad * dt``.

    Those of the last update before relu and mask and of the mean are written to what is given, and those of delta and
    ``w_trans`` added to ``back``.
    """
    layer, w, w_trans = len(field.weights) - 1, field.w, field.w_trans
    if serves(grad):
        of_z, of_layer = torch.empty_like(grad), (update, field.masks[layer], field.deltas, layer)
        outputs = (of_z, of_update, of_change, back.deltas, back.w_trans)
        kernels.part(*outputs, grad, *of_layer, change, w_trans, field.dt, w, field.identity)
        return of_z
    grad = grad * field.dt
    _retreat(field, layer, grad[: len(update)], update, of_update, back)
    if w:
        _where_above_zero(change * w_trans, grad, of_change).mul_(w)
        back.w_trans.add_((of_change * change).sum(0))
        of_change.mul_(w_trans)
    return grad if field.identity else torch.zeros_like(grad)


def retreat(
    field: FastField, layer: int, grad: Tensor, of_z: Tensor, update: Tensor, of_update: Tensor, back: Back
) -> None:
    """The gradient of :func:`advance` for its update before relu and mask; that of delta is added to ``back``.

    That of h is what came to ``of_z`` from the layers after this one, and ``grad * dt`` where z is not part of dz/dt.
    """
    if serves(grad):
        of_layer = (update, field.masks[layer], field.deltas, layer)
        kernels.retreat(of_update, back.deltas, of_z, grad, *of_layer, field.dt, field.identity)
        return
    objects = len(update)
    g = of_z[:objects] if field.identity else torch.addcmul(of_z[:objects], grad[:objects], field.dt[:objects])
    _retreat(field, layer, g, update, of_update, back)


def _retreat(field: FastField, layer: int, g: Tensor, update: Tensor, of_update: Tensor, back: Back) -> None:
    back.deltas[layer].add_((g * update).sum())
    _where_above_zero(update, g, of_update).mul_(field.deltas[layer])
    if (mask := field.masks[layer]) is not None:
        of_update.mul_(mask)


def _where_above_zero(x: Tensor, grad: Tensor, out: Tensor) -> Tensor:
    """``grad`` where x > 0, else 0: the gradient of relu, four times as fast as torch.where on a CPU."""
    result: Tensor = torch.ops.aten.threshold_backward.grad_input(grad, x, 0.0, grad_input=out)
    return result
