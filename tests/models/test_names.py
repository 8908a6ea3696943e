"""The names of entities that training never saw say where these start; those of all others say nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
from torch import Tensor

from conftest import NEWCOMERS, N, all_queries, equal, first_state, make_dataset, make_forecaster, make_vocab
from meeting import together
from tangokg.errors import ConfigError
from tangokg.forecast import load
from tangokg.models import names as names_module
from tangokg.models.names import NO_WORD, NameStates
from tangokg.models.newcomers import start_unseen
from tangokg.models.tango import Tango, TangoSettings
from tangokg.quads.values import Dataset
from tangokg.quads.words import find_words, words_of
from tangokg.shards import WHOLE, Shard
from tangokg.snapshots.timeline import Timeline, build_timeline
from tangokg.snapshots.windows import Queries, windows_at

D = 4
ROLES, COUNTRIES = ("Citizen", "Police", "Army of"), ("India", "Chad", "Chad B", "Chad C")
NAMES = [f"{ROLES[i % 3]} ({COUNTRIES[i % 4]})" for i in range(N)]
OTHER = "Xyz 17"  # without a word of these


def named(names: list[str], seed: int = 3) -> Dataset:
    return make_dataset(seed).with_vocab(replace(make_vocab(), entities=tuple(names)))


def renamed(entity: int, name: str) -> list[str]:
    return [name if i == entity else old for i, old in enumerate(NAMES)]


def settled(dataset: Dataset, **more: Any) -> Tango:
    usual: dict[str, Any] = {"dim": D, "decoder": "distmult", "step_time": 0.3, "history": 2, "names": True}
    settings = TangoSettings(**usual | more)
    train = build_timeline(dataset.train)
    model = Tango(settings, train, torch.Generator().manual_seed(0)).double().eval()
    model.settle(train)
    return model


def scores_of(model: Tango, dataset: Dataset) -> Tensor:
    timeline = build_timeline(dataset.facts)
    windows = windows_at(timeline, torch.tensor([len(timeline) - 1, len(timeline) - 3]))
    return model.score(model.encode(timeline, windows), all_queries(2))


def slow_states(timeline: Timeline, table: Tensor, seen: Tensor, prior: Tensor) -> Tensor:
    """What every name says (N, D), by dense least squares with a row of zeros to fit for each word."""
    sets = [set(words_of(name)) for name in timeline.vocab.entities]
    known = sorted({w for one in sets for w in one if sum(w in sets[i] for i in seen.nonzero()[:, 0].tolist()) > 1})
    x = torch.tensor([[float(word in one) for word in known] for one in sets], dtype=torch.float64)
    x = x / x.sum(1, keepdim=True).sqrt().clamp(min=1e-9)
    both = torch.cat([x[seen], torch.eye(len(known), dtype=x.dtype)])
    target = torch.cat([table[seen] - prior, torch.zeros(len(known), D, dtype=x.dtype)])
    states: Tensor = x @ torch.linalg.lstsq(both, target).solution
    return states


@pytest.fixture
def table() -> Tensor:
    return torch.randn(N, D, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


SEEN = torch.arange(N) < N - NEWCOMERS


def fitted(timeline: Timeline, table: Tensor, shard: Shard = WHOLE) -> NameStates:
    states = NameStates(D).double()
    states.fit(timeline, table[shard.rows] if shard.size > 1 else table, SEEN, table.mean(0), shard)
    return states


def test_the_regression_equals_dense_least_squares(table: Tensor) -> None:
    timeline = build_timeline(named(renamed(2, OTHER)).train)
    found = fitted(timeline, table)(timeline, torch.arange(N))
    assert equal(found, slow_states(timeline, table, SEEN, table.mean(0)))
    assert found.any(1).tolist() == [i != 2 for i in range(N)]


def test_pieces_and_divided_tables_give_the_same_regression(table: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    timeline = build_timeline(named(NAMES).train)
    whole = fitted(timeline, table)
    monkeypatch.setattr(names_module, "ENTRIES", 3)

    def part(shard: Shard) -> tuple[NameStates, Tensor]:
        states = fitted(timeline, table, shard)
        return states, start_unseen(timeline, table[shard.rows], SEEN, table.mean(0), states, shard)

    parts, _ = together(3, N, part, monkeypatch)
    for states, _ in parts:
        assert torch.equal(states.words, whole.words)
        assert equal(states.states, whole.states)
    started = start_unseen(timeline, table, SEEN, table.mean(0), whole, WHOLE)
    assert equal(torch.cat([rows for _, rows in parts]), started)
    assert torch.equal(started[SEEN], table[SEEN])


def test_the_most_frequent_words_are_kept_in_the_order_of_their_numbers(
    table: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeline = build_timeline(named(NAMES).train)
    words = fitted(timeline, table).words
    assert torch.equal(words, words.sort().values)
    monkeypatch.setattr(names_module, "WORDS", 1)
    assert fitted(timeline, table).words.tolist() == find_words(["chad"]).word.tolist()


@pytest.mark.parametrize("normalise", [False, True])
def test_a_name_is_added_to_the_first_state_of_what_training_never_saw(normalise: bool) -> None:
    """A window of length zero shows where states start."""
    dataset = named(NAMES)
    model, timeline = settled(dataset, step_time=0.0, normalise=normalise), build_timeline(dataset.facts)
    assert torch.equal(model.seen, SEEN)
    windows = windows_at(timeline, torch.tensor([len(timeline) - 3, len(timeline) - 1]))
    states = model.encode(timeline, windows).states
    names = slow_states(timeline, model.entities.detach(), SEEN, model.prior)
    for w, known in enumerate(windows.known.tolist()):
        rows, _ = states.take(torch.full((N,), w), torch.arange(N))
        for i in range(N):
            start = model.entities[i] if SEEN[i] else first_state(model, timeline, known, i) + names[i]
            assert equal(rows[i], model._of_one_length(start[None])[0] if normalise else start)


def test_after_training_the_name_of_what_it_saw_changes_nothing_and_that_of_a_newcomer_does() -> None:
    model = settled(named(NAMES))
    scores = scores_of(model, named(NAMES))
    assert torch.equal(scores_of(model, named(renamed(3, OTHER))), scores)
    other = scores_of(model, named(renamed(N - 1, NAMES[0] + ".")))
    changed = (other - scores).abs().sum(0) > 1e-6
    assert changed[N - 1]


def test_without_the_setting_no_name_changes_anything() -> None:
    expected = settled(named(NAMES), names=False)
    for entity in (3, N - 1):
        other = named(renamed(entity, OTHER))
        model = settled(other, names=False)
        assert model.state_dict().keys() == expected.state_dict().keys()
        assert torch.equal(scores_of(model, other), scores_of(expected, named(NAMES)))


@pytest.mark.parametrize("names", [[f"{i}" for i in range(N)], [*NAMES[:-2], OTHER, "42"]], ids=["numbers", "unknown"])
def test_a_name_without_a_known_word_says_nothing(names: list[str]) -> None:
    dataset = named(names)
    plain, model = settled(dataset, names=False), settled(dataset)
    assert equal(scores_of(model, dataset), scores_of(plain, dataset))
    assert model.names is not None
    assert (model.names.words == NO_WORD).all() == (names[0] == "0")


def test_training_does_not_look_at_names() -> None:
    train = build_timeline(named(NAMES).train)
    losses = []
    for names in (False, True):
        model = settled(named(NAMES), names=names, newcomers=0.5).train()
        windows = windows_at(train, torch.tensor([len(train) - 1]))
        queries: Queries = all_queries(1)
        losses.append(model(train, windows, queries, torch.Generator().manual_seed(1)))
    assert torch.equal(losses[0], losses[1])


def test_rows_of_their_own_leave_no_place_for_names() -> None:
    with pytest.raises(ConfigError, match="names needs unseen='edges'"):
        TangoSettings(names=True, unseen="own")


@pytest.mark.parametrize("name", ["tango", "tango-tucker"])
def test_a_saved_run_answers_alike_about_names_that_came_later(name: str, tmp_path: Path) -> None:
    made = make_forecaster(name, named(NAMES), names=True)
    made.save(tmp_path / "run")
    loaded = load(tmp_path / "run", "cpu")
    last = int(made.facts.t.max())
    answers = {}
    for new in ("Police (India.)", OTHER):
        for forecaster in (made, loaded):
            facts = {"subject": [new] * 2, "relation": ["r0", "r1"], "object": NAMES[1:3], "time": [last + 1] * 2}
            assert forecaster.observe(pa.table(facts)) == 2
        asked = [f.forecast(new, "r1", at=last + 2, top=N + 2) for f in (made, loaded)]
        assert asked[0].answers == asked[1].answers
        answers[new] = {answer.name: answer.share for answer in asked[0].answers}
    assert answers[OTHER] != answers["Police (India.)"]
