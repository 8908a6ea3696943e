"""DE-SimplE: scores and loss equal those of the formula, and times are read as the calendar writes them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
import torch
from torch import Tensor

from conftest import N, R, all_queries, equal, make_timeline
from tangokg.errors import ConfigError, DataError
from tangokg.masks import dropout_mask
from tangokg.models.desimple import DESimplE, DESimplESettings
from tangokg.quads.clock import LENGTHS, Clock, as_datetime
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Windows, queries_at, windows_at


def build(train: Timeline, **more: Any) -> DESimplE:
    settings = replace(DESimplESettings(dim=5, unit="day", origin="2015-12-28"), **more)
    return DESimplE(settings, train, torch.Generator().manual_seed(1)).double()


def role(model: DESimplE, e: int, which: int, x: Tensor) -> Tensor:
    """Features (D,) of one entity as head (0) or tail (1), feature by feature."""
    moving = []
    for d in range(model.phase.shape[-1]):
        a, w, b = (table[e, which, :, d] for table in (model.amplitude, model.frequency, model.phase))
        moving.append(torch.stack([a[k] * torch.sin(w[k] * x[k] + b[k]) for k in range(len(x))]).sum())
    return torch.cat([model.static[e, which], torch.stack(moving)])


def score_of_one(model: DESimplE, s: int, r: int, o: int, x: Tensor, mask: float | Tensor = 1.0) -> Tensor:
    forward = role(model, s, 0, x) * model.relations[r] * role(model, o, 1, x)
    backward = role(model, o, 0, x) * model.relations[(r + R) % (2 * R)] * role(model, s, 1, x)
    return ((forward + backward) / 2 * mask).sum()


def numbers(model: DESimplE, t: float) -> Tensor:
    """Year, month and day of a time, counted from the least of training."""
    moment = datetime(2015, 12, 28) + timedelta(days=t)
    return torch.tensor([moment.year, moment.month, moment.day], dtype=torch.float64) - model.first


def test_scores_equal_the_formula() -> None:
    train = make_timeline(1)
    model = build(train)
    assert model.static.shape[1:] == (2, 3)  # 0.68 of five features, rounded
    assert model.phase.shape[1:] == (2, 3, 2)
    windows, queries = windows_at(train, torch.tensor([2, 6])), all_queries(2).select(torch.arange(0, 144, 17))
    with torch.no_grad():
        scores = model.score(model.encode(train, windows), queries)
        for row in range(len(queries)):
            x = numbers(model, float(windows.t[queries.window[row]]))
            s, r = int(queries.s[row]), int(queries.r[row])
            assert equal(scores[row], torch.stack([score_of_one(model, s, r, o, x) for o in range(N)]))


def test_a_fact_has_one_score_from_whichever_side_it_is_asked_for() -> None:
    train = make_timeline(1)
    model = build(train)
    scores = model.score(model.encode(train, windows_at(train, torch.tensor([4]))), all_queries(1))
    x = scores.view(N, 2, R, N)
    assert equal(x[:, 0], x[:, 1].permute(2, 1, 0))


@pytest.mark.parametrize("negatives", [0, 7])
@torch.no_grad()
def test_the_loss_equals_its_slow_twin(negatives: int) -> None:
    train = make_timeline(1)
    model = build(train, negatives=negatives)
    target = torch.tensor([6, 1])
    windows, queries = windows_at(train, target), queries_at(train, target)
    loss = model(train, windows, queries, torch.Generator().manual_seed(3))
    generator = torch.Generator().manual_seed(3)
    mask = dropout_mask(loss.new_empty(len(queries), 5), 0.4, generator)
    drawn = torch.arange(N).expand(2, -1)
    if negatives:
        drawn = torch.randint(N, (2, negatives), generator=generator)
        assert (drawn[queries.window] == queries.answer[:, None]).any(), "an answer must be among what is drawn"
    total = torch.zeros((), dtype=torch.float64)
    rows = torch.stack([queries.window, queries.s, queries.r, queries.answer], dim=1).tolist()
    for b, (w, s, r, o) in enumerate(rows):
        x = numbers(model, float(windows.t[w]))
        among = [o, *(e for e in drawn[w].tolist() if e != o)]
        total += -torch.stack([score_of_one(model, s, r, e, x, mask[b]) for e in among]).log_softmax(0)[0]
    assert equal(loss, total / len(queries))


@pytest.mark.parametrize(
    ("unit", "origin"),
    [
        ("day", "2004-02-27"),
        ("hour", "2013-12-31T22:30"),
        ("minute", "1969-12-31"),
        ("week", "2015-12-31"),
        ("month", "2014-11"),
    ],
)
def test_the_calendar_is_that_of_the_clock(unit: str, origin: str) -> None:
    model, clock = build(make_timeline(1), unit=unit, origin=origin), Clock(unit, origin)
    t = torch.tensor([-900.0, -1.0, 0.0, 1.0, 2.0, 24.0, 72.0, 366.0, 719.25, 1000.0, 4016.5], dtype=torch.float64)
    for when, found in zip(t.tolist(), model._calendar(t).tolist(), strict=True):
        moment = as_datetime(clock.format(when))
        since = moment - datetime(moment.year, moment.month, 1)
        last = moment.month + when % 1 if unit == "month" else 1 + since / timedelta(days=1)
        assert found == pytest.approx([moment.year, *([moment.month] if unit in LENGTHS else []), last])


def test_a_quarter_is_read_by_its_months() -> None:
    model = build(make_timeline(1), unit="quarter", origin="2014-10")
    t = torch.tensor([-1.0, 0.0, 1.0, 1.5], dtype=torch.float64)
    assert model._calendar(t).tolist() == [[2014, 7], [2014, 10], [2015, 1], [2015, 2.5]]


def test_years_and_plain_numbers_are_one_number_each_scaled_where_training_is_long() -> None:
    train = make_timeline(1)
    windows = Windows(torch.tensor([3]), train.t[-1:] + 2.5)
    long = replace(train, t=train.t * 100)
    for more in ({"unit": "year", "origin": "1830"}, {"unit": "step", "origin": ""}, {"unit": "", "origin": ""}):
        assert equal(build(train, **more).encode(train, windows).x, windows.t[:, None] - train.t[0])
        x = build(long, **more).encode(long, replace(windows, t=windows.t * 100)).x
        assert equal(x, (windows.t[:, None] - train.t[0]) / (train.t[-1] - train.t[0]) * 31)


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        ({"dim": 0}, ConfigError, "dim must be at least 1"),
        ({"negatives": -1}, ConfigError, "negatives must not be negative"),
        ({"static_share": 1.0}, ConfigError, "static_share must lie in"),
        ({"unit": "aeon"}, DataError, "unknown time unit 'aeon'"),
    ],
)
def test_impossible_settings_are_named(more: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        DESimplESettings(**more)
