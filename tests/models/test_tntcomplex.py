"""TNTComplEx: scores and loss equal those of the formula, and an unseen time has the mean of the times before."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from conftest import R, all_queries, equal, make_dataset, make_timeline
from tangokg.errors import ConfigError
from tangokg.models.tntcomplex import TNTComplEx, TNTComplExSettings
from tangokg.snapshots.timeline import Timeline, build_timeline
from tangokg.snapshots.windows import Queries, Windows, queries_at, windows_at


def build(train: Timeline, **more: Any) -> TNTComplEx:
    settings = TNTComplExSettings(dim=3, init_size=0.5, factor_weight=0.2, smooth_weight=0.3, **more)
    return TNTComplEx(settings, train, torch.Generator().manual_seed(1)).double()


def as_complex(table: Tensor) -> Tensor:
    return torch.complex(table.detach()[:, ::2], table.detach()[:, 1::2])


def score_of_one(model: TNTComplEx, s: int, r: int, o: int, moment: Tensor) -> Tensor:
    """The formula, in complex numbers; ``moment`` (D,)."""
    u, v, still = as_complex(model.entities), as_complex(model.relations), as_complex(model.timeless)
    return (u[s] * (v[r] * moment + still[r]) * u[o].conj()).sum().real


def test_scores_equal_the_formula_in_complex_numbers() -> None:
    train = make_timeline(1)
    model = build(train)
    windows, queries = windows_at(train, torch.tensor([2, 5])), all_queries(2).select(torch.arange(0, 144, 9))
    scores = model.score(model.encode(train, windows), queries)
    for row, (w, s, r) in enumerate(zip(queries.window.tolist(), queries.s.tolist(), queries.r.tolist(), strict=True)):
        moment = as_complex(model.moments)[[2, 5][w]]
        twin = torch.stack([score_of_one(model, s, r, o, moment) for o in range(train.num_entities)])
        assert equal(scores[row].detach(), twin)


def test_the_loss_is_the_cross_entropy_and_both_regularisers() -> None:
    train = make_timeline(1)
    model = build(train)
    target = torch.tensor([4, 1])
    windows, queries = windows_at(train, target), queries_at(train, target)
    u, v, still, tau = map(as_complex, (model.entities, model.relations, model.timeless, model.moments))
    total = torch.zeros((), dtype=torch.float64)
    rows = torch.stack([queries.window, queries.s, queries.r, queries.answer], dim=1).tolist()
    for w, s, r, o in rows:
        moment = tau[target[w]]
        x = torch.stack([score_of_one(model, s, r, e, moment) for e in range(train.num_entities)])
        factors = 2 * u[s].abs() ** 3 + (v[r] * moment).abs() ** 3 + still[r].abs() ** 3 + 2 * u[o].abs() ** 3
        total += torch.logsumexp(x, 0) - x[o] + 0.2 * factors.sum()
    smooth = sum((tau[j + 1] - tau[j]).abs().pow(3).sum() for j in range(len(tau) - 1)) / (len(tau) - 1)
    loss = model(train, windows, queries, torch.Generator())
    assert equal(loss.detach(), total / len(rows) + 0.3 * smooth)


@pytest.mark.parametrize("recent", [0, 1, 3, 50])
def test_a_time_that_training_never_saw_has_the_mean_of_those_before_it(recent: int) -> None:
    dataset = make_dataset(1)
    train, timeline = build_timeline(dataset.train), build_timeline(dataset.facts)
    model = build(train, recent=recent)
    tau = as_complex(model.moments)
    between = float(train.t[2] + train.t[3]) / 2
    cases = [(float(train.t[3]), tau[3]), (between, mean_of(tau[:3], recent)), (99.0, mean_of(tau, recent))]
    cases.append((-5.0, mean_of(tau[:1], recent)))
    windows = Windows(torch.full((4,), 3), torch.tensor([t for t, _ in cases], dtype=torch.float64))
    queries = Queries(torch.arange(4), torch.arange(4, 8), torch.tensor([0, 1, R, R + 1]), torch.zeros(4).long())
    scores = model.score(model.encode(timeline, windows), queries)
    for row, (_, moment) in enumerate(cases):
        s, r = int(queries.s[row]), int(queries.r[row])
        assert equal(scores[row, 7].detach(), score_of_one(model, s, r, 7, moment))


def mean_of(tau: Tensor, recent: int) -> Tensor:
    return tau[-recent:].mean(0) if recent else torch.zeros_like(tau[0])


@pytest.mark.parametrize("power", [1.0, 3.0])
def test_equal_neighbours_have_a_gradient(power: float) -> None:
    train = make_timeline(1)
    model = build(train, smooth_power=power)
    with torch.no_grad():
        model.moments.fill_(0.0)
    target = torch.tensor([4])
    model(train, windows_at(train, target), queries_at(train, target), torch.Generator()).backward()
    assert model.moments.grad is not None
    assert model.moments.grad.isfinite().all()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"dim": 0}, "dim must be at least 1"),
        ({"factor_weight": -1.0}, "factor_weight must not be negative"),
        ({"smooth_power": 0.5}, "smooth_power must be at least 1"),
        ({"recent": -1}, "recent must not be negative"),
    ],
)
def test_impossible_settings_are_named(more: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TNTComplExSettings(**more)
