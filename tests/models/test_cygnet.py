"""CyGNet against its formula, one question at a time; what is copied, and what new names change."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from conftest import N, all_queries, equal, make_dataset, make_facts, make_timeline, make_vocab
from tangokg.errors import ConfigError
from tangokg.history.growth import grow_rows
from tangokg.models.cygnet import CyGNet, CyGNetSettings
from tangokg.snapshots.timeline import Timeline, build_timeline
from tangokg.snapshots.windows import Queries, Windows, queries_at, windows_at


def small(train: Timeline, **settings: Any) -> CyGNet:
    """In float64, with weights large enough that both modes have an opinion."""
    model = CyGNet(CyGNetSettings(dim=4, **settings), train, torch.Generator().manual_seed(3)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    return model


def ask(model: CyGNet, timeline: Timeline, windows: Windows, queries: Queries) -> Tensor:
    with torch.no_grad():
        return model.score(model.encode(timeline, windows), queries)


def some_windows(timeline: Timeline) -> Windows:
    """Nothing known, some of a longer past, all of it and a time far away."""
    t = [float(timeline.t[0]), float(timeline.t[4]) + 0.5, float(timeline.t[-1]) + 30]
    return Windows(torch.tensor([0, 5, len(timeline)]), torch.tensor(t, dtype=torch.float64))


def history(timeline: Timeline, known: int, s: int, r: int) -> set[int]:
    """The objects that stood with (s, r), snapshot after snapshot."""
    graphs = [timeline[j] for j in range(known)]
    return {o for g in graphs for o in g.o[(g.s == s) & (g.r == r)].tolist()}


@torch.no_grad()
def slow(model: CyGNet, train: Timeline, timeline: Timeline, windows: Windows, queries: Queries) -> Tensor:
    """p (B, N) by the formula, one question and one candidate after the other."""
    alpha, p = model.settings.alpha, torch.zeros(len(queries), N, dtype=torch.float64)
    for b in range(len(queries)):
        w, s, r = (int(column[b]) for column in (queries.window, queries.s, queries.r))
        gap, whole = float(train.t.diff().median()), float(train.t[-1] - train.t[0])
        length = gap / model.settings.time_step if model.settings.time_step else whole + gap
        time = (float(windows.t[w]) - float(train.t[0]) + gap) / length * model.unit[0]
        x = torch.cat([model.entities[s], model.relations[r], time])
        objects = history(timeline, int(windows.known[w]), s, r)
        copy, generation = [], []
        for o in range(N):
            value = math.tanh(float(model.copy.weight[o] @ x + model.copy.bias[o]))
            copy.append(math.exp(value if o in objects else value - 100))
            generation.append(math.exp(float(model.generation.weight[o] @ x + model.generation.bias[o])))
        for o in range(N):
            p[b, o] = alpha * copy[o] / sum(copy) + (1 - alpha) * generation[o] / sum(generation)
    return p


@pytest.mark.parametrize("time_step", [0.0, 0.3])
def test_scores_are_the_logarithms_of_the_formula(time_step: float) -> None:
    train, timeline = build_timeline(make_dataset(1).train), make_timeline(1)
    model, windows = small(train, alpha=0.7, time_step=time_step), some_windows(timeline)
    queries = all_queries(len(windows)).select(slice(None, None, 3))
    p = slow(model, train, timeline, windows, queries)
    assert equal(p.sum(1), torch.ones(len(p), dtype=torch.float64))
    scores = ask(model, timeline, windows, queries)
    assert equal(scores, p.log(), 1e-9)
    assert equal(model.probabilities(scores), p)


def test_the_loss_is_that_of_the_formula_and_knows_what_stood_before_alone() -> None:
    train = make_timeline(2)
    model, target = small(train), torch.tensor([6, 0, 3])
    windows, queries = windows_at(train, target), queries_at(train, target)
    p = slow(model, train, train, windows, queries)[torch.arange(len(queries)), queries.answer]
    squares = sum((table**2).mean().item() for table in (model.entities, model.relations, model.unit))
    loss = model(train, windows, queries, torch.Generator())
    assert loss.item() == pytest.approx(0.01 * squares - float(p.log().mean()), rel=1e-9)
    loss.backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in model.parameters())


def test_only_objects_of_the_history_are_copied_and_without_one_all_are() -> None:
    """What copy weights change: with a history its objects alone, without one every candidate."""
    timeline = make_timeline(1)
    model, windows, queries = small(timeline), some_windows(timeline), all_queries(3)
    before = ask(model, timeline, windows, queries)
    with torch.no_grad():
        model.copy.bias.add_(torch.linspace(-1, 1, N))
    changed = ask(model, timeline, windows, queries) != before
    for b in range(len(queries)):
        known = int(windows.known[queries.window[b]])
        objects = history(timeline, known, int(queries.s[b]), int(queries.r[b]))
        found = set(changed[b].nonzero()[:, 0].tolist())
        assert found <= objects if objects else len(found) > N // 2
        assert len(objects) < 2 or found


def test_single_precision_has_no_infinite_score_and_the_same_order() -> None:
    timeline = make_timeline(1)
    model, windows, queries = small(timeline), some_windows(timeline), all_queries(3)
    with torch.no_grad():
        model.generation.bias[0] = -150.0  # exp of it is 0 in single precision
    exact = ask(model, timeline, windows, queries)
    scores = ask(model.float(), timeline, windows, queries)
    assert scores.dtype == torch.float32
    assert equal(scores.double(), exact, 1e-4)


def test_a_new_name_has_mean_rows_and_is_copied_where_it_stood_before() -> None:
    facts = make_facts(1)
    model = small(build_timeline(facts))
    table = torch.arange(6.0).view(3, 2)
    assert torch.equal(grow_rows(table, 5), torch.tensor([[0.0, 1], [2, 3], [4, 5], [2, 3], [2, 3]]))
    late = replace(facts, vocab=make_vocab(N + 1), o=facts.o.copy())
    late.o[late.t == late.t.max()] = N
    timeline = build_timeline(late)
    windows = replace(some_windows(timeline), known=torch.tensor([0, 5, len(timeline) - 1]))
    s = int(late.s[late.o == N][0])
    r = int(late.r[late.o == N][0])
    query = Queries(*(torch.tensor([v]) for v in (2, s, r, 0)))
    unseen = ask(model, timeline, windows, query)[0, N]
    seen = ask(model, timeline, replace(windows, known=windows.known + 1), query)[0, N]
    x = torch.cat([model.entities[s], model.relations[r], model.encode(timeline, windows).times[2]])
    generated = model.generation.weight @ x + model.generation.bias  # (N,)
    assert unseen.item() == pytest.approx((generated.mean() - generated.logsumexp(0)).item() + math.log(0.2))
    assert seen > unseen + 1


@pytest.mark.parametrize(
    ("key", "value"), [("dim", 0), ("alpha", 0.0), ("alpha", 1.0), ("time_step", -1), ("penalty", -1)]
)
def test_settings_out_of_range_are_refused(key: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=key):
        CyGNetSettings(**{key: value})


def test_the_time_vector_grows_with_time_in_the_measure_of_training() -> None:
    train, timeline = build_timeline(make_dataset(1).train), make_timeline(1)
    gap = train.t.diff().median()
    there = Windows(torch.tensor([1, 5]), torch.stack([train.t[0] + 2 * gap, train.t[-1]]))
    authors, ours = small(train, time_step=1.0), small(train)
    assert equal(authors.encode(timeline, there).times[0], 3 * authors.unit[0])
    assert equal(ours.encode(timeline, there).times[1], ours.unit[0])
