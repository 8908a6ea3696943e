"""Entities that training never saw start from what is known of them before the window's end."""

from __future__ import annotations

from dataclasses import replace

import torch

from conftest import NEWCOMERS, N, R, equal, first_state, make_dataset, make_vocab
from tangokg.models.newcomers import find_newcomers, prototypes
from tangokg.models.tango import Tango, TangoSettings
from tangokg.snapshots.timeline import Timeline, build_timeline
from tangokg.snapshots.windows import Windows, windows_at

D = 4


def both() -> tuple[Timeline, Timeline]:
    """The training part, and all parts."""
    dataset = make_dataset(3)
    return build_timeline(dataset.train), build_timeline(dataset.facts)


def settled(train: Timeline, normalise: bool = False) -> Tango:
    settings = TangoSettings(dim=D, decoder="distmult", step_time=0.3, history=2, normalise=normalise)
    model = Tango(settings, train, torch.Generator().manual_seed(0)).double().eval()
    model.settle(train)
    return model


def test_prototypes_equal_a_slow_twin() -> None:
    train, _ = both()
    table = torch.randn(N, D, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    seen = torch.arange(N) != 1  # one without a trained embedding, that has edges all the same
    assert (train.o == 1).any()
    prior, prototype = prototypes(train, table, seen)
    assert equal(prior, table[train.o[train.o != 1]].mean(0))
    for r in range(2 * R):
        objects = train.o[(train.r == r) & (train.o != 1)]
        assert equal(prototype[r], table[objects].mean(0) if len(objects) else prior)


def test_a_relation_without_training_edges_has_the_prior() -> None:
    facts = make_dataset(3).train
    train = build_timeline(facts, num_relations=R + 1)
    table = torch.randn(N, D, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    prior, prototype = prototypes(train, table, torch.ones(N, dtype=torch.bool))
    assert equal(prototype[R], prior)
    assert equal(prototype[2 * R + 1], prior)


def test_first_states_use_the_edges_before_the_windows_end_and_no_others() -> None:
    train, timeline = both()
    model = settled(train)
    known = [len(train), len(train) + 1, len(timeline), 2]
    windows = Windows(torch.tensor(known), torch.full((4,), 1e3, dtype=torch.float64))
    new = find_newcomers(timeline, windows, model.seen, model.prior, model.prototype)
    expected = {}
    for w, k in enumerate(known):
        for entity in (~model.seen).nonzero()[:, 0].tolist():
            if any(entity in timeline[j].o.tolist() for j in range(k)):
                expected[w * N + entity] = first_state(model, timeline, k, entity)
    assert new.key.tolist() == sorted(expected)
    assert len(expected) >= 2
    assert equal(new.state, torch.stack([expected[key] for key in sorted(expected)]))


def test_encode_starts_newcomers_there_and_all_other_unseen_entities_at_the_prior() -> None:
    """A window of length zero shows where states start."""
    train, timeline = both()
    for normalise in (False, True):
        model = settled(train, normalise)
        still = Tango(
            TangoSettings(dim=D, decoder="distmult", step_time=0.0, history=2, normalise=normalise),
            train,
            torch.Generator(),
        ).double()
        still.load_state_dict(model.state_dict())
        windows = windows_at(timeline, torch.tensor([len(train), len(timeline) - 1]))
        encoded = still.eval().encode(timeline, windows)
        for w, known in enumerate(windows.known.tolist()):
            rows, _ = encoded.states.take(torch.full((N,), w), torch.arange(N))
            for entity in range(N):
                seen = bool(model.seen[entity])
                start = model.entities[entity] if seen else first_state(model, timeline, known, entity)
                expected = model._of_one_length(start[None])[0] if normalise else start
                assert equal(rows[entity], expected), (w, entity)


def test_training_saw_all_but_the_newcomers() -> None:
    train, timeline = both()
    model = settled(train)
    assert not model.seen[N - NEWCOMERS :].any()
    assert torch.equal(model.seen, torch.isin(torch.arange(N), train.o))
    assert (timeline.o == N - 1).any()


def test_a_newcomers_state_moves_with_its_edges() -> None:
    train, timeline = both()
    model = settled(train)
    windows = windows_at(timeline, torch.tensor([len(train), len(timeline) - 1]))
    rows, _ = model.encode(timeline, windows).states.take(torch.tensor([0, 1]), torch.tensor([N - 1, N - 1]))
    factor = model.encode(timeline, windows).states.factor
    assert equal(rows[0], model.prior * factor[0])  # nothing is known of it yet
    still = first_state(model, timeline, len(timeline) - 1, N - 1) * factor[1]
    assert not equal(rows[1], still, 1e-3)


def test_settling_is_of_the_embeddings_as_they_are_now() -> None:
    train, _ = both()
    model = settled(train)
    with torch.no_grad():
        model.entities.mul_(-2)
    before = model.prior.clone()
    model.settle(train)
    assert equal(model.prior, -2 * before)
    assert not model.prior.requires_grad


def test_with_rows_of_their_own_unseen_entities_start_from_those() -> None:
    """As in the paper; names that came later have the prior."""
    train, timeline = both()
    longer = build_timeline(replace(make_dataset(3).facts, vocab=make_vocab(N + 1, R)))
    settings = TangoSettings(dim=D, decoder="distmult", step_time=0.0, history=2, unseen="own")
    model = Tango(settings, train, torch.Generator().manual_seed(0)).double().eval()
    model.settle(train)
    for whole in (timeline, longer):
        encoded = model.encode(whole, windows_at(whole, torch.tensor([len(whole) - 1])))
        rows, _ = encoded.states.take(torch.zeros(N, dtype=torch.int64), torch.arange(N))
        assert equal(rows, model.entities)
    rows, _ = encoded.states.take(torch.tensor([0]), torch.tensor([N]))
    assert equal(rows[0], model.prior)
