"""The GPU kernels give what plain torch gives. Without a GPU, TRITON_INTERPRET=1 runs them where Triton is there."""

from __future__ import annotations

import os
from itertools import permutations
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from tangokg.fields.fast import pieces
from tangokg.snapshots.rows import Edges

KERNELS = vars(pieces)["kernels"]  # None without Triton
DIM = 130  # more than a tile is wide
INTERPRETED = bool(os.environ.get("TRITON_INTERPRET")) and KERNELS is not None
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

pytestmark = pytest.mark.skipif(
    KERNELS is None or (DEVICE == "cpu" and not INTERPRETED), reason="no GPU here, or no Triton"
)


@pytest.fixture(autouse=True)
def kernels_in_single_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "serves", lambda tensor: tensor.dtype == torch.float32)


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
    expected = pieces.add_products(out.clone(), (x, a), (y, b), to, edges)
    assert near(pieces.add_products(out.float(), (x, a.float()), (y, b.float()), to, edges), expected)


def test_sums_over_the_edges_of_several_tables() -> None:
    """The tables are parts of larger ones, and do not follow at once."""
    edges, out = make_edges(50, {"s": 7, "r": 3, "o": 11}), random(3, DIM, seed=2)
    a, b = random(4, 9, DIM, seed=0), random(4, 12, DIM, seed=1)
    expected = out.clone()
    for x, y in zip(a, b, strict=True):
        pieces.add_products(expected, ("s", x[:7]), ("o", y[1:]), "r", edges)
    plain = pieces.add_products(out.clone(), ("s", a[:, :7]), ("o", b[:, 1:]), "r", edges)
    assert near(plain, expected)
    assert near(
        pieces.add_products(out.float(), ("s", a.float()[:, :7]), ("o", b.float()[:, 1:]), "r", edges), expected
    )


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6, 11])
def test_weighted_sums(count: int) -> None:
    terms = [(0.3 * i - 1, random(9, DIM, seed=i)) for i in range(count)]
    expected = sum((weight * x for weight, x in terms), torch.zeros_like(terms[0][1]))
    for dtype in (torch.float64, torch.float32):
        assert near(pieces.weighted_sum([(weight, x.to(dtype)) for weight, x in terms]), expected)


def make_field(w: float, identity: bool, masked: bool, objects: int, dtype: torch.dtype) -> Any:
    """What the pieces need of a field of three layers over 40 rows."""
    masks = ((random(objects, DIM, seed=13) > 0).to(dtype) * 2 if masked else None,) * 3
    return SimpleNamespace(
        weights=(0,) * 3, w=w, identity=identity, masks=masks, deltas=random(3, seed=10).to(dtype),
        w_trans=random(DIM, seed=11).to(dtype), dt=random(40, 1, seed=12).to(dtype),
    )  # fmt: skip


@pytest.mark.parametrize("w", [0.0, 0.7])
@pytest.mark.parametrize("identity", [True, False])
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("objects", [0, 1, 23, 40])
def test_layers_forward_and_back(w: float, identity: bool, masked: bool, objects: int) -> None:
    def both_ways(dtype: torch.dtype) -> list[Tensor]:
        field = make_field(w, identity, masked, objects, dtype)
        z, grad, first, last = (random(n, DIM, seed=i).to(dtype) for i, n in enumerate((40, 40, objects, objects)))
        change = random(40 if w else 0, DIM, seed=4).to(dtype)
        h = pieces.advance(field, 1, z[:objects], first, torch.empty_like(first))
        dz = pieces.combine(field, z, h, last, change)
        back: Any = SimpleNamespace(deltas=random(3, seed=5).to(dtype), w_trans=random(DIM, seed=6).to(dtype))
        of_first, of_last, of_change = (torch.empty_like(x) for x in (first, last, change))
        of_z = pieces.part(field, grad, last, change, of_last, of_change, back)
        alone = of_z.clone()
        of_z[:objects] += random(objects, DIM, seed=7).to(dtype)  # from the layers between
        pieces.retreat(field, 1, grad, of_z, first, of_first, back)
        return [h, first, dz, last, alone, of_last, of_change, of_first, back.deltas, back.w_trans]

    for a, b in zip(both_ways(torch.float32), both_ways(torch.float64), strict=True):
        assert a.shape == b.shape
        assert not b.numel() or near(a, b)
