"""Tables that grow with the vocabulary, and newcomers as a share of training."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from conftest import N, equal, first_state, make_dataset
from tangokg.history.growth import grow, grow_by_mean
from tangokg.models.tango import Tango, TangoSettings
from tangokg.snapshots.timeline import Timeline, build_timeline
from tangokg.snapshots.windows import Windows, queries_at, windows_at


def tango(train: Timeline, **settings: Any) -> Tango:
    chosen = {"dim": 4, "history": 2, "step_time": 0.4, "dropout": 0.0} | settings
    model = Tango(TangoSettings(**chosen), train, torch.Generator().manual_seed(0)).double()
    model.settle(train)
    return model.eval()


def test_tables_grow_in_both_directions() -> None:
    """Rows are r0 .. r(R-1) and then their reciprocals; new relations stand after the old ones in both halves."""
    table = torch.arange(12, dtype=torch.float64).view(6, 2)
    new = torch.tensor([[[100.0, 101.0]], [[200.0, 201.0]]], dtype=torch.float64)
    grown = grow(table, 5, new)
    assert grown[:, 0].tolist() == [0, 2, 4, 100, 100, 6, 8, 10, 200, 200]
    assert grow(table, 3, new) is table
    assert grow_by_mean(table, 4).tolist() == [[0, 1], [2, 3], [4, 5], [2, 3], [6, 7], [8, 9], [10, 11], [8, 9]]


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
