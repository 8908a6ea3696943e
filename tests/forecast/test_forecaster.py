"""Answers are the model's own probabilities with names on them, from facts before the time asked for alone."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch import Tensor

from conftest import N, R, equal, facts_like, make_dataset, make_forecaster
from tangokg.errors import DataError
from tangokg.forecast import Forecast, Forecaster
from tangokg.models import MODELS, Model
from tangokg.quads.values import Dataset, Quadruples, concatenate
from tangokg.quads.vocabulary import Vocabulary
from tangokg.rank import evaluate, horizon, inductive
from tangokg.snapshots.timeline import Timeline, build_timeline
from tangokg.snapshots.windows import Queries, Windows
from tangokg.solve import ADAPTIVE, SOLVERS

EVERY = pytest.mark.parametrize("name", MODELS)


def chances(forecaster: Forecaster, s: int, r: int, t: float) -> Tensor:
    """The model asked without a forecaster: probabilities (N,) of the objects of (s, r) in the step of ``t``."""
    facts, step = forecaster.dataset.facts, float(np.floor(t))
    known = len({x for x in facts.t.tolist() if x < step})
    windows = Windows(torch.tensor([known]), torch.tensor([step], dtype=torch.float64))
    ask, model = torch.tensor([s]), forecaster.model
    with torch.no_grad():
        encoded = model.encode(build_timeline(facts), windows)
        scores = model.score(encoded, Queries(torch.tensor([0]), ask, torch.tensor([r]), ask))[0]  # (N,)
    if type(model).probabilities is not Model.probabilities:
        return model.probabilities(scores[None])[0]
    return (scores - scores.max()).exp() / (scores - scores.max()).exp().sum()


def check(found: Forecast, expected: Tensor, prefix: str) -> None:
    """All candidates in the order of these probabilities; chances are no larger than shares."""
    p = {f"{prefix}{i}": x for i, x in enumerate(expected.tolist())}
    assert sum(p.values()) == pytest.approx(1, abs=1e-6)
    assert {answer.name for answer in found.answers} == set(p)
    ordered = [p[answer.name] for answer in found.answers]
    assert ordered == pytest.approx(sorted(ordered, reverse=True), rel=1e-6, abs=1e-12)
    if found.asked == "relation":
        assert [answer.share for answer in found.answers] == pytest.approx(ordered, rel=1e-6, abs=1e-12)
    else:
        assert found.happens is not None
        assert all(0 <= answer.share <= 1 for answer in found.answers)
    if found.asked == "object":
        for answer in found.answers:
            assert answer.chance == pytest.approx(answer.share * (found.happens or 0.0), rel=1e-9)


def times_of(facts: Quadruples) -> list[float]:
    """Inside a step with facts, between two such, at an observed one, at the second of all, and beyond the last."""
    times = np.unique(facts.t).tolist()
    gap = next(a for a, b in pairwise(times[5:]) if b > a + 1)
    return [gap + 0.25, gap + 1.5, times[-2], times[1] + 0.999, times[-1] + 0.5, times[-1] + 40]


@EVERY
def test_answers_stand_in_the_order_of_the_models_probabilities(name: str) -> None:
    forecaster = make_forecaster(name)
    for t in times_of(forecaster.facts):
        for s, r in ((0, 0), (3, 1), (N - 1, 2)):
            found = forecaster.forecast(f"e{s}", f"r{r}", at=t, top=N)
            assert (found.subject, found.relation, found.object, found.asked) == (f"e{s}", f"r{r}", "?", "object")
            check(found, chances(forecaster, s, r, t), "e")


@EVERY
def test_names_without_any_fact_can_be_asked_about(name: str) -> None:
    dataset = make_dataset(1)
    vocab = Vocabulary((*dataset.vocab.entities, f"e{N}", f"e{N + 1}"), dataset.vocab.relations)
    forecaster = make_forecaster(name, dataset.with_vocab(vocab))
    t = float(forecaster.facts.t.max()) + 1
    check(forecaster.forecast(f"e{N}", "r1", at=t, top=N + 2), chances(forecaster, N, 1, t), "e")
    for question in ((None, "r1", f"e{N}"), (f"e{N}", None, f"e{N + 1}"), (f"e{N}", "r1", f"e{N + 1}")):
        assert all(0 <= answer.chance <= 1 for answer in forecaster.forecast(*question, at=t).answers)


@EVERY
def test_an_asked_subject_is_the_reciprocal_query(name: str) -> None:
    forecaster = make_forecaster(name)
    for t in times_of(forecaster.facts):
        found = forecaster.forecast(relation="r2", object="e4", at=t, top=N)
        assert (found.subject, found.asked) == ("?", "subject")
        check(found, chances(forecaster, 4, 2 + R, t), "e")


@EVERY
def test_an_asked_relation_follows_from_how_likely_it_brings_the_object(name: str) -> None:
    """p(r | s, o) in proportion to p(o | s, r) p(r | s), and p(r | s) to how often s had r, each fact once."""
    forecaster = make_forecaster(name)
    facts = forecaster.facts
    rows = {tuple(row) for row in np.stack([facts.s, facts.r, facts.o, facts.t], 1).tolist()}
    for t in times_of(facts):
        for s, o in ((0, 5), (3, 3)):
            own = np.array([sum(f[0] == s and f[1] == r and f[3] < int(t) for f in rows) for r in range(R)])
            everyone = np.array([1 + sum(f[1] == r and f[3] < int(t) for f in rows) for r in range(R)])
            likelihood = np.array([float(chances(forecaster, s, r, t)[o]) for r in range(R)])
            joint = np.maximum(likelihood, 1e-38) * (own + everyone / everyone.sum())
            found = forecaster.forecast(f"e{s}", object=f"e{o}", at=t, top=R)
            assert (found.relation, found.asked) == ("?", "relation")
            check(found, torch.from_numpy(joint / joint.sum()), "r")


def disturbed(facts: Quadruples, t: float) -> Quadruples:
    """Other facts in the step of ``t`` and after it, and one more there."""
    step = int(np.floor(t))
    later = facts.select(facts.t >= step)
    other = replace(later, s=(later.o + 1) % N, o=later.s, r=(later.r + 1) % R)
    return concatenate([facts.before(step), other, facts_like(facts, [(3, 1, N - 1, step)])])


def with_facts(forecaster: Forecaster, facts: Quadruples) -> Forecaster:
    nothing = facts.select(slice(0))
    return Forecaster(forecaster.model, Dataset(facts, nothing, nothing), forecaster.config, chances=forecaster.chances)


def asked_all(forecaster: Forecaster, t: float) -> tuple[dict[str, float], dict[str, Any]]:
    """Share and chance, and evidence, of every answer to three questions."""
    questions: Any = ({"subject": "e3", "relation": "r1"}, {"relation": "r0", "object": "e1"})
    found = [forecaster.forecast(**q, at=t, top=N) for q in (*questions, {"subject": "e3", "object": "e3"})]
    answers = {f"{f.asked} {a.name}": a for f in found for a in f.answers}
    p = {f"share {k}": a.share for k, a in answers.items()} | {f"chance {k}": a.chance for k, a in answers.items()}
    return p, {k: (a.seen, a.last) for k, a in answers.items()}


@EVERY
def test_no_answer_depends_on_a_fact_of_the_step_asked_for_or_later(name: str) -> None:
    forecaster = make_forecaster(name)
    for t in times_of(forecaster.facts):
        p, evidence = asked_all(forecaster, t)
        other, other_evidence = asked_all(with_facts(forecaster, disturbed(forecaster.facts, t)), t)
        assert other == pytest.approx(p, rel=1e-9, abs=1e-12)
        assert other_evidence == evidence
        last = float(forecaster.facts.t[forecaster.facts.t < np.floor(t)].max())
        earlier, earlier_evidence = asked_all(with_facts(forecaster, disturbed(forecaster.facts, last)), t)
        assert earlier != pytest.approx(p, rel=1e-3, abs=1e-6)
        assert earlier_evidence != evidence


@EVERY
def test_repeating_facts_changes_no_answer(name: str) -> None:
    forecaster = make_forecaster(name)
    facts = forecaster.facts
    twice = with_facts(forecaster, concatenate([facts, facts, facts.select(facts.s == 3)]))
    for t in times_of(facts)[:2]:
        assert asked_all(twice, t) == asked_all(forecaster, t)


def test_top_answers_are_the_first_of_all() -> None:
    forecaster = make_forecaster()
    everything = forecaster.forecast("e0", "r0", top=N).answers
    assert len(everything) == N
    for top in (1, 5, N + 100):
        assert forecaster.forecast("e0", "r0", top=top).answers == everything[:top]
    for top in (0, -3):
        with pytest.raises(DataError, match=f"top must be at least 1, found {top}"):
            forecaster.forecast("e0", "r0", top=top)


def test_the_time_is_one_usual_gap_after_the_last_fact_unless_given() -> None:
    forecaster = make_forecaster()
    times = np.unique(forecaster.facts.t)
    t = float(times[-1] + np.sort(np.diff(times))[(len(times) - 2) // 2])  # the lower median: a gap that there is
    assert forecaster.forecast("e0", "r0") == forecaster.forecast("e0", "r0", at=t)


def test_a_time_so_far_away_that_the_state_overflows_is_an_error() -> None:
    with pytest.raises(DataError, match=r"too far beyond the last fact, \d+.*Ask for an earlier time"):
        make_forecaster("tango-tucker", reach=0.0).forecast("e0", "r0", at=1e90)


def test_a_forecast_is_plain_values_and_readable_text() -> None:
    forecaster = make_forecaster("frequency")
    facts = forecaster.facts
    s, r = f"e{facts.s[0]}", f"r{facts.r[0]}"
    found = forecaster.forecast(s, r, top=3)
    values = json.loads(json.dumps(found.to_dict()))
    assert values == found.to_dict()
    assert [answer["name"] for answer in values["answers"]] == [answer.name for answer in found.answers]
    lines = str(found).splitlines()
    assert lines[0] == f"({s}, {r}, ?) at {found.at}"
    assert lines[1].endswith(f"({s}, {r}, ?) has a fact")
    assert [line.split()[0] for line in lines[2:]] == ["1.", "2.", "3."]
    best = found.answers[0]
    assert best.seen > 0
    assert f"{best.name}  (seen {best.seen} times, last {best.last})" in lines[2]


def whole(forecaster: Forecaster, part: Quadruples, **options: Any) -> dict[str, Any]:
    """The evaluator on the timeline of all facts, at the times of ``part``."""
    timeline = build_timeline(forecaster.facts)
    target = torch.isin(timeline.t, torch.from_numpy(part.t.astype(np.float64))).nonzero()[:, 0]
    return evaluate(forecaster.model, timeline, target, **options).to_dict()


@EVERY
def test_evaluate_is_the_evaluator_on_the_whole_timeline(name: str) -> None:
    forecaster = make_forecaster(name)
    data = forecaster.dataset
    assert forecaster.evaluate().to_dict() == whole(forecaster, data.test)
    assert forecaster.evaluate(data.valid).to_dict() == whole(forecaster, data.valid)
    protocol = horizon(3.0)
    assert forecaster.evaluate(data.test, protocol).to_dict() == whole(forecaster, data.test, protocol=protocol)


def test_all_facts_are_sorted_once_for_every_part_of_a_run_and_again_after_new_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes: list[int] = []

    def counted(facts: Quadruples) -> Timeline:
        sizes.append(len(facts))
        return build_timeline(facts)

    monkeypatch.setattr("tangokg.forecast.forecaster.build_timeline", counted)
    forecaster = make_forecaster("frequency")
    data, number = forecaster.dataset, len(forecaster.facts)
    for part in (None, "valid", data.test, "test"):
        forecaster.evaluate(part, horizon(2.0))
    assert [size for size in sizes if size >= number] == [number]
    forecaster.observe(facts_like(data.test, [(0, 0, 1, int(data.test.t.max()) + 1)]))
    forecaster.evaluate()
    assert [size for size in sizes if size >= number] == [number, number + 1]


def test_seen_are_the_entities_of_the_training_part() -> None:
    forecaster = make_forecaster()
    train = forecaster.dataset.train
    assert forecaster.seen.tolist() == [i in {*train.s.tolist(), *train.o.tolist()} for i in range(N)]
    metrics = forecaster.evaluate(protocol=inductive(forecaster.seen))
    assert not (forecaster.seen[metrics.s] & forecaster.seen[metrics.answer]).any()


def test_only_the_facts_given_are_ranked() -> None:
    """Others that hold at the same times are known to be true, and are not asked."""
    forecaster = make_forecaster()
    test = forecaster.dataset.test
    some = test.select(np.array([0, 2]))
    expected = {(s, r, o) for s, r, o in zip(some.s, some.r, some.o, strict=True)}
    expected |= {(o, r + R, s) for s, r, o in expected}
    found, everything = forecaster.evaluate(some), forecaster.evaluate(test)
    assert set(zip(found.s.tolist(), found.r.tolist(), found.answer.tolist(), strict=True)) == expected
    ranks = [dict(zip(zip(m.s.tolist(), m.r.tolist(), m.answer.tolist(), m.t.tolist(), strict=True),
                      m.ranks["time-aware"].realistic.tolist(), strict=True)) for m in (found, everything)]  # fmt: skip
    assert ranks[0].items() <= ranks[1].items()
    assert len(ranks[0]) < len(ranks[1])


@EVERY
def test_facts_from_elsewhere_with_new_names_are_ranked(name: str) -> None:
    forecaster = make_forecaster(name)
    facts, t = forecaster.facts, int(forecaster.facts.t.max()) + 1
    new = facts_like(facts, [(0, 0, 1, t), (1, 1, 0, t + 2)])
    renamed = replace(new, vocab=Vocabulary(("nobody", "e4"), ("r2", "greets")))
    metrics = forecaster.evaluate(renamed)
    assert sorted(zip(metrics.t.tolist(), metrics.s.tolist(), metrics.answer.tolist(), strict=True)) == [
        (t, 4, N), (t, N, 4), (t + 2, 4, N), (t + 2, N, 4),
    ]  # fmt: skip
    assert metrics.num_relations == R + 1
    assert forecaster.facts is facts, "evaluating adds nothing to what is known"


def test_an_empty_part_cannot_be_evaluated() -> None:
    data = make_dataset(1)
    forecaster = make_forecaster("frequency", replace(data, test=data.test.select(slice(0))))
    with pytest.raises(DataError, match=r"no facts to evaluate: the part is empty. Split the data with a test share"):
        forecaster.evaluate()


def test_evaluating_leaves_answers_as_they_are() -> None:
    forecaster = make_forecaster()
    before = {name: tensor.clone() for name, tensor in forecaster.model.state_dict().items()}
    expected = forecaster.forecast("e0", "r0")
    forecaster.evaluate()
    assert forecaster.forecast("e0", "r0") == expected
    assert all(
        equal(tensor.double(), before[name].double(), 0) for name, tensor in forecaster.model.state_dict().items()
    )


def test_what_python_shows_is_short_and_says_what_it_is() -> None:
    forecaster = make_forecaster("frequency")
    data = forecaster.dataset
    shown = [repr(x) for x in (data.train, data, forecaster, forecaster.evaluate(data.valid))]
    assert f"{len(data.train):,} facts" in shown[0]
    assert f"train {len(data.train):,}, valid {len(data.valid):,}" in shown[1]
    assert "'frequency'" in shown[2]
    assert "time-aware" in shown[3]
    assert "mrr" in shown[3]
    assert all(len(text) < 400 for text in shown)


@pytest.mark.parametrize("solver", SOLVERS)
def test_answers_do_not_depend_on_what_else_is_asked(solver: str) -> None:
    """Adaptive solvers would share their steps among the windows of a batch, so they get one window at a time."""
    forecaster = make_forecaster("tango", solver=solver, rtol=1e-2, atol=1e-2)
    last, subjects = int(forecaster.facts.t.max()), ["e1", "e2", "e3", "e4"]
    rows: dict[str, list[Any]] = {
        "subject": subjects,
        "relation": ["r0", "r1", "r0", "r1"],
        "time": [last + 1, last - 1, last + 9, last - 5],
    }
    together = forecaster.forecast_table(pa.table(rows), top=3).to_pylist()
    metrics = forecaster.evaluate(forecaster.facts, windows_at_once=8).ranks["raw"].realistic
    one_by_one = forecaster.evaluate(forecaster.facts, windows_at_once=1).ranks["raw"].realistic
    assert torch.equal(metrics, one_by_one)
    for i, subject in enumerate(subjects):
        alone = forecaster.forecast(subject, rows["relation"][i], at=rows["time"][i], top=3)
        for name in ("share", "chance"):
            found = [row[name] for row in together if row["query"] == i]
            assert found == pytest.approx([getattr(answer, name) for answer in alone.answers], abs=1e-14)


@pytest.mark.parametrize("solver", ADAPTIVE)
def test_adaptive_solvers_evaluate_window_by_window(solver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    forecaster, sizes = make_forecaster("tango", solver=solver), []
    encode = forecaster.model.encode

    def spy(timeline: Timeline, windows: Windows) -> Any:
        sizes.append(len(windows))
        return encode(timeline, windows)

    monkeypatch.setattr(forecaster.model, "encode", spy)
    forecaster.evaluate(forecaster.facts, windows_at_once=8)
    assert set(sizes) == {1}
