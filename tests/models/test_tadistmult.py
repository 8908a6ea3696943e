"""TA-DistMult against its formula, the LSTM gate by gate, one question after the other; and the tokens of dates."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from conftest import N, all_queries, equal, make_timeline
from tangokg.errors import ConfigError
from tangokg.masks import dropout_mask
from tangokg.models.tadistmult import MONTHS, TOKENS, Calendar, TADistMult, TADistMultSettings
from tangokg.quads.clock import Clock
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Windows, queries_at, windows_at

STEPS: dict[str, Any] = {}
DAYS: dict[str, Any] = {"unit": "day", "origin": "2013-12-28"}
BOTH = pytest.mark.parametrize("more", [STEPS, DAYS], ids=["steps", "days"])


def build(timeline: Timeline, **more: Any) -> TADistMult:
    settings = TADistMultSettings(dim=4, **{"dropout": 0.0} | more)
    return TADistMult(settings, timeline, torch.Generator().manual_seed(0)).double()


def relation(model: TADistMult, r: int, t: float) -> Tensor:
    """The LSTM over the label and the tokens of ``t``, gate by gate."""
    from_x, from_h, bias_x, bias_h = model.lstm.parameters()
    h = c = torch.zeros(4, dtype=torch.float64)
    for x in [model.relations[r], *(model.tokens[token] for token in model.calendar.tokens(t))]:
        gates = from_x @ x + bias_x + from_h @ h + bias_h
        i, f, g, o = gates.chunk(4)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
    return h


@pytest.mark.parametrize(
    ("unit", "origin", "t", "tokens"),
    [
        ("day", "2014-01-01", 12.0, [2, 0, 1, 4, MONTHS, 11, 13]),  # 2014-01-13: 2y 0y 1y 4y 01m 1d 3d
        ("day", "2014-01-01", 12.9, [2, 0, 1, 4, MONTHS, 11, 13]),
        ("day", "2014-01-01", 364.0, [2, 0, 1, 4, MONTHS + 11, 13, 11]),
        ("day", "2014-01-01", -1.0, [2, 0, 1, 3, MONTHS + 11, 13, 11]),
        ("week", "2014-01-06", 1.0, [2, 0, 1, 4, MONTHS, 11, 13]),
        ("month", "2014-01", 10.5, [2, 0, 1, 4, MONTHS + 10]),
        ("quarter", "2014-01", 3.0, [2, 0, 1, 4, MONTHS + 9]),  # the fourth quarter begins in October
        ("year", "1786", 228.0, [2, 0, 1, 4]),
        ("hour", "2014-01-01", 23.0, [2, 0, 1, 4, MONTHS, 10, 11, 22, 23]),
        ("minute", "2014-01-01", 61.0, [2, 0, 1, 4, MONTHS, 10, 11, 20, 21, 30, 31]),
        ("second", "2014-01-01", 9.0, [2, 0, 1, 4, MONTHS, 10, 11, 20, 20, 30, 30, 40, 49]),
        ("step", None, 47.0, [0, 4, 7]),
        ("day", None, 1047.5, [0, 4, 7]),
        ("step", None, -1.0, [9, 9, 9]),
    ],
)
def test_tokens_of_a_time_are_its_digits(unit: str, origin: str | None, t: float, tokens: list[int]) -> None:
    found = Calendar(Clock(unit, origin), 3).tokens(t)
    assert found == tokens
    assert max(found) < TOKENS


@BOTH
def test_scores_equal_the_formula_also_at_times_never_seen(more: dict[str, Any]) -> None:
    timeline = make_timeline(1)
    model = build(timeline, **more)
    t = torch.tensor([3.0, float(timeline.t[4]), 20.5, float(timeline.t[-1]) + 40], dtype=torch.float64)
    windows = Windows(torch.tensor([1, 4, 5, len(timeline)]), t)
    queries = all_queries(4).select(slice(0, None, 7))
    scores = model.score(model.encode(timeline, windows), queries)
    for row, (w, s, r) in enumerate(zip(*(c.tolist() for c in (queries.window, queries.s, queries.r)), strict=True)):
        query = model.entities[s] * relation(model, r, t[w].item())
        assert equal(scores[row], torch.stack([query @ model.entities[o] for o in range(N)]))


@BOTH
@pytest.mark.parametrize("negatives", [0, 3])
def test_the_loss_equals_the_formula(more: dict[str, Any], negatives: int) -> None:
    timeline, target = make_timeline(1), torch.tensor([2, 5])
    windows, queries = windows_at(timeline, target), queries_at(timeline, target)
    model = build(timeline, negatives=negatives, penalty=0.7, **more)
    loss = model(timeline, windows, queries, torch.Generator().manual_seed(4))
    drawn = torch.randint(N, (len(queries), 3), generator=torch.Generator().manual_seed(4)).tolist()
    losses, squares, e = [], [], model.entities
    columns = (queries.s, queries.r, queries.answer, windows.t[queries.window])
    for (s, r, o, t), wrong in zip(zip(*(c.tolist() for c in columns), strict=True), drawn, strict=True):
        made = relation(model, r, t)
        rivals = e if not negatives else e[[o, *wrong]]
        losses.append((rivals @ (e[s] * made)).exp().sum().log() - e[o] @ (e[s] * made))
        squares.append((e[s].square() + e[o].square()).mean() / 2 + made.square().mean())
    assert equal(loss, torch.stack(losses).mean() + 0.7 * torch.stack(squares).mean())


def test_dropout_falls_on_the_subject_and_on_the_relation() -> None:
    timeline, target = make_timeline(1), torch.tensor([2, 5])
    windows, queries = windows_at(timeline, target), queries_at(timeline, target)
    model, e = build(timeline, dropout=0.4, penalty=0.0), build(timeline).entities
    loss = model(timeline, windows, queries, torch.Generator().manual_seed(4))
    generator = torch.Generator().manual_seed(4)
    of_subject, of_relation = (dropout_mask(loss.new_empty(len(queries), 4), 0.4, generator) for _ in range(2))
    losses = []
    columns = (queries.s, queries.r, queries.answer, windows.t[queries.window])
    for b, (s, r, o, t) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
        x = e @ (e[s] * of_subject[b] * relation(model, r, t) * of_relation[b])
        losses.append(x.logsumexp(0) - x[o])
    assert equal(loss, torch.stack(losses).mean())


def test_each_relation_of_a_time_is_read_once() -> None:
    timeline, target = make_timeline(1), torch.tensor([2, 5])
    model, windows, queries = build(timeline), windows_at(timeline, target), queries_at(timeline, target)
    read: list[int] = []
    model.lstm.register_forward_hook(lambda lstm, words, _: read.append(len(words[0])))
    model.score(model.encode(timeline, windows), queries)
    pairs = set(zip(queries.window.tolist(), queries.r.tolist(), strict=True))
    assert read == [len(pairs)]
    assert len(pairs) < len(queries)


def test_dropout_and_first_weights_come_from_their_generators() -> None:
    timeline, target = make_timeline(1), torch.tensor([2, 5])
    windows, queries = windows_at(timeline, target), queries_at(timeline, target)
    losses: list[float] = []
    for seed in (0, 0, 1):
        torch.manual_seed(len(losses))
        model = build(timeline, dropout=0.5)
        losses.append(model(timeline, windows, queries, torch.Generator().manual_seed(seed)).item())
    assert losses[0] == losses[1]
    assert losses[0] != losses[2]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"dim": 0}, "dim must be at least 1, found 0"),
        ({"dropout": 1.0}, "dropout must lie in"),
        ({"negatives": -1}, "negatives must not be negative, found -1"),
        ({"penalty": -0.1}, "penalty must not be negative, found -0.1"),
        ({"unit": "moon"}, "unit 'moon' is unknown; choose one of step, second"),
    ],
)
def test_impossible_settings_are_errors(more: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TADistMultSettings(**more)
