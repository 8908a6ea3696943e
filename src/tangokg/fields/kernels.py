"""What :mod:`tangokg.fields.steps` does, as GPU kernels. Importing this module takes Triton, which CUDA builds have.

Every kernel has its formula in plain torch in that module, under the same name. All tensors are contiguous float32.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from torch import Tensor

EDGES, COLUMNS = 16, 128  # of edges: what one program adds up, edge after edge
ROWS = 16  # of states: one program has ROWS x COLUMNS of them

# Triton reads annotations in its own way, and would compile anew for sizes that 16 divides: both are kept from it.
# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call, import-not-found"


@triton.jit(do_not_specialize=["count"])
def _add_products(out, x, y, i, j, k, weight, count, dim, EDGES: tl.constexpr, COLUMNS: tl.constexpr):
    """Edges in an order that brings equal k together: each run of one k is summed in registers, then added once."""
    first = tl.program_id(0) * EDGES
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
        grid = (triton.cdiv(len(k), EDGES), triton.cdiv(out.shape[1], COLUMNS))
        sizes: Any = {"EDGES": EDGES, "COLUMNS": COLUMNS, "num_warps": 1}
        _add_products[grid](out, x, y, i, j, k, weight, len(k), out.shape[1], **sizes)


@triton.jit
def _tile(rows, dim, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    return row, column, row[:, None] * dim + column[None, :], (row < rows)[:, None] & (column < dim)[None, :]


@triton.jit(do_not_specialize=["rows", "layer"])
def _advance(
    out, h, update, mask, deltas, layer, rows, dim,
    MASKED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    _, _, at, inside = _tile(rows, dim, ROWS, COLUMNS)
    value = tl.maximum(tl.load(update + at, mask=inside, other=0.0), 0.0)
    if MASKED:
        value *= tl.load(mask + at, mask=inside, other=0.0)
    tl.store(update + at, value, mask=inside)
    tl.store(out + at, tl.load(h + at, mask=inside) + tl.load(deltas + layer) * value, mask=inside)


def advance(out: Tensor, h: Tensor, update: Tensor, mask: Tensor | None, deltas: Tensor, layer: int) -> None:
    constants = {"MASKED": mask is not None, **_sizes()}
    _advance[_grid(h)](out, h, update, update if mask is None else mask, deltas, layer, *h.shape, **constants)


@triton.jit(do_not_specialize=["rows", "objects"])
def _combine(
    dz, z, last, change, w_trans, dt, w, objects, rows, dim,
    TRANSITION: tl.constexpr, IDENTITY: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    row, column, at, inside = _tile(rows, dim, ROWS, COLUMNS)
    moved = inside & (row < objects)[:, None]
    value = tl.load(last + at, mask=moved, other=0.0) - tl.load(z + at, mask=moved, other=0.0)
    if IDENTITY:
        value += tl.load(z + at, mask=inside, other=0.0)
    if TRANSITION:
        slope = tl.load(w_trans + column, mask=column < dim, other=0.0)[None, :]
        value += w * tl.maximum(tl.load(change + at, mask=inside, other=0.0) * slope, 0.0)
    tl.store(dz + at, value * tl.load(dt + row, mask=row < rows, other=0.0)[:, None], mask=inside)


def combine(
    dz: Tensor, z: Tensor, last: Tensor, change: Tensor, w_trans: Tensor, dt: Tensor, w: float, identity: bool
) -> None:
    constants = {"TRANSITION": w != 0, "IDENTITY": identity, **_sizes()}
    _combine[_grid(z)](dz, z, last, change, w_trans, dt, w, len(last), *z.shape, **constants)


@triton.jit(do_not_specialize=["rows", "objects"])
def _part(
    of_z, g, slope, of_w_trans, grad, change, w_trans, dt, w, objects, rows, dim,
    TRANSITION: tl.constexpr, IDENTITY: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    row, column, at, inside = _tile(rows, dim, ROWS, COLUMNS)
    moved = inside & (row < objects)[:, None]
    value = tl.load(grad + at, mask=inside, other=0.0) * tl.load(dt + row, mask=row < rows, other=0.0)[:, None]
    tl.store(g + at, value, mask=moved)
    if IDENTITY:
        tl.store(of_z + at, tl.where(moved, 0.0, value), mask=inside)
    else:
        tl.store(of_z + at, tl.where(moved, -value, 0.0), mask=inside)
    if TRANSITION:
        mean = tl.load(change + at, mask=inside, other=0.0)
        factor = tl.load(w_trans + column, mask=column < dim, other=0.0)[None, :]
        value = tl.where(mean * factor > 0, value * w, 0.0)
        tl.store(slope + at, value * factor, mask=inside)
        tl.atomic_add(of_w_trans + column, tl.sum(value * mean, 0), mask=column < dim, sem="relaxed")


def part(
    of_z: Tensor, g: Tensor, slope: Tensor, of_w_trans: Tensor,
    grad: Tensor, change: Tensor, w_trans: Tensor, dt: Tensor, w: float, identity: bool,
) -> None:  # fmt: skip
    constants = {"TRANSITION": w != 0, "IDENTITY": identity, **_sizes()}
    tensors = (of_z, g, slope, of_w_trans, grad, change, w_trans, dt)
    _part[_grid(grad)](*tensors, w, len(g), *grad.shape, **constants)


@triton.jit(do_not_specialize=["rows", "layer"])
def _retreat(
    slope, of_deltas, g, update, mask, deltas, layer, rows, dim,
    MASKED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    _, _, at, inside = _tile(rows, dim, ROWS, COLUMNS)
    value, moved = tl.load(g + at, mask=inside, other=0.0), tl.load(update + at, mask=inside, other=0.0)
    tl.atomic_add(of_deltas + layer, tl.sum(value * moved), sem="relaxed")
    value = tl.where(moved > 0, value * tl.load(deltas + layer), 0.0)
    if MASKED:
        value *= tl.load(mask + at, mask=inside, other=0.0)
    tl.store(slope + at, value, mask=inside)


def retreat(
    slope: Tensor, of_deltas: Tensor, g: Tensor, update: Tensor, mask: Tensor | None, deltas: Tensor, layer: int
) -> None:
    tensors = (slope, of_deltas, g, update, g if mask is None else mask, deltas)
    _retreat[_grid(g)](*tensors, layer, *g.shape, **{"MASKED": mask is not None, **_sizes()})


def _grid(like: Tensor) -> tuple[int, int]:
    return max(1, triton.cdiv(len(like), ROWS)), triton.cdiv(like.shape[1], COLUMNS)


def _sizes() -> dict[str, int]:
    return {"ROWS": ROWS, "COLUMNS": COLUMNS}
