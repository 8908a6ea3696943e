"""Copy logits against the formula, tables that grow with the vocabulary, and newcomers as a share of training."""

from __future__ import annotations

from math import exp, log
from typing import Any

import pytest
import torch
from torch import Tensor

from conftest import N, R, all_queries, equal, first_state, make_dataset, make_timeline
from tangokg.history.growth import grow, grow_by_mean
from tangokg.models.copying import CopyLogits
from tangokg.models.tango import Tango, TangoSettings
from tangokg.snapshots.timeline import Timeline, build_timeline
from tangokg.snapshots.windows import Queries, Windows, queries_at, windows_at

GAP = torch.tensor(1.5, dtype=torch.float64)


def some_windows(timeline: Timeline) -> Windows:
    """Nothing known, one snapshot, some of a longer past, all of it and a time far away."""
    known = [0, 1, 5, len(timeline)]
    t = [float(timeline.t[0]), float(timeline.t[1]), float(timeline.t[4]) + 2.5, float(timeline.t[-1]) + 30]
    return Windows(torch.tensor(known), torch.tensor(t, dtype=torch.float64))


def random_copying(labels: int = 2 * R) -> CopyLogits:
    copying = CopyLogits(labels).double()
    with torch.no_grad():
        copying.weights.add_(torch.rand(labels, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64))
    return copying


def slow(weights: Tensor, timeline: Timeline, windows: Windows, queries: Queries) -> dict[tuple[int, int], float]:
    """The formula, one query, one snapshot and one object after the other."""
    values = {}
    for row in range(len(queries)):
        w, s, r = (int(column[row]) for column in (queries.window, queries.s, queries.r))
        a, c, b, log_tau = weights[r].tolist()
        past: dict[int, list[int]] = {}
        for j in range(int(windows.known[w])):
            g = timeline[j]
            for o in g.o[(g.s == s) & (g.r == r)].tolist():
                past.setdefault(o, []).append(j)
        for o, snapshots in past.items():
            age = (float(windows.t[w]) - float(timeline.t[snapshots[-1]])) / float(GAP)
            values[row, o] = 5 * (a * exp(-age / exp(log_tau)) + c * log(1 + len(snapshots)) + b)
    return values


def test_logits_equal_the_formula_in_float64() -> None:
    timeline = make_timeline(1)
    windows, queries, copying = some_windows(timeline), all_queries(4), random_copying()
    row, o, value = copying(timeline, windows, queries, GAP)
    expected = slow(copying.weights, timeline, windows, queries)
    found = dict(zip(zip(row.tolist(), o.tolist(), strict=True), value.tolist(), strict=True))
    assert len(found) == len(row), "an object stands once for a query"
    assert value.dtype == torch.float64
    assert found == pytest.approx(expected, rel=1e-12)
    assert len({round(v, 6) for v in found.values()}) > 20
    assert not (queries.window[row] == 0).any(), "where nothing is known nothing is copied"


def test_every_weight_has_the_gradient_of_finite_differences() -> None:
    timeline = make_timeline(1)
    windows, queries, copying = some_windows(timeline), all_queries(4), random_copying()

    def values(weights: Tensor) -> Tensor:
        given = {"weights": weights}
        value: Tensor = torch.func.functional_call(copying, given, (timeline, windows, queries, GAP))[2]
        return value

    weights = copying.weights.detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(values, (weights,))
    values(weights).square().sum().backward()
    assert weights.grad is not None
    assert (weights.grad != 0).all(), "each weight of each relation is used"


def tango(train: Timeline, **settings: Any) -> Tango:
    chosen = {"dim": 4, "history": 2, "step_time": 0.4, "dropout": 0.0} | settings
    model = Tango(TangoSettings(**chosen), train, torch.Generator().manual_seed(0)).double()
    model.settle(train)
    return model.eval()


def test_only_what_was_seen_is_scored_otherwise_with_copying() -> None:
    timeline = make_timeline(1)
    plain, copying = tango(timeline), tango(timeline, copying=True)
    copying.load_state_dict(plain.state_dict() | {"copying.weights": copying.state_dict()["copying.weights"]})
    windows, queries = some_windows(timeline), all_queries(4)
    with torch.no_grad():
        scores = [model.score(model.encode(timeline, windows), queries) for model in (plain, copying)]
        row, o, value = copying.copying(timeline, windows, queries, copying.gap)  # type: ignore[misc]
    expected = torch.zeros_like(scores[0])
    expected[row, o] = value
    assert equal(scores[1] - scores[0], expected)
    assert (expected == 0).sum() > (expected != 0).sum() > 0


def test_the_loss_with_copying_is_the_cross_entropy_of_its_scores() -> None:
    timeline = make_timeline(1)
    model = tango(timeline, copying=True, decoder="distmult").train()
    target = torch.tensor([3, 6])
    windows, queries = windows_at(timeline, target), queries_at(timeline, target)
    loss = model(timeline, windows, queries, torch.Generator())
    scores = model.score(model.encode(timeline, windows), queries)
    assert equal(loss, torch.nn.functional.cross_entropy(scores, queries.answer))
    (gradient,) = torch.autograd.grad(loss, [model.copying.weights])  # type: ignore[union-attr]
    (expected,) = torch.autograd.grad(
        torch.nn.functional.cross_entropy(scores, queries.answer),
        [model.copying.weights],  # type: ignore[union-attr]
    )
    assert equal(gradient, expected)
    assert gradient.abs().sum() > 0


def test_tables_grow_in_both_directions() -> None:
    """Rows are r0 .. r(R-1) and then their reciprocals; new relations stand after the old ones in both halves."""
    table = torch.arange(12, dtype=torch.float64).view(6, 2)
    new = torch.tensor([[[100.0, 101.0]], [[200.0, 201.0]]], dtype=torch.float64)
    grown = grow(table, 5, new)
    assert grown[:, 0].tolist() == [0, 2, 4, 100, 100, 6, 8, 10, 200, 200]
    assert grow(table, 3, new) is table
    assert grow_by_mean(table, 4).tolist() == [[0, 1], [2, 3], [4, 5], [2, 3], [6, 7], [8, 9], [10, 11], [8, 9]]


def test_a_relation_observed_later_is_copied_with_mean_weights() -> None:
    train = make_timeline(1)
    longer = build_timeline(make_dataset(1).facts, num_relations=R + 1)
    copying = random_copying()
    windows = some_windows(longer)
    row, _, value = copying(longer, windows, all_queries(4, N, R + 1), GAP)
    expected = copying(train, windows, all_queries(4), GAP)[2]
    assert equal(value.sort().values, expected.sort().values)
    halves = copying.weights.detach().view(2, R, 4)
    grown = torch.cat([halves, halves.mean(1, keepdim=True)], dim=1).flatten(0, 1)
    more = build_timeline(make_dataset(1).facts, num_relations=R + 1)
    r = torch.where(more.r == 0, R, torch.where(more.r == R + 1, 2 * R + 1, more.r))  # r0 becomes the new relation
    more.r.copy_(r)
    queries = all_queries(4, N, R + 1)
    row, o, value = copying(more, windows, queries, GAP)
    found = dict(zip(zip(row.tolist(), o.tolist(), strict=True), value.tolist(), strict=True))
    assert found == pytest.approx(slow(grown, more, windows, queries), rel=1e-12)
    assert (queries.r[row] == R).any()


def starts(model: Tango, timeline: Timeline, windows: Windows, seed: int) -> Tensor:
    """(W, N, D): the states of all entities where no time passes."""
    w, entity = torch.cartesian_prod(torch.arange(len(windows)), torch.arange(N)).T
    with torch.no_grad():
        encoded = model.encode(timeline, windows, torch.Generator().manual_seed(seed))
        return encoded.states.take(w, entity)[0].view(len(windows), N, -1)


def test_a_share_of_the_entities_trains_as_newcomers_where_they_have_edges() -> None:
    train = build_timeline(make_dataset(1).train)
    model = tango(train, step_time=0.0, newcomers=0.4).train()
    known = torch.tensor([2, 5])
    windows = Windows(known, train.t[known])
    with_edges = torch.stack([torch.isin(torch.arange(N), train.o[: int(train.offset[k])]) for k in known.tolist()])
    new_states = torch.stack([torch.stack([first_state(model, train, k, i) for i in range(N)]) for k in known.tolist()])
    counted, draws = torch.zeros(N), 60
    for seed in range(draws):
        state = starts(model, train, windows, seed)
        is_new = torch.isclose(state, new_states, atol=1e-12).all(2)  # (W, N)
        kept = torch.isclose(state, model.entities.detach().expand_as(state), atol=1e-12).all(2)
        assert (is_new ^ kept).all(), "either its own embedding or what its edges tell"
        assert not is_new[~with_edges].any()
        drawn = is_new[1]
        assert torch.equal(is_new[0], drawn & with_edges[0]), "one draw for all windows of a step"
        counted += drawn
    assert (counted[~with_edges[1]] == 0).all()
    share = counted[with_edges[1]].mean() / draws
    assert 0.3 < share < 0.5  # of some 600 draws with probability 0.4


def test_newcomers_are_drawn_by_the_generator_in_training_alone() -> None:
    train = build_timeline(make_dataset(1).train)
    model, plain = tango(train, newcomers=0.5), tango(train)
    windows = windows_at(train, torch.tensor([3, 5]))
    assert equal(starts(model, train, windows, 1), starts(plain, train, windows, 1)), "off in evaluation"
    model.train()
    plain.train()
    assert equal(starts(model, train, windows, 1), starts(model, train, windows, 1))
    assert not equal(starts(model, train, windows, 1), starts(model, train, windows, 2), 1e-3)
    assert equal(starts(plain, train, windows, 1), starts(plain, train, windows, 2))
    undrawn = [m.encode(train, windows).states.take(torch.zeros(N).long(), torch.arange(N))[0] for m in (model, plain)]
    assert equal(undrawn[0], undrawn[1]), "without a generator nothing is drawn"
    queries = queries_at(train, torch.tensor([3, 5]))
    losses = [model(train, windows, queries, torch.Generator().manual_seed(seed)).item() for seed in (1, 1, 2)]
    assert losses[0] == losses[1] != losses[2]
