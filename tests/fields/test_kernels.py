"""The GPU kernels give what plain torch gives. Without a GPU, TRITON_INTERPRET=1 runs them where Triton is there."""

from __future__ import annotations

import os
from itertools import permutations

import pytest
import torch
from torch import Tensor

from tangokg.fields import steps
from tangokg.snapshots.rows import Edges

KERNELS = vars(steps)["kernels"]  # None without Triton
DIM = 130  # more than a tile is wide
INTERPRETED = bool(os.environ.get("TRITON_INTERPRET")) and KERNELS is not None
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

pytestmark = pytest.mark.skipif(
    KERNELS is None or (DEVICE == "cpu" and not INTERPRETED), reason="no GPU here, or no Triton"
)


@pytest.fixture(autouse=True)
def kernels_in_single_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "serves", lambda tensor: tensor.dtype == torch.float32)


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def near(found: Tensor, expected: Tensor) -> bool:
    return bool((found.double() - expected).abs().max() <= 2e-6 * max(1.0, float(expected.abs().max())))


def make_edges(count: int, sizes: dict[str, int]) -> Edges:
    draw = torch.Generator().manual_seed(count)
    s, r, o = (torch.randint(0, sizes[name], (count,), generator=draw).to(DEVICE) for name in ("s", "r", "o"))
    weight = random(count, seed=9)
    orders = [torch.argsort(end) for end in (s, r, o)]
    by = [Edges(s[order].int(), r[order].int(), o[order].int(), weight[order].float()) for order in orders]
    return Edges(s, r, o, weight, tuple(by))


@pytest.mark.parametrize("count", [0, 1, 15, 16, 200])
@pytest.mark.parametrize("roles", list(permutations("sro")))
def test_sums_over_edges_in_every_role(count: int, roles: tuple[str, str, str]) -> None:
    sizes = {"s": 7, "r": 3, "o": 11}
    edges, (x, y, to) = make_edges(count, sizes), roles
    a, b, out = (random(sizes[name], DIM, seed=i) for i, name in enumerate(roles))
    expected = steps.add_products(out.clone(), (x, a), (y, b), to, edges)
    assert near(steps.add_products(out.float(), (x, a.float()), (y, b.float()), to, edges), expected)


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("rows", [1, 40])
def test_a_layer_forward_and_back(masked: bool, rows: int) -> None:
    mask = (random(rows, DIM, seed=3) > 0).double() * 2 if masked else None

    def both_ways(dtype: torch.dtype) -> tuple[Tensor, ...]:
        h, update, g = (random(rows, DIM, seed=i).to(dtype) for i in range(3))
        deltas, of_deltas = random(3, seed=4).to(dtype), random(3, seed=5).to(dtype)
        own = None if mask is None else mask.to(dtype)
        out = steps.advance(h, update, own, deltas, 1)
        return out, update, steps.retreat(g, of_deltas, update, own, deltas, 1), of_deltas

    assert all(near(a, b) for a, b in zip(both_ways(torch.float32), both_ways(torch.float64), strict=True))


@pytest.mark.parametrize("w", [0.0, 0.7])
@pytest.mark.parametrize("identity", [True, False])
@pytest.mark.parametrize("objects", [0, 23, 40])
def test_the_whole_forward_and_back(w: float, identity: bool, objects: int) -> None:
    def both_ways(dtype: torch.dtype) -> tuple[Tensor, ...]:
        z, grad, last = (random(n, DIM, seed=i).to(dtype) for i, n in enumerate((40, 40, objects)))
        change, w_trans = random(40 if w else 0, DIM, seed=3).to(dtype), random(DIM, seed=4).to(dtype)
        dt, of_w_trans = random(40, 1, seed=5).to(dtype), random(DIM, seed=6).to(dtype)
        dz = steps.combine(z, last, change, w_trans, dt, w, identity)
        back = steps.part(grad, of_w_trans, objects, change, w_trans, dt, w, identity)
        return dz, *back, of_w_trans

    for a, b in zip(both_ways(torch.float32), both_ways(torch.float64), strict=True):
        assert a.shape == b.shape
        assert not b.numel() or near(a, b)
