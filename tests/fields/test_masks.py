"""Dropout masks: their rate, their scale, their randomness."""

from __future__ import annotations

import pytest
import torch

from tangokg.masks import dropout, dropout_mask


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9])
def test_the_rate_is_kept_and_the_mean_is_one(rate: float) -> None:
    """Within four standard deviations of 400,000 draws, after rounding the rate to 1/256."""
    mask = dropout_mask(torch.empty(1000, 400, dtype=torch.float64), rate, generator())
    keep = round((1 - rate) * 256) / 256
    assert set(mask.unique().tolist()) == {0.0, 1 / keep}
    assert (mask > 0).double().mean().item() == pytest.approx(keep, abs=4 * (keep * rate / mask.numel()) ** 0.5)
    assert mask.mean().item() == pytest.approx(1, abs=0.01 / keep)


def test_every_byte_of_a_draw_is_fair_and_independent_of_its_neighbour() -> None:
    """Eight entries come from one draw: a byte with a stuck bit, the sign's say, would show in its own column."""
    kept = dropout_mask(torch.empty(40_000, 8, dtype=torch.float64), 0.5, generator(1)) > 0
    assert (kept.double().mean(0) - 0.5).abs().max() < 0.012  # 4.8 standard deviations
    together = kept.double().T @ kept.double() / len(kept)  # (8, 8)
    assert (together - together.diag().diag())[~torch.eye(8, dtype=torch.bool)].sub(0.25).abs().max() < 0.012


@pytest.mark.parametrize("keep", [1, 3, 127, 129, 255])
def test_every_level_of_a_byte_occurs(keep: int) -> None:
    """A rate of 1 - keep/256 keeps that share also at the odd levels that only low bits tell apart."""
    mask = dropout_mask(torch.empty(256_000, dtype=torch.float64), 1 - keep / 256, generator(2))
    deviation = (keep / 256 * (1 - keep / 256) / len(mask)) ** 0.5
    assert (mask > 0).double().mean().item() == pytest.approx(keep / 256, abs=4.5 * deviation)


def test_a_mask_comes_from_its_generator_alone() -> None:
    like = torch.empty(33, 7)
    assert torch.equal(dropout_mask(like, 0.4, generator(5)), dropout_mask(like, 0.4, generator(5)))
    assert not torch.equal(dropout_mask(like, 0.4, generator(5)), dropout_mask(like, 0.4, generator(6)))
    one = generator(5)
    assert not torch.equal(dropout_mask(like, 0.4, one), dropout_mask(like, 0.4, one))


@pytest.mark.parametrize("shape", [(0, 4), (1,), (7,), (8,), (9,), (3, 5, 2)])
def test_any_shape_and_dtype(shape: tuple[int, ...]) -> None:
    for dtype in (torch.float32, torch.float64):
        mask = dropout_mask(torch.empty(shape, dtype=dtype), 0.3, generator())
        assert (mask.shape, mask.dtype) == (shape, dtype)


def test_evaluation_and_rate_zero_change_nothing() -> None:
    x = torch.randn(6, 3, generator=generator())
    assert dropout(x, 0.5, None) is x
    assert dropout(x, 0.0, generator()) is x
    assert torch.equal(dropout_mask(x, 0.0005, generator()), torch.ones_like(x))
    assert torch.equal(dropout(x, 0.5, generator(3)), x * dropout_mask(x, 0.5, generator(3)))
