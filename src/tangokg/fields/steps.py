r"""The pieces of a derivative and of its gradient, each in plain torch and, where there is a GPU, as one kernel.

The largest is the sum over labelled edges (docs/maths.md, row M25)

.. math:: \mathrm{out}_{k_e} \mathrel{+}= w_e \, x_{i_e} \odot y_{j_e} .

The messages of a graph are linear in the states, in the relations and in what meets them in reverse,
:math:`\sum_e w_e \langle h_{s_e}, h_{r_e}, g_{o_e} \rangle`; each of its three derivatives is this sum with the roles
exchanged, and none of them needs a tensor with a row for each edge.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tangokg.snapshots.rows import Edges

try:
    from tangokg.fields import kernels
except ImportError:  # no Triton here: the plain way serves
    kernels = None  # type: ignore[assignment]

ENDS = {"s": 0, "r": 1, "o": 2}


def serves(tensor: Tensor) -> bool:
    """Whether there are kernels for this tensor: single precision on a GPU, with Triton."""
    return kernels is not None and tensor.is_cuda and tensor.dtype == torch.float32


def add_products(out: Tensor, x: tuple[str, Tensor], y: tuple[str, Tensor], to: str, edges: Edges) -> Tensor:
    """Add, for each edge, its weight times the row of x at one end times the row of y at another to the third of out.

    ``x``, ``y`` and ``to`` name the end, one of s, r, o, by which their rows are taken.
    """
    kernel = serves(out) and bool(edges.by)
    edges = edges.by[ENDS[to]] if kernel else edges
    i, j, k = (getattr(edges, name) for name in (x[0], y[0], to))
    if kernel:
        kernels.add_products(out, x[1], y[1], i, j, k, edges.weight)
        return out
    product = x[1].index_select(0, i) * y[1].index_select(0, j)  # (E, D)
    return out.index_add_(0, k, product.mul_(edges.weight[:, None].to(product.dtype)))


def advance(h: Tensor, update: Tensor, mask: Tensor | None, deltas: Tensor, layer: int) -> Tensor:
    """``h + delta * update``, after the update (objects, D) became ``relu(update) * mask`` in place."""
    if serves(h):
        kernels.advance(out := torch.empty_like(h), h, update, mask, deltas, layer)
        return out
    update.relu_()
    if mask is not None:
        update.mul_(mask)
    return torch.addcmul(h, deltas[layer], update)


def combine(z: Tensor, last: Tensor, change: Tensor, w_trans: Tensor, dt: Tensor, w: float, identity: bool) -> Tensor:
    """dz/dt (rows, D) from the states after the ``last`` layer (objects, D) and the mean over transitions (rows, D)."""
    if serves(z):
        kernels.combine(dz := torch.empty_like(z), z, last, change, w_trans, dt, w, identity)
        return dz
    dz = (change * w_trans).relu_().mul_(w) if w else torch.zeros_like(z)
    dz[: len(last)].add_(last).sub_(z[: len(last)])
    if identity:
        dz.add_(z)
    return dz.mul_(dt)


def part(
    grad: Tensor, of_w_trans: Tensor, objects: int,
    change: Tensor, w_trans: Tensor, dt: Tensor, w: float, identity: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradient of :func:`combine`: that of z (rows, D), of the last layer (objects, D), of the mean (rows, D).

    That of ``w_trans`` (D,) is added to what is given.
    """
    if serves(grad):
        of_z, slope, g = torch.empty_like(grad), torch.empty_like(change), grad.new_empty(objects, grad.shape[1])
        kernels.part(of_z, g, slope, of_w_trans, grad, change, w_trans, dt, w, identity)
        return of_z, g, slope
    grad = grad * dt
    of_z = grad.clone() if identity else torch.zeros_like(grad)
    of_z[:objects].sub_(grad[:objects])
    slope = change
    if w:
        slope = _where_above_zero(change * w_trans, grad).mul_(w)
        of_w_trans.add_((slope * change).sum(0))
        slope.mul_(w_trans)
    return of_z, grad[:objects].clone(), slope


def retreat(g: Tensor, of_deltas: Tensor, update: Tensor, mask: Tensor | None, deltas: Tensor, layer: int) -> Tensor:
    """The gradient of :func:`advance` for its update before relu and mask; that of delta is added to what is given."""
    if serves(g):
        kernels.retreat(slope := torch.empty_like(g), of_deltas, g, update, mask, deltas, layer)
        return slope
    of_deltas[layer].add_((g * update).sum())
    slope = _where_above_zero(update, g).mul_(deltas[layer])
    return slope if mask is None else slope.mul_(mask)


def _where_above_zero(x: Tensor, grad: Tensor) -> Tensor:
    """``grad`` where x > 0, else 0: the gradient of relu, four times as fast as torch.where on a CPU."""
    found: Tensor = torch.ops.aten.threshold_backward(grad, x, 0.0)
    return found
