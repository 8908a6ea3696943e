"""Reasons: the facts named are those without which the model gives an answer less, by what is stated."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from conftest import N, R, dated, equal, facts_like, make_dataset, make_forecaster
from tangokg.errors import ConfigError
from tangokg.forecast import Forecaster, removing, why
from tangokg.forecast.reasons import Reasons
from tangokg.forecast.removing import BETWEEN, OWN, PATHS, Fact, considered
from tangokg.forecast.why import LEAST
from tangokg.history.pairs import PairScorer
from tangokg.history.partners import find_partners
from tangokg.models import MODELS
from tangokg.quads.values import Dataset, Quadruples
from tangokg.snapshots.timeline import build_timeline
from tangokg.snapshots.windows import Queries, Windows

EVERY = pytest.mark.parametrize("name", MODELS)
ASKED: list[dict[str, Any]] = [
    {"subject": "e3", "relation": "r1"},
    {"relation": "r0", "object": "e1"},
    {"subject": "e3", "object": "e3"},
    {"subject": "e3", "relation": "r1", "object": "e3"},
    {"subject": "e3"},
]


def without(facts: Quadruples, removed: set[Fact]) -> Quadruples:
    rows = zip(facts.s.tolist(), facts.r.tolist(), facts.o.tolist(), facts.t.tolist(), strict=True)
    return facts.select(np.array([row not in removed for row in rows]))


def ids(facts: Quadruples, one: Any) -> Fact:
    names = facts.vocab
    s, r, o = names.entity_id(one.subject), names.relation_id(one.relation), names.entity_id(one.object)
    return s, r, o, int(facts.clock.parse(one.time))


def share(forecaster: Forecaster, asked: str, one: Any, step: float, removed: set[Fact]) -> float:
    """The model asked by itself, from facts some of which never happened."""
    facts, names = without(forecaster.facts, removed), forecaster.facts.vocab
    s, r, o = names.entity_id(one.subject), names.relation_id(one.relation), names.entity_id(one.object)
    s, r, o = (o, r + R, s) if asked == "subject" else (s, r, o)
    timeline = build_timeline(facts)
    windows = Windows(torch.tensor([timeline.before(step)]), torch.tensor([step]).double())
    ask = torch.tensor([s])
    with torch.no_grad():
        scores = forecaster.model.score(
            forecaster.model.encode(timeline, windows), Queries(torch.tensor([0]), ask, torch.tensor([r]), ask)
        )
    return float(forecaster.model.probabilities(scores)[0, o])


@pytest.mark.parametrize(("name", "more"), [*((name, {}) for name in MODELS), ("tango", {"runs": True})])
@pytest.mark.parametrize("question", ASKED, ids=lambda question: "-".join(question))
def test_a_fact_is_a_reason_by_what_the_model_loses_without_it(
    name: str, more: dict[str, Any], question: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the facts within sight alone, where the model looks at no others, and from all of them otherwise."""
    monkeypatch.setattr(why, "WORTH", 1.0)
    monkeypatch.setattr(why, "EQUAL", 1e-12)
    forecaster = make_forecaster(name, **more)
    step = float(np.unique(forecaster.facts.t)[-2])
    found = forecaster.forecast(**question, at=step + 0.5, why=2, top=3)
    assert [answer.reasons is not None for answer in found.answers] == [True, True, False][: len(found.answers)]
    for answer in found.answers[:2]:
        told = answer.reasons
        assert told is not None
        assert told.rest + sum(one.share for one in told.facts) == pytest.approx(1)
        assert all(one.share > 0 for one in told.facts)
        assert [one.share for one in told.facts] == sorted((one.share for one in told.facts), reverse=True)
        assert told.model_share == pytest.approx(share(forecaster, found.asked, answer, step, set()), abs=1e-12)
        facts = [ids(forecaster.facts, one) for one in told.facts]
        assert all(t < step for *_, t in facts), "a reason lies at or after the step asked about"
        for one, fact in zip(told.facts, facts, strict=True):
            left = share(forecaster, found.asked, answer, step, {fact})
            assert one.without == pytest.approx(left, abs=1e-12)
            assert left < told.model_share
            assert one.before == step - fact[3]
        assert told.without == pytest.approx(share(forecaster, found.asked, answer, step, set(facts)), abs=1e-12)


LOCAL = ["tango", "tango-tucker", "tango-distmult", "tango-authors", "frequency", "recurrence"]  # and some more


def one_by_one(number: int = 300) -> Dataset:
    """One fact a step: each that is taken away takes its snapshot along."""
    facts = make_dataset().facts
    rows = [(i % 3 if i % 4 else 4, i % R, (7 * i + 5) % N, i) for i in range(number)]
    train, valid, test = (facts_like(facts, rows[a:b]) for a, b in ((0, 200), (200, 250), (250, number)))
    return Dataset(train, valid, test, "sparse")


@pytest.mark.parametrize(("name", "sparse"), [*((name, False) for name in MODELS), *((name, True) for name in LOCAL)])
def test_facts_out_of_sight_change_nothing(name: str, sparse: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """So reasons need not the whole history."""
    monkeypatch.setattr(removing, "LAST", 20)
    monkeypatch.setattr(why, "WORTH", 0.7)
    forecaster = make_forecaster(name, one_by_one() if sparse else make_dataset(2, snapshots=60))
    used: list[int] = []

    def spy(known: Quadruples, *removed: Any) -> removing.History:
        used.append(len(known))
        return removing.history_without(known, *removed)

    monkeypatch.setattr(why, "history_without", spy)
    found = forecaster.forecast("e4", "r1", why=1)
    monkeypatch.setattr(why, "WORTH", 0.0)
    from_all = forecaster.forecast("e4", "r1", why=1)
    if name in LOCAL:
        assert used[1] < 0.7 * used[-1] == pytest.approx(0.7 * len(forecaster.facts)), "the whole history was used"
    a, b = (answers.answers[0].reasons for answers in (found, from_all))
    assert a is not None
    assert b is not None
    near = 1e-12 if name in LOCAL else 2 * why.EQUAL  # others look a little further: as near as the check asks
    lost = [{ids(forecaster.facts, one): one.without for one in told.facts} for told in (a, b)]
    assert name not in LOCAL or lost[0].keys() == lost[1].keys()
    for fact in lost[0].keys() & lost[1].keys():
        assert lost[0][fact] == pytest.approx(lost[1][fact], rel=near)
    assert lost[0].keys() != lost[1].keys() or a.without == pytest.approx(b.without, rel=near)


@EVERY
def test_every_fact_between_both_that_raised_an_answer_is_told(name: str) -> None:
    forecaster = make_forecaster(name)
    facts, told = forecaster.facts, 0
    for s, r in ((0, 0), (3, 1), (7, 2)):
        found = forecaster.forecast(f"e{s}", f"r{r}", at=float(facts.t.max() + 1), top=N, why=N)
        step = float(facts.t.max() + 1)
        for answer in found.answers:
            assert answer.reasons is not None
            o = facts.vocab.entity_id(answer.object)
            named = {ids(facts, one) for one in answer.reasons.facts}
            told += len(named)
            for fact in set(considered(facts.select(np.argsort(facts.t, kind="stable")), s, o)) - named:
                if answer.reasons.facts:  # else all of them together lowered it
                    left = share(forecaster, "object", answer, step, {fact})
                    assert answer.reasons.model_share - left <= LEAST * answer.reasons.model_share + 1e-12
    assert bool(told) == forecaster.model.looks_back


@EVERY
def test_a_model_that_does_not_look_back_says_so(name: str) -> None:
    forecaster = make_forecaster(name)
    told = forecaster.forecast("e3", "r1", why=True).answers[0].reasons
    assert told is not None
    assert ("does not look at earlier facts" in told.note) != forecaster.model.looks_back
    if not forecaster.model.looks_back:
        assert (told.facts, told.rest) == ((), 1.0)
        assert "does not look at earlier facts" in str(told)


def test_the_facts_considered_are_the_last_between_both_of_the_subject_and_on_paths() -> None:
    facts = make_dataset().facts
    rows = [(0, 0, 1, t) for t in range(BETWEEN + 5)] + [(1, 1, 0, 90)]  # both, the first five too old
    rows += [(5, 2, 0, 100 + t) for t in range(OWN + 2)]  # the subject's own
    rows += [(0, 0, 2, 50), (3, 0, 0, 51), (2, 1, 1, 40), (1, 1, 3, 30), (0, 0, 4, 60), (6, 0, 7, 70)]
    known = facts_like(facts, sorted(rows, key=lambda row: row[3]))
    expected = {row for row in rows if {row[0], row[2]} == {0, 1}} - set(rows[:6])
    expected |= {(5, 2, 0, 100 + t) for t in range(2, OWN + 2)}
    expected |= {(0, 0, 2, 50), (2, 1, 1, 40), (3, 0, 0, 51), (1, 1, 3, 30)}
    found = considered(known, 0, 1)
    assert set(found) == expected
    assert len(found) == len(expected)
    many = [(0, 0, x, x) for x in range(2, 12)] + [(x, 0, 1, x) for x in range(2, 12)]
    known = facts_like(facts, sorted(many, key=lambda row: row[3]))
    paths = set(considered(known, 0, 1)) - {row for row in many if row[0] == 0}
    assert paths == {(x, 0, 1, x) for x in range(12 - PATHS, 12)}


def test_what_single_events_add_is_the_additive_part_exactly() -> None:
    """The terms of a pair add up to its share of u_r . g, from a slow sum over events."""
    forecaster = make_forecaster("tango")
    model: Any = forecaster.model
    timeline = build_timeline(forecaster.facts)
    windows = Windows(torch.tensor([len(timeline)]), timeline.t[-1:] + 2)
    s, r = torch.cartesian_prod(torch.arange(N), torch.arange(2 * R)).T
    queries = Queries(torch.zeros_like(s), s, r, s)
    with torch.no_grad():
        terms = model.terms(model.encode(timeline, windows), queries)
        partners = find_partners(timeline, windows, queries, float(model.gap))
        scorer = next(iter(model.heads))
        assert isinstance(scorer, PairScorer)
        query, z, _ = partners.pairs()
        from tangokg.history.occurrences import meetings_of
        from tangokg.history.statistics import count

        g = scorer.add_events(timeline.derive(count, meetings_of, float(model.gap), scorer.out.dtype), partners)
        expected = (scorer.asked[r[query]] * g[z]).sum(1)  # (P,)
    total = torch.zeros(len(s) * N, dtype=torch.float64).index_add_(0, terms.query * N + terms.o, terms.value)
    assert equal(total[query * N + partners.past.o[z]], expected, 1e-12)
    assert len(terms.value) > len(expected) > 0
    for one in range(len(terms.value)):  # each term is of an event between subject and candidate
        edge = terms.edge[one]
        assert (timeline.s[edge], timeline.o[edge]) == (s[terms.query[one]], terms.o[one])
    found = forecaster.forecast("e3", "r1", why=True).answers[0].reasons
    assert found is not None
    between = [one for one in found.facts if {one.subject, one.object} == {found.subject, found.object}]
    assert all((one.adds is not None) == (one in between) for one in found.facts)


@pytest.mark.parametrize("name", ["tango", "frequency"])
def test_reasons_are_data_sentences_and_tables(name: str) -> None:
    hidden = "Ann \x1b[31m\n<b>"
    small = dated(make_dataset(1))
    vocab = replace(small.vocab, entities=tuple(hidden if e == "e3" else e for e in small.vocab.entities))
    forecaster = make_forecaster(name, small.with_vocab(vocab))
    found = forecaster.forecast(hidden, "r1", why=True, top=N)
    with_reasons = [answer for answer in found.answers if answer.reasons is not None]
    assert with_reasons == list(found.answers[:3])
    found = forecaster.forecast(hidden, "r1", why=N, top=N)
    of_all = [answer.reasons for answer in found.answers if answer.reasons and answer.reasons.facts]
    told: Reasons | None = next(own for own in of_all if hidden in (own.facts[0].subject, own.facts[0].object))
    assert told is not None
    one = told.facts[0]
    days = "day" if one.before == 1 else "days"
    assert f"{one.relation} " in told.sentences()[0]
    assert f"{one.time} ({one.before:g} {days} before): {one.share:.0%}" in told.sentences()[0]
    for text in (str(told), str(found), told._repr_html_(), found._repr_html_()):
        assert "\x1b" not in text
        assert "\\x1b[31m\\n" in text
    assert "<b>" not in told._repr_html_()
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["answers"][0]["reasons"]["facts"] == [vars(x) for x in found.answers[0].reasons.facts]  # type: ignore[union-attr]
    frame = told.to_pandas()
    assert frame["share"].sum() + frame.attrs["rest"] == pytest.approx(1)
    assert list(frame["time"]) == [x.time for x in told.facts]
    assert "reasons" not in found.to_pandas().columns
    empty = Reasons("a", "b", "c", 0.1, (), 1.0, 0.1, "day", "nothing")
    assert len(empty.to_pandas()) == 0
    with pytest.raises(ConfigError, match="why must not be negative"):
        forecaster.forecast(hidden, "r1", why=-1)


def test_a_table_of_questions_has_reasons_as_json() -> None:
    forecaster = make_forecaster("frequency")
    questions = {"subject": ["e3", "e1"], "relation": ["r1", "r0"]}
    import pyarrow as pa

    table = forecaster.forecast_table(pa.table(questions), top=2, why=1)
    rows = table.to_pylist()
    assert [row["reasons"] is not None for row in rows] == [True, False, True, False]
    expected = forecaster.forecast("e3", "r1", why=1).answers[0].reasons
    assert expected is not None
    assert json.loads(rows[0]["reasons"]) == json.loads(json.dumps(expected.to_dict()))
    assert "reasons" not in forecaster.forecast_table(pa.table(questions), top=2).column_names


@EVERY
def test_the_only_fact_may_be_taken_away(name: str) -> None:
    facts = facts_like(make_dataset().facts, [(0, 0, 1, 1)])
    empty = facts.select(slice(0))
    forecaster = make_forecaster(name, Dataset(facts, empty, empty, "one"))
    told = forecaster.forecast("e0", "r0", at=3, why=1).answers[0].reasons
    assert told is not None
    assert told.rest + sum(one.share for one in told.facts) == pytest.approx(1)
