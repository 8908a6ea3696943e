"""Intervals and the test between two models: slow twins, exact cases, and how often they are right."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import Tensor

from conftest import equal
from tangokg.rank import significance
from tangokg.rank.significance import Paired, interval, paired, resampled_means, sign_flip_test


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def drawn(*sizes: int, seed: int = 0) -> Tensor:
    """Reciprocal ranks."""
    return 1 / torch.randint(1, 20, sizes, generator=seeded(seed)).double()


@pytest.mark.parametrize("cells", [1, 40, 10**6])
def test_resampled_means_equal_those_drawn_one_at_a_time(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    values, generator = drawn(3, 17), seeded()
    slow = []
    for _ in range(11):
        queries = [int(torch.randint(17, (1,), generator=generator)) for _ in range(17)]
        slow.append([sum(float(row[q]) for q in queries) / 17 for row in values])
    monkeypatch.setattr(significance, "CELLS", cells)
    assert equal(resampled_means(values, seeded(), 11), torch.tensor(slow, dtype=torch.float64).T, 1e-14)


def test_the_interval_leaves_as_many_resamples_below_as_above() -> None:
    assert interval(torch.arange(1001).double()) == pytest.approx((25, 975))
    assert interval(torch.arange(1001).double(), 0.5) == pytest.approx((250, 750))


def test_the_interval_of_a_constant_sample_is_that_constant() -> None:
    for value in (0.1, 1 / 3, 100 / 7):
        means = resampled_means(torch.full((1, 37), value, dtype=torch.float64), seeded())
        assert interval(means[0]) == (value, value)


def test_intervals_hold_the_true_mean_about_as_often_as_they_say() -> None:
    """Of 400 samples of 100 exponential values with mean 1, about 95 in a hundred; 90 or 99 would be wrong."""
    samples = torch.empty(400, 100, dtype=torch.float64).exponential_(generator=seeded(1))
    ends = [interval(means) for means in resampled_means(samples, seeded(), 500)]
    held = sum(low <= 1 <= high for low, high in ends) / len(ends)
    assert 0.905 < held < 0.985


def test_p_values_equal_those_of_one_flip_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    d, generator = drawn(9) - drawn(9, seed=1), seeded()
    d[4] = 0.0
    some = [float(x) for x in d if x != 0]
    extreme = 1
    for _ in range(99):
        signs = [2 * int(torch.randint(2, (1,), generator=generator)) - 1 for _ in some]
        extreme += abs(sum(s * x for s, x in zip(signs, some, strict=True))) >= abs(sum(some)) - 1e-12
    for cells in (1, 10**6):
        monkeypatch.setattr(significance, "CELLS", cells)
        assert sign_flip_test(d, seeded(), 99) == extreme / 100


def test_p_values_are_those_of_all_signs() -> None:
    d = (drawn(10) - drawn(10, seed=1)).round(decimals=3)
    found = float(d.sum().abs()) - 1e-12
    exact = sum(abs(float((d * torch.tensor(signs)).sum())) >= found for signs in product((-1, 1), repeat=10)) / 2**10
    assert 0.01 < exact < 0.99
    assert sign_flip_test(d, seeded()) == pytest.approx(exact, abs=0.02)


def test_p_values_of_equal_models_spread_over_all_values() -> None:
    """Small in one of twenty cases below 0.05, and neither sign nor scale matters."""
    pairs = [(drawn(60, seed=i), drawn(60, seed=1000 + i)) for i in range(300)]
    found = torch.tensor([sign_flip_test(a - b, seeded(i), 199) for i, (a, b) in enumerate(pairs)])
    assert 0.02 < float((found < 0.05).float().mean()) < 0.09
    assert 0.43 < float(found.median()) < 0.57
    a, b = pairs[0]
    assert sign_flip_test(a - b, seeded(), 199) == sign_flip_test(100 * (b - a), seeded(), 199)


def test_a_pair_has_the_mean_difference_with_its_interval() -> None:
    values = torch.stack([drawn(80), drawn(80)])
    means = resampled_means(values, seeded())
    assert paired(values, means, seeded()) == Paired(0.0, 0.0, 0.0, 1.0)
    values[0] += 0.25
    found = paired(values, resampled_means(values, seeded()), seeded())
    assert (found.difference, found.low, found.high) == pytest.approx((0.25,) * 3)
    assert found.p == 1e-4, "the same on every query: no signs drawn give as much"
