"""States with implied rows against the (W, N, D) tensor that they avoid."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from conftest import N, all_queries, equal, make_timeline
from tangokg.decode import States
from tangokg.decode import states as module
from tangokg.decode.rows import TakeRows
from tangokg.decode.states import ALIGNED, STATE_BYTES
from tangokg.snapshots.blocks import build_block
from tangokg.snapshots.windows import Queries, windows_at


@pytest.fixture(autouse=True, params=[1, 3, 0, 2], ids=["one window", "three windows", "by columns", "two, aligned"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All ways to the same scores: states of one or more windows written out, or columns replaced; sizes choose."""
    monkeypatch.setattr(module, "COLUMN_COST", 10**9 if request.param else 0)
    monkeypatch.setitem(STATE_BYTES, "cpu", request.param * N * D * 8)
    monkeypatch.setitem(ALIGNED, "cpu", 8 if request.param == 2 else 1)


D = 4
Leaves = tuple[Tensor, Tensor, Tensor]  # base, touched, query


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def make_states(target: list[int]) -> tuple[States, Queries, Leaves]:
    """States of some windows and a third of all queries at all but the last window, which is asked nothing."""
    timeline = make_timeline(1)
    block = build_block(timeline, windows_at(timeline, torch.tensor(target)), 2)
    base, touched = random(N, D, seed=1), random(len(block.key), D, seed=2)
    factor = torch.linspace(0.5, 2.0, len(target), dtype=torch.float64)
    queries = all_queries(len(target) - 1)
    queries = queries.select(torch.arange(len(queries)) % 3 == 0)
    return States(base, factor, touched, block), queries, (base, touched, random(len(queries), D, seed=3))


def dense(states: States) -> Tensor:
    """(W, N, D)."""
    every = states.factor[:, None, None] * states.base
    return every.index_put((states.block.window, states.block.entity), states.touched)


def same_gradients(found: Tensor, expected: Tensor, leaves: tuple[Tensor, ...]) -> None:
    pairs = zip(torch.autograd.grad(found, leaves), torch.autograd.grad(expected, leaves), strict=True)
    for i, (a, b) in enumerate(pairs):
        assert equal(a, b), f"leaf {i}"
        assert b.abs().max() > 0


TARGETS = pytest.mark.parametrize("target", [[4, 0, 7, 2], [0, 3, 1]], ids=["some", "first without history"])


@TARGETS
def test_scores_and_their_gradients(target: list[int]) -> None:
    states, queries, leaves = make_states(target)
    found = states.scores(leaves[2], queries)
    expected = torch.einsum("bd,bnd->bn", leaves[2], dense(states)[queries.window])
    assert equal(found, expected)
    look = random(*found.shape, seed=4).detach()
    same_gradients((found * look).sum(), (expected * look).sum(), leaves)


@TARGETS
def test_cross_entropy_and_its_gradients(target: list[int]) -> None:
    states, queries, leaves = make_states(target)
    logits = torch.einsum("bd,bnd->bn", leaves[2], dense(states)[queries.window])
    expected = cross_entropy(logits, queries.answer)
    found = states.cross_entropy(leaves[2], queries)
    assert found.item() == pytest.approx(expected.item(), rel=1e-12)
    same_gradients(found * 3, expected * 3, leaves)


def test_cross_entropy_survives_logits_beyond_the_range_of_exp() -> None:
    states, queries, (_, _, query) = make_states([4, 7, 2])
    far = 1000 * query.detach()
    loss = states.cross_entropy(far.requires_grad_(), queries)
    expected = cross_entropy(torch.einsum("bd,bnd->bn", far, dense(states)[queries.window]), queries.answer)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-12)
    assert torch.autograd.grad(loss, far)[0].isfinite().all()


@TARGETS
def test_taken_states_and_their_gradients_meet_those_of_the_scores(target: list[int]) -> None:
    """Both uses of the embedding, the subjects and all candidates, as the model has them."""
    states, queries, leaves = make_states(target)
    h_s, further = states.take(queries.window, queries.s)
    plain = dense(states)
    expected_h = plain[queries.window, queries.s]
    assert equal(h_s, expected_h)
    found = further.cross_entropy(h_s * leaves[2], queries)
    logits = torch.einsum("bd,bnd->bn", expected_h * leaves[2], plain[queries.window])
    same_gradients(found, cross_entropy(logits, queries.answer), leaves)


def test_states_that_nothing_touched() -> None:
    timeline = make_timeline(1)
    block = build_block(timeline, windows_at(timeline, torch.tensor([0, 0])), 2)
    base, query = random(N, D, seed=1), random(4, D, seed=3)
    states = States(base, torch.tensor([1.0, 2.0], dtype=torch.float64), base.new_zeros(0, D), block)
    window, entity = torch.tensor([0, 0, 1, 1]), torch.tensor([3, 3, 3, 5])
    assert equal(
        states.scores(query, Queries(window, entity, entity, entity)), (query * states.factor[window, None]) @ base.T
    )
    assert equal(states.take(window, entity)[0], base[entity] * states.factor[window, None])


def test_scores_of_a_window_do_not_need_the_others() -> None:
    states, queries, (_, _, query) = make_states([4, 0, 7, 2])
    alone = queries.window == 2
    assert equal(states.scores(query, queries)[alone], states.scores(query[alone], queries.select(alone)))


@pytest.mark.parametrize("used", ["both", "rows", "table"])
def test_rows_and_table_share_one_gradient(used: str) -> None:
    table, look = random(N, D, seed=1), random(N, D, seed=2).detach()
    rows = torch.tensor([2, 5, 2, 2, 0])
    weight = random(len(rows), D, seed=3).detach()
    taken, further = TakeRows.apply(table, rows)  # type: ignore[no-untyped-call]
    plain = torch.zeros((), dtype=torch.float64)
    found = torch.zeros((), dtype=torch.float64)
    if used in ("both", "rows"):
        found, plain = found + (taken**2 * weight).sum(), plain + (table[rows] ** 2 * weight).sum()
    if used in ("both", "table"):
        found, plain = found + (further**2 * look).sum(), plain + (table**2 * look).sum()
    same_gradients(found, plain, (table,))


def test_a_touched_row_hides_its_embedding() -> None:
    """The gradient of an embedding counts the windows in which its entity is implied, and no others."""
    states, queries, (base, _, query) = make_states([4, 7, 2])
    grad = torch.autograd.grad(states.scores(query, queries).sum(), base)[0]
    touched = set(states.block.entity[states.block.window == 0].tolist())
    only = replace(queries, window=queries.window).select(queries.window == 0)
    own = torch.autograd.grad(states.scores(query[: len(only)], only).sum(), base)[0]
    assert all((own[e] == 0).all() == (e in touched) for e in range(N))
    assert grad.abs().max() > 0


@pytest.mark.parametrize("rows", [0, 10**6])
def test_many_touched_entities_are_worth_writing_states_out(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # the real choice
    states, queries, _ = make_states([4, 7, 2])
    many = replace(states, block=replace(states.block, borders=[0, rows, 2 * rows, 3 * rows]))
    assert (many._layout(queries).groups is not None) == (rows > 0)
    monkeypatch.setitem(STATE_BYTES, "cpu", 2**30)  # as a GPU has
    assert many._layout(queries).groups is not None


def test_taken_states_are_those_of_every_entity_touched_or_not() -> None:
    states, _, _ = make_states([3, 0, 6])
    window, entity = torch.cartesian_prod(torch.arange(3), torch.arange(N)).unbind(1)
    weight = random(D, 3, seed=5)
    assert 0 < len(states.touched) < len(window)
    assert equal(states.take(window, entity)[0], dense(states).flatten(0, 1))
    assert equal(states.project(weight, window, entity), dense(states).flatten(0, 1) @ weight)
