"""Logistic regression with weights for each label, shrunk towards shared ones; Newton's method, no randomness."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

STEPS = 30  # of Newton at most
TOLERANCE = 1e-7
RIDGE = 1e-3  # a row: pull on the weights to 0
LEAST_PULL = 1.0  # in all: a table of a few rows is no reason to be sure
LABEL_RIDGES = 30.0, 300.0, 3000.0  # pull on the weights of a label to those of all
FEW = 40  # rows below which a label has no weights of its own
MOST = 30.0  # of a logit


@dataclass(frozen=True, eq=False)
class Logistic:
    r"""Chances from features (docs/maths.md, row M45).

    .. math:: p = \sigma(w_{label} \cdot \tilde x), \qquad \tilde x = (1, (\min(\max(x, a), b) - m) / d)

    with a and b the range of each feature that it was fitted on: beyond it nothing is known. Labels beyond the last
    known have the weights of all.
    """

    mean: Tensor  # (F,)
    scale: Tensor  # (F,)
    weight: Tensor  # (F + 1,) of all
    own: Tensor  # (L, F + 1) what each label adds
    low: Tensor  # (F,)
    high: Tensor  # (F,)

    def logit(self, x: Tensor, pair: Tensor | None = None, num_labels: int = 0, rising: int = 0) -> Tensor:
        """(M,) from features (M, F); with pairs s * 2R + r (M,), by the weights of their labels, of ``num_labels``.

        The result never decreases in any of the first ``rising`` features.
        """
        scaled = _with_intercept((torch.minimum(torch.maximum(x, self.low), self.high) - self.mean) / self.scale)
        weights = torch.cat([self.own, self.own.new_zeros(1, len(self.weight))]) + self.weight  # (L + 1, F + 1)
        weights[:, 1 : 1 + rising] = weights[:, 1 : 1 + rising].clamp(min=0.0)
        if pair is None:
            return (scaled @ weights[-1]).clamp(-MOST, MOST)
        label = stored_label(pair, num_labels, len(self.own))
        return (scaled * weights.index_select(0, label)).sum(1).clamp(-MOST, MOST)


def stored_label(pair: Tensor, num_labels: int, stored: int) -> Tensor:
    """The label of each pair s * 2R + r when there were ``stored`` labels; ``stored`` for a newer relation."""
    relations, known = num_labels // 2, stored // 2
    label = pair % max(num_labels, 1)
    r = label % max(relations, 1)
    return torch.where(r < known, r + torch.where(label < relations, 0, known), stored)


def empty_logistic(features: int) -> Logistic:
    """A regression that gives one half for everything."""
    zero = torch.zeros(features, dtype=torch.float64)
    weight = torch.zeros(features + 1, dtype=torch.float64)
    return Logistic(zero, zero + 1, weight, zero.new_zeros(0, features + 1), zero.clone(), zero.clone())


def fit_logistic(
    x: Tensor,
    y: Tensor,
    label: Tensor | None = None,
    num_labels: int = 0,
    label_ridge: float = LABEL_RIDGES[1],
    ridge: float = RIDGE,
    toward: Mapping[int, float] | None = None,
) -> Logistic:
    """Maximum likelihood with a ridge from features (M, F) and ``y`` (M,) of 0 and 1, with ``label`` for each label.

    ``toward`` are weights of some features that already make a logit: these are drawn to them, all others to 0.
    """
    if not len(x):
        return empty_logistic(x.shape[1])
    mean, scale = x.mean(0), x.std(0, correction=0)
    scale = torch.where(scale > 1e-9, scale, 1.0)
    scaled = _with_intercept((x - mean) / scale)
    pull = torch.full_like(scaled[0], max(ridge * len(x), LEAST_PULL))
    pull[0] = 0.5  # as if a row or two had come out either way
    start = torch.zeros_like(pull)
    for i, value in (toward or {}).items():
        start[0] += value * mean[i]
        start[1 + i] = value * scale[i]
    weight = _newton(scaled, y, start, pull)
    by_label = scaled.new_zeros(num_labels, len(weight))
    if label is not None:
        order = torch.argsort(label, stable=True)
        border = torch.searchsorted(label[order], torch.arange(num_labels + 1)).tolist()
        pull = torch.full_like(weight, label_ridge)
        pull[0] = label_ridge / 10
        for i in range(num_labels):
            rows = order[border[i] : border[i + 1]]
            if len(rows) >= FEW:
                by_label[i] = _newton(scaled[rows], y[rows], weight, pull) - weight
    return Logistic(mean, scale, weight, by_label, x.min(0).values, x.max(0).values)


def _newton(x: Tensor, y: Tensor, start: Tensor, pull: Tensor) -> Tensor:
    """Weights (F,) that minimise the loss plus ``pull`` times the squared distance from ``start``; damped steps."""
    w = start.clone()
    best = _loss(x, y, w, start, pull)
    for _ in range(STEPS):
        p = torch.sigmoid(x @ w)
        gradient = x.T @ (p - y) + pull * (w - start)
        curvature = x.T @ (x * (p * (1 - p))[:, None]) + torch.diag(pull)
        step = torch.linalg.solve(curvature, gradient)
        size = 1.0
        while size > 1e-4 and _loss(x, y, w - size * step, start, pull) > best:
            size /= 2
        if size <= 1e-4:
            break
        w = w - size * step
        loss = _loss(x, y, w, start, pull)
        if best - loss < TOLERANCE * (1 + abs(best)):
            break
        best = loss
    return w


def _loss(x: Tensor, y: Tensor, w: Tensor, start: Tensor, pull: Tensor) -> float:
    z = x @ w
    return float((torch.nn.functional.softplus(z) - y * z).sum() + 0.5 * (pull * (w - start) ** 2).sum())


def _with_intercept(x: Tensor) -> Tensor:
    return torch.cat([x.new_ones(len(x), 1), x], dim=1)
