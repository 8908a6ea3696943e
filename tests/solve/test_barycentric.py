"""Interpolation through Chebyshev nodes of the second kind."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch

from tangokg.solve.barycentric import chebyshev_nodes, interpolate, lagrange

COUNTS = range(2, 13)


@pytest.mark.parametrize("n", COUNTS)
def test_interpolation_is_exact_on_polynomials(n: int) -> None:
    """n nodes reproduce every polynomial of degree n - 1, and not the one of degree n."""
    t0, t1 = -0.4, 0.9
    nodes = chebyshev_nodes(t0, t1, n)
    for t in torch.linspace(t0, t1, 17, dtype=torch.float64).tolist():
        for degree in range(n):
            values = [torch.tensor([node**degree], dtype=torch.float64) for node in nodes]
            assert interpolate(nodes, values, t).item() == pytest.approx(t**degree, abs=1e-13)
    middle = (nodes[0] + nodes[1]) / 2
    beyond = interpolate(nodes, [torch.tensor([node**n], dtype=torch.float64) for node in nodes], middle)
    assert abs(beyond.item() - middle**n) > 1e-8


@pytest.mark.parametrize("n", COUNTS)
def test_interpolation_gives_back_the_values_at_the_nodes(n: int) -> None:
    nodes = chebyshev_nodes(0.0, 1.0, n)
    values = list(torch.randn(n, 2, 3, generator=torch.Generator().manual_seed(n), dtype=torch.float64))
    for node, value in zip(nodes, values, strict=True):
        assert torch.equal(interpolate(nodes, values, node), value)
        for t in (math.nextafter(node, -1), math.nextafter(node, 2), node + 1e-14):
            torch.testing.assert_close(interpolate(nodes, values, t), value, rtol=0, atol=1e-11)


@pytest.mark.parametrize("n", COUNTS)
@pytest.mark.parametrize(("t0", "t1"), [(0.1, 0.7), (0.7, 0.1)])
def test_nodes_are_the_extrema_of_a_chebyshev_polynomial_with_both_ends(n: int, t0: float, t1: float) -> None:
    """|T_{n-1}| is 1 at every node, in order from t0 to t1, and the ends are hit exactly."""
    nodes = chebyshev_nodes(t0, t1, n)
    assert len(nodes) == n
    assert (nodes[0], nodes[-1]) == (t0, t1)
    assert all((later - earlier) * (t1 - t0) > 0 for earlier, later in pairwise(nodes))
    for t in nodes:
        x = min(1.0, max(-1.0, 2 * (t - t0) / (t1 - t0) - 1))
        assert abs(math.cos((n - 1) * math.acos(x))) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("n", COUNTS)
def test_the_weights_are_the_lagrange_polynomials_of_the_nodes(n: int) -> None:
    """Slow twin: the product formula."""
    nodes, t = chebyshev_nodes(0.0, 2.0, n), 0.377
    product = [math.prod((t - x) / (node - x) for x in nodes if x != node) for node in nodes]
    assert lagrange(nodes, t) == pytest.approx(product, abs=1e-13)
