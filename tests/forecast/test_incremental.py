"""A forecast from the part of the history that it can see equals one from all of it; so does one after new facts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from conftest import N, R, equal, facts_like, make_dataset, make_forecaster, make_vocab
from tangokg.forecast import Forecast, Forecaster, known
from tangokg.forecast.known import Known
from tangokg.forecast.shares import best_shares
from tangokg.history.index import build_index
from tangokg.models import MODELS
from tangokg.quads import words
from tangokg.quads.clock import Clock
from tangokg.quads.values import Quadruples, concatenate
from tangokg.snapshots.timeline import build_timeline

EVERY = pytest.mark.parametrize("name", MODELS)
SNAPSHOTS = 24
WHOLE = ("renet",)  # models that look at everything
QUESTIONS: list[dict[str, Any]] = [
    {"subject": "e3", "relation": "r1"},
    {"relation": "r0", "object": "e4"},
    {"subject": "e3", "object": "e5"},
    {"subject": "e0", "relation": "r2", "object": "e7"},
    {"subject": "e1"},
    {"relation": "r1"},
]


@pytest.fixture(autouse=True)
def _a_part_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much of the small history a question can see, it is shown that part."""
    monkeypatch.setattr(known, "SHARE", 1.0)


@pytest.fixture(autouse=True)
def _shared_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """For models that look at names: every third entity has the same word, those that came later too."""
    monkeypatch.setattr(words, "words_of", lambda name: [name, f"of {int(name[1:]) % 3}"])


def times_of(facts: Quadruples) -> list[float]:
    times = np.unique(facts.t).tolist()
    return [times[2] + 0.5, times[len(times) // 2], times[-1] + 1, times[-1] + 30]


def ask(forecaster: Forecaster) -> list[Forecast]:
    by = [{"subject": "e3", "relation": "r1", "by": int(forecaster.facts.t.max()) + 9}]
    at = [question | {"at": t} for t in times_of(forecaster.facts) for question in QUESTIONS]
    return [forecaster.forecast(**question, top=N + 2) for question in at + by]


def check_same(found: list[Forecast], expected: list[Forecast]) -> None:
    """The same answers, up to the order of those that are equally likely."""
    for a, b in zip(found, expected, strict=True):
        one, other = ({(x.subject, x.relation, x.object): x for x in f.answers} for f in (a, b))
        assert one.keys() == other.keys(), a.title
        assert [x.share for x in a.answers] == pytest.approx([x.share for x in b.answers], rel=1e-9, abs=1e-12)
        for fact, x in one.items():
            y = other[fact]
            assert (x.name, x.seen, x.last) == (y.name, y.seen, y.last)
            assert (x.share, x.chance) == pytest.approx((y.share, y.chance), rel=1e-9, abs=1e-12), a.title
        assert (a.happens is None) == (b.happens is None)
        assert a.happens is None or a.happens == pytest.approx(b.happens, rel=1e-9, abs=1e-12)


def check_shares(forecaster: Forecaster) -> None:
    """What the model itself gives to every object of one subject after the other, beside the whole timeline."""
    model, facts, whole = forecaster.model, forecaster.facts, build_timeline(forecaster.facts)
    labels = 2 * facts.vocab.num_relations
    t = torch.tensor(times_of(facts), dtype=torch.float64).floor()
    r, step = torch.cartesian_prod(torch.arange(labels).double(), t).T
    asked = torch.searchsorted(whole.t, step.contiguous()), step
    for s in (0, 3, 7, facts.vocab.num_entities - 1):
        pair = s * labels + r.long()
        part, all_of_it = (
            best_shares(model, history, pair, *asked, facts.vocab.num_entities)
            for history in (Known(model, build_index(facts)), whole)
        )
        assert equal(part.share, all_of_it.share, 1e-12)
        one, other = (torch.zeros_like(best.share).scatter(1, best.o, best.share) for best in (part, all_of_it))
        assert equal(one, other, 1e-12)


def make(name: str, **more: Any) -> Forecaster:
    return make_forecaster(name, make_dataset(1, SNAPSHOTS), **more)


@EVERY
def test_a_model_says_what_it_looks_at(name: str) -> None:
    assert (make(name).model.sight() is None) == (name in WHOLE)


CASES: list[tuple[str, dict[str, Any]]] = [(name, {}) for name in MODELS]
CASES += [
    ("tango", {"hops": 2, "runs": True}),
    ("tango", {"heads": "pairs"}),
    ("tango", {"graphs": "other"}),
    ("tango", {"unseen": "own"}),
    ("tango", {"names": True}),
]
CASES += [("tango-tucker", {"transition_of": "next"}), ("tango-tucker", {"static": True})]
CASES += [("tango-authors", {"transition_of": "next"})]


@pytest.mark.parametrize(("name", "more"), CASES)
def test_the_part_that_a_question_can_see_says_what_the_whole_history_says(
    name: str, more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    forecaster = make(name, **more)
    check_shares(forecaster)
    found = ask(forecaster)
    monkeypatch.setattr(known, "SHARE", -1.0)
    monkeypatch.setattr(type(forecaster.model), "sight", lambda self: None)
    whole = Forecaster(forecaster.model, forecaster.dataset, forecaster.config, chances=forecaster.chances)
    check_same(found, ask(whole))


def grown(facts: Quadruples) -> list[Quadruples]:
    """New facts in pieces: later ones, early ones reported late, known ones again, new names, a new relation."""
    rng = np.random.default_rng(5)
    last, times = int(facts.t.max()), np.unique(facts.t)
    pieces = []
    for i in range(6):
        s, r, o = (rng.integers(most, size=4).tolist() for most in (N, R, N))
        t = [last + i // 2, last + 1 + i, int(times[3 + i]), int(times[0]) + 1]
        rows = list(zip(s, r, o, t, strict=True))
        again = [(int(facts.s[i]), int(facts.r[i]), int(facts.o[i]), int(facts.t[i]))]
        pieces.append(facts_like(facts, rows + again + rows[:1]))
    more = facts_like(facts, [(0, R, N, last + 2), (N, 1, 3, last + 7), (N, 1, N + 1, last + 7)])
    return [*pieces, Quadruples(more.s, more.r, more.o, more.t, make_vocab(N + 2, R + 1), more.clock)]


@pytest.mark.parametrize(
    ("name", "more"), [*((name, {}) for name in MODELS), ("tango", {"runs": True}), ("tango", {"names": True})]
)
def test_answers_after_new_facts_equal_those_of_a_forecaster_made_from_all_of_them(
    name: str, more: dict[str, Any]
) -> None:
    forecaster = make(name, **more)
    for piece in grown(forecaster.facts):
        assert forecaster.observe(piece) > 0
        forecaster.forecast("e3", "r1")  # what this derives must not be used any more
    data = forecaster.dataset
    made = Forecaster(forecaster.model, data, forecaster.config, chances=forecaster.chances)
    check_same(ask(forecaster), ask(made))
    check_shares(forecaster)
    rows = np.stack([forecaster.facts.s, forecaster.facts.r, forecaster.facts.o, forecaster.facts.t], axis=1)
    new = rows[len(make_dataset(1, SNAPSHOTS).facts) :]
    assert len(np.unique(new, axis=0)) == len(new)


def test_a_table_of_questions_has_the_answers_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    forecaster = make("tango")
    asked = {"subject": ["e3", "e1", None], "relation": ["r1", "r0", "r2"], "object": [None, None, "e4"]}
    table = pa.table(asked)
    found = forecaster.forecast_table(table, top=N).to_pandas()
    monkeypatch.setattr(known, "SHARE", -1.0)
    whole = make("tango").forecast_table(table, top=N).to_pandas()
    assert found["answer"].tolist() == whole["answer"].tolist()
    assert found["chance"].tolist() == pytest.approx(whole["chance"].tolist(), rel=1e-9, abs=1e-12)


def test_new_weights_are_used_at_once() -> None:
    forecaster = make("tango")
    before = forecaster.forecast("e3", "r1", top=N)
    with torch.no_grad():
        for weight in forecaster.model.parameters():
            weight.add_(0.3 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)))
    after = forecaster.forecast("e3", "r1", top=N)
    again = Forecaster(forecaster.model, forecaster.dataset, forecaster.config, chances=forecaster.chances)
    assert [a.share for a in after.answers] != pytest.approx([a.share for a in before.answers])
    check_same([after], [again.forecast("e3", "r1", top=N)])


def test_lone_facts_say_nothing_about_when_the_history_ends() -> None:
    """The index drops them as the facts do; decades apart, in days."""
    facts = replace(make_dataset(1, SNAPSHOTS).facts, clock=Clock("day", "2024-01-01"))
    far = facts_like(facts, [(0, 0, 1, 40_000)])
    for some in (facts, concatenate([facts, far])):
        index = build_index(some)
        assert index.usual.t.tolist() == np.unique(some.usual.t).tolist()
    added, rows = build_index(facts).add(far)
    assert rows.tolist() == [0]
    assert added.usual.t.tolist() == np.unique(facts.t).tolist()
