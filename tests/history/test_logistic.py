"""The regression finds what made the data, and a label of later has the weights of all."""

from __future__ import annotations

import pytest
import torch

from tangokg.history.logistic import fit_logistic, stored_label


def drawn(count: int = 40_000) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(count, 2, generator=generator, dtype=torch.float64) * torch.tensor([1.0, 5.0])
    label = torch.arange(count) % 4
    z = -1.0 + 0.8 * x[:, 0] - 0.2 * x[:, 1] + 1.5 * (label == 2)
    return x, (torch.rand(count, generator=generator) < torch.sigmoid(z)).double(), label


def test_chances_are_those_that_made_the_data() -> None:
    x, y, label = drawn()
    fitted = fit_logistic(x, y, label, 4, 30.0)
    z = -1.0 + 0.8 * x[:, 0] - 0.2 * x[:, 1] + 1.5 * (label == 2)
    assert (torch.sigmoid(fitted.logit(x, label, 4)) - torch.sigmoid(z)).abs().mean() < 0.02


def test_without_rows_nothing_is_known() -> None:
    fitted = fit_logistic(torch.zeros(0, 3, dtype=torch.float64), torch.zeros(0, dtype=torch.float64))
    assert torch.sigmoid(fitted.logit(torch.ones(2, 3, dtype=torch.float64))).tolist() == [0.5, 0.5]


def test_labels_that_come_later_have_the_weights_of_all() -> None:
    assert stored_label(torch.tensor([0, 1, 2, 3, 4, 5]), 6, 4).tolist() == [0, 1, 4, 2, 3, 4]  # R grew from 2 to 3
    x, y, label = drawn()
    fitted = fit_logistic(x, y, label, 4)
    new = fitted.logit(x[:5], torch.full((5,), 2), 6)
    assert new.tolist() == pytest.approx(fitted.logit(x[:5]).tolist())
