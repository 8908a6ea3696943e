"""What :mod:`tangokg.fields.fast.pieces` does, as GPU kernels. Importing it takes Triton, which CUDA builds have.

Every kernel has its formula in plain torch in that module, under the same name. All tensors are float32 and contiguous,
the tables of a sum over edges each for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import triton
import triton.language as tl
from torch import Tensor

EDGES, COLUMNS = 16, 128  # of edges: what one program adds up, edge after edge
ROWS = 16  # of states: one program has ROWS x COLUMNS of them
TERMS, ENTRIES = 5, 1024  # of a weighted sum: how many at most, and what one program has of each

# Triton reads annotations in its own way, and would compile anew for sizes, and addresses of edges, that 16 divides:
# all are kept from it.
# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call, import-not-found"


@triton.jit(do_not_specialize=["i", "j", "k", "weight", "count", "x_table", "y_table"])
def _add_products(
    out, x, y, i, j, k, weight, count, dim, x_table, y_table, EDGES: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    """Edges in an order that brings equal k together: each run of one k is summed in registers, then added once."""
    first = tl.program_id(0) * EDGES
    x += tl.program_id(2).to(tl.int64) * x_table
    y += tl.program_id(2).to(tl.int64) * y_table
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < dim
    total = tl.zeros((COLUMNS,), tl.float32)
    current = tl.load(k + first)
    for n in tl.static_range(EDGES):  # unrolled: the loads of all edges are under way together
        at = tl.minimum(first + n, count - 1)  # past the end the last edge comes again, and counts for nothing
        row = tl.load(k + at)
        left = tl.load(x + tl.load(i + at) * dim + column, mask=inside, other=0.0)
        right = tl.load(y + tl.load(j + at) * dim + column, mask=inside, other=0.0)
        product = left * right * tl.where(first + n < count, tl.load(weight + at), 0.0)
        fresh = row != current
        tl.atomic_add(out + current * dim + column, total, mask=tl.where(fresh, column, dim) < dim, sem="relaxed")
        total = tl.where(fresh, product, total + product)
        current = tl.where(fresh, row, current)
    tl.atomic_add(out + current * dim + column, total, mask=inside, sem="relaxed")


def add_products(out: Tensor, x: Tensor, y: Tensor, i: Tensor, j: Tensor, k: Tensor, weight: Tensor) -> None:
    if len(k):
        grid = (triton.cdiv(len(k), EDGES), triton.cdiv(out.shape[1], COLUMNS), len(x))
        sizes: Any = {"EDGES": EDGES, "COLUMNS": COLUMNS, "num_warps": 1}
        _add_products[grid](out, x, y, i, j, k, weight, len(k), out.shape[1], x.stride(0), y.stride(0), **sizes)


@triton.jit(do_not_specialize=["count"])
def _weighted_sum(
    out, a, b, c, d, e, of_a, of_b, of_c, of_d, of_e, count, TERMS: tl.constexpr, ENTRIES: tl.constexpr
):  # fmt: skip
    at = tl.program_id(0) * ENTRIES + tl.arange(0, ENTRIES)
    inside = at < count
    value = tl.load(a + at, mask=inside) * of_a
    if TERMS > 1:
        value += tl.load(b + at, mask=inside) * of_b
    if TERMS > 2:
        value += tl.load(c + at, mask=inside) * of_c
    if TERMS > 3:
        value += tl.load(d + at, mask=inside) * of_d
    if TERMS > 4:
        value += tl.load(e + at, mask=inside) * of_e
    tl.store(out + at, value, mask=inside)


def weighted_sum(out: Tensor, terms: Sequence[tuple[float, Tensor]]) -> None:
    weights, tensors = zip(*terms, *[(0.0, out)] * (TERMS - len(terms)), strict=True)
    grid = (max(1, triton.cdiv(out.numel(), ENTRIES)),)
    _weighted_sum[grid](out, *tensors, *weights, out.numel(), TERMS=len(terms), ENTRIES=ENTRIES)


@triton.jit
def _tile(rows, dim, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    return row, column, row[:, None] * dim + column[None, :], (row < rows)[:, None] & (column < dim)[None, :]


@triton.jit
def _updated(update, mask, at, inside, MASKED: tl.constexpr):
    """``relu(update) * mask``, and written to its place."""
    value = tl.maximum(tl.load(update + at, mask=inside, other=0.0), 0.0)
    if MASKED:
        value *= tl.load(mask + at, mask=inside, other=0.0)
    tl.store(update + at, value, mask=inside)
    return value


@triton.jit
def _before_update(of_update, of_deltas, g, update, mask, deltas, layer, at, inside, MASKED: tl.constexpr):
    """The gradient g of ``h + delta * update`` for its update before relu and mask; g is 0 outside."""
    moved = tl.load(update + at, mask=inside, other=0.0)
    tl.atomic_add(of_deltas + layer, tl.sum(g * moved), sem="relaxed")
    value = tl.where(moved > 0, g * tl.load(deltas + layer), 0.0)
    if MASKED:
        value *= tl.load(mask + at, mask=inside, other=0.0)
    tl.store(of_update + at, value, mask=inside)


@triton.jit(do_not_specialize=["rows", "layer"])
def _advance(
    out, h, update, mask, deltas, layer, rows, dim,
    MASKED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    _, _, at, inside = _tile(rows, dim, ROWS, COLUMNS)
    value = tl.load(deltas + layer) * _updated(update, mask, at, inside, MASKED)
    tl.store(out + at, tl.load(h + at, mask=inside) + value, mask=inside)


def advance(out: Tensor, h: Tensor, update: Tensor, mask: Tensor | None, deltas: Tensor, layer: int) -> None:
    constants = {"MASKED": mask is not None, **_sizes()}
    _advance[_grid(h)](out, h, update, update if mask is None else mask, deltas, layer, *h.shape, **constants)


@triton.jit(do_not_specialize=["rows", "objects", "layer"])
def _combine(
    dz, z, h, update, mask, deltas, change, w_trans, dt, w, layer, objects, rows, dim,
    MASKED: tl.constexpr, TRANSITION: tl.constexpr, IDENTITY: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    row, column, at, inside = _tile(rows, dim, ROWS, COLUMNS)
    moved = inside & (row < objects)[:, None]
    value = tl.load(h + at, mask=moved, other=0.0) - tl.load(z + at, mask=moved, other=0.0)
    value += tl.load(deltas + layer) * _updated(update, mask, at, moved, MASKED)
    if IDENTITY:
        value += tl.load(z + at, mask=inside, other=0.0)
    if TRANSITION:
        slope = tl.load(w_trans + column, mask=column < dim, other=0.0)[None, :]
        value += w * tl.maximum(tl.load(change + at, mask=inside, other=0.0) * slope, 0.0)
    tl.store(dz + at, value * tl.load(dt + row, mask=row < rows, other=0.0)[:, None], mask=inside)


def combine(
    dz: Tensor, z: Tensor, h: Tensor, update: Tensor, mask: Tensor | None, deltas: Tensor, layer: int,
    change: Tensor, w_trans: Tensor, dt: Tensor, w: float, identity: bool,
) -> None:  # fmt: skip
    constants = {"MASKED": mask is not None, "TRANSITION": w != 0, "IDENTITY": identity, **_sizes()}
    tensors = (dz, z, h, update, update if mask is None else mask, deltas, change, w_trans, dt)
    _combine[_grid(z)](*tensors, w, layer, len(h), *z.shape, **constants)


@triton.jit(do_not_specialize=["rows", "objects", "layer"])
def _part(
    of_z, of_update, of_change, of_deltas, of_w_trans, grad, update, mask, deltas, change, w_trans, dt,
    w, layer, objects, rows, dim,
    MASKED: tl.constexpr, TRANSITION: tl.constexpr, IDENTITY: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    row, column, at, inside = _tile(rows, dim, ROWS, COLUMNS)
    moved = inside & (row < objects)[:, None]
    value = tl.load(grad + at, mask=inside, other=0.0) * tl.load(dt + row, mask=row < rows, other=0.0)[:, None]
    if IDENTITY:
        tl.store(of_z + at, value, mask=inside)
    else:
        tl.store(of_z + at, tl.zeros_like(value), mask=inside)
    _before_update(of_update, of_deltas, value, update, mask, deltas, layer, at, moved, MASKED)
    if TRANSITION:
        mean = tl.load(change + at, mask=inside, other=0.0)
        factor = tl.load(w_trans + column, mask=column < dim, other=0.0)[None, :]
        value = tl.where(mean * factor > 0, value * w, 0.0)
        tl.store(of_change + at, value * factor, mask=inside)
        tl.atomic_add(of_w_trans + column, tl.sum(value * mean, 0), mask=column < dim, sem="relaxed")


def part(
    of_z: Tensor, of_update: Tensor, of_change: Tensor, of_deltas: Tensor, of_w_trans: Tensor,
    grad: Tensor, update: Tensor, mask: Tensor | None, deltas: Tensor, layer: int,
    change: Tensor, w_trans: Tensor, dt: Tensor, w: float, identity: bool,
) -> None:  # fmt: skip
    constants = {"MASKED": mask is not None, "TRANSITION": w != 0, "IDENTITY": identity, **_sizes()}
    outputs = (of_z, of_update, of_change, of_deltas, of_w_trans)
    inputs = (grad, update, update if mask is None else mask, deltas, change, w_trans, dt)
    _part[_grid(grad)](*outputs, *inputs, w, layer, len(update), *grad.shape, **constants)


@triton.jit(do_not_specialize=["rows", "layer"])
def _retreat(
    of_update, of_deltas, of_z, grad, update, mask, deltas, dt, layer, rows, dim,
    MASKED: tl.constexpr, IDENTITY: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    row, _, at, inside = _tile(rows, dim, ROWS, COLUMNS)
    g = tl.load(of_z + at, mask=inside, other=0.0)
    if not IDENTITY:
        g += tl.load(grad + at, mask=inside, other=0.0) * tl.load(dt + row, mask=row < rows, other=0.0)[:, None]
    _before_update(of_update, of_deltas, g, update, mask, deltas, layer, at, inside, MASKED)


def retreat(
    of_update: Tensor, of_deltas: Tensor, of_z: Tensor, grad: Tensor,
    update: Tensor, mask: Tensor | None, deltas: Tensor, layer: int, dt: Tensor, identity: bool,
) -> None:  # fmt: skip
    tensors = (of_update, of_deltas, of_z, grad, update, update if mask is None else mask, deltas, dt)
    constants = {"MASKED": mask is not None, "IDENTITY": identity, **_sizes()}
    _retreat[_grid(update)](*tensors, layer, *update.shape, **constants)


def _grid(like: Tensor) -> tuple[int, int]:
    return max(1, triton.cdiv(len(like), ROWS)), triton.cdiv(like.shape[1], COLUMNS)


def _sizes() -> dict[str, int]:
    return {"ROWS": ROWS, "COLUMNS": COLUMNS}
