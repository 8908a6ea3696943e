"""Chances of facts: one number wherever it is asked for, kept with a run, for every model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from conftest import N, dated, make_dataset, make_forecaster
from tangokg.errors import DataError, RunError
from tangokg.forecast import Forecaster, fit, load
from tangokg.forecast.chances import FILE, fit_chances
from tangokg.models import MODELS
from tangokg.quads.values import Dataset
from tangokg.snapshots.timeline import build_timeline
from tangokg.train import Interrupted

EVERY = pytest.mark.parametrize("name", MODELS)


def long_dataset() -> Dataset:
    return make_dataset(1, snapshots=24)


@EVERY
def test_a_fact_has_one_chance_however_it_is_asked_for(name: str) -> None:
    forecaster = make_forecaster(name, long_dataset())
    last = int(forecaster.facts.t.max())
    when: list[dict[str, Any]] = [{"at": last + 1}, {"at": last + 9}, {"by": last + 5}]
    for time in when:
        fact = forecaster.forecast("e3", "r1", "e5", **time).answers[0]
        assert 0 <= fact.chance <= 1
        asked: list[dict[str, Any]] = [
            {"subject": "e3", "relation": "r1"},
            {"relation": "r1", "object": "e5"},
            {"subject": "e3", "object": "e5"},
        ]
        for question in asked:
            answers = forecaster.forecast(**question, **time, top=N).answers
            same = [a.chance for a in answers if (a.subject, a.relation, a.object) == ("e3", "r1", "e5")]
            assert same == pytest.approx([fact.chance], rel=1e-6, abs=1e-12)


def test_a_longer_span_is_never_less_likely() -> None:
    forecaster = make_forecaster("frequency", long_dataset())
    last = int(forecaster.facts.t.max())
    chances = [forecaster.forecast("e3", "r1", "e3", by=last + n).answers[0].chance for n in range(1, 40, 3)]
    assert chances == sorted(chances)


def from_rows(rows: list[tuple[str, str, str, int]]) -> Forecaster:
    """A counter of a small table."""
    table = pa.table(dict(zip(("subject", "relation", "object", "time"), zip(*rows, strict=True), strict=True)))
    return fit(table, "recurrency", unit="step", verbose=False)


def test_what_happens_in_a_step_happens_until_it() -> None:
    """Where every step holds facts: with gaps, the chance of a step is for one that does."""
    forecaster = from_rows(
        [("abc"[(i + k) % 3], "r", "xyz"[i % 3 if k else 0], i) for i in range(40) for k in range(2)]
    )
    for s, o in (("a", "x"), ("b", "y"), ("c", "z")):
        for ahead in (1, 2, 4, 7):
            at, by = (forecaster.forecast(s, "r", o, **{key: 39 + ahead}) for key in ("at", "by"))
            assert at.happens is not None
            assert by.happens is not None
            assert at.happens <= by.happens + 1e-9


def test_a_small_table_is_no_reason_to_be_sure() -> None:
    """One who was seen once, beside three who are there every day: before, what was never seen had 99.7 %."""
    where = np.random.default_rng(0)
    rows = [(s, "visits", str(where.choice(list("xyz"))), i) for i in range(41) for s in "abc"]
    forecaster = from_rows([*rows, ("d", "visits", "w", 40)])
    for ahead in (1, 2, 10):
        for when in ({"at": 40 + ahead}, {"by": 40 + ahead}):
            found = forecaster.forecast("d", "visits", top=4, **when)  # type: ignore[arg-type]
            assert found.happens is not None
            assert 0.02 < found.happens < 0.999
            chance = {answer.name: answer.chance for answer in found.answers}
            assert chance["w"] == max(chance.values()), "it alone was seen"


def facts_of(forecaster: Forecaster, **question: Any) -> list[tuple[str, str, str]]:
    answers = forecaster.forecast(**question, top=10_000).answers
    chances = [answer.chance for answer in answers]
    assert chances == sorted(chances, reverse=True)
    for answer in answers[:3]:
        when = {key: question[key] for key in ("at", "by") if key in question}
        same = forecaster.forecast(answer.subject, answer.relation, answer.object, **when).answers[0]
        assert answer.chance == pytest.approx(same.chance, rel=1e-6, abs=1e-12)
        assert (answer.seen, answer.last) == (same.seen, same.last)
    found = [(answer.subject, answer.relation, answer.object) for answer in answers]
    assert len(set(found)) == len(found)
    return found


@EVERY
def test_events_are_ranked_by_their_chance(name: str) -> None:
    forecaster = make_forecaster(name, long_dataset())
    everything = facts_of(forecaster)
    assert len(everything) > 20
    of_one = facts_of(forecaster, subject="e3")
    assert all("e3" in (s, o) for s, _, o in of_one)
    assert {s == "e3" for s, _, _ in of_one} == {True, False}, "in either role"
    assert all(o == "e3" for _, _, o in facts_of(forecaster, object="e3"))
    assert all(r == "r2" for _, r, _ in facts_of(forecaster, relation="r2"))
    by = int(forecaster.facts.t.max()) + 6
    assert facts_of(forecaster, by=by)


@EVERY
def test_chances_are_kept_with_a_run(name: str, tmp_path: Path) -> None:
    forecaster = make_forecaster(name, long_dataset())
    forecaster.save(tmp_path / "run")
    assert (tmp_path / "run" / FILE).is_file()
    kept = load(tmp_path / "run", "cpu")
    (tmp_path / "run" / FILE).unlink()  # as an older version wrote it
    older = load(tmp_path / "run", "cpu")
    for again in (kept, older):
        found = again.forecast("e3", "r1", "e5").answers[0]
        assert found.chance == pytest.approx(forecaster.forecast("e3", "r1", "e5").answers[0].chance, rel=1e-5)


def test_training_fits_and_keeps_them(tmp_path: Path) -> None:
    forecaster = fit(long_dataset(), "frequency", out=tmp_path / "run")
    assert (tmp_path / "run" / FILE).is_file()
    assert load(tmp_path / "run").hazard.gap == forecaster.hazard.gap


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    make_forecaster("frequency").save(tmp_path / "run")
    (tmp_path / "run" / FILE).write_bytes(b"nothing")
    with pytest.raises(RunError, match=FILE):
        load(tmp_path / "run")


def test_chances_stay_when_facts_and_names_are_observed() -> None:
    forecaster = make_forecaster("frequency", long_dataset())
    before = forecaster.forecast("e3", "r1", "e5", at=20).answers[0]
    tensors = forecaster.chances.tensors()
    last = int(forecaster.facts.t.max())
    forecaster.observe(make_new(last))
    assert all((tensors[name] == x).all() for name, x in forecaster.chances.tensors().items())
    after = forecaster.forecast("e3", "r1", "e5", at=20).answers[0]
    assert after.chance == pytest.approx(before.chance, rel=1e-9)
    new = forecaster.forecast("nobody", "greets", "e1").answers[0]
    assert 0 < new.chance < 1


def make_new(last: int) -> Any:
    import pyarrow as pa

    columns = {"subject": ["nobody", "e0"], "relation": ["greets", "greets"], "object": ["e1", "nobody"]}
    return pa.table(columns | {"time": [last + 1, last + 2]})


@pytest.mark.parametrize("name", ["frequency", "recurrency", "tango"])
def test_calibration_asks_all_pairs_that_were_active(name: str) -> None:
    forecaster = make_forecaster(name, long_dataset())
    found = forecaster.calibration()
    assert list(found) == ["pair", "fact", "share", "raw"]
    assert 0 < found["pair"].happened.mean() < 1, "also of pairs without a fact"
    assert len(found["fact"]) == 10 * len(found["pair"])
    assert len(found["share"]) == len(found["raw"]) == 10 * found["pair"].happened.sum()
    assert (found["share"].happened == found["raw"].happened).all()
    assert all(((one.p >= 0) & (one.p <= 1)).all() for one in found.values())
    assert len(forecaster.calibration(recent=1)["pair"]) < len(found["pair"])
    assert len(forecaster.calibration(horizon=6.0)["pair"]) > 0
    with pytest.raises(DataError, match="the part is empty"):
        forecaster.calibration(forecaster.dataset.test.select(slice(0)))


def test_a_row_decades_away_changes_no_chance() -> None:
    facts = dated(long_dataset())
    lonely = replace(facts, before=facts.train.select(slice(0, 1)))
    assert lonely.before is not None
    lonely = replace(lonely, before=replace(lonely.before, t=lonely.before.t - 20_000))
    model = MODELS["frequency"].build(MODELS["frequency"].settings, build_timeline(facts.train), torch.Generator())
    plain, other = (fit_chances(model, data, torch.device("cpu")).tensors() for data in (facts, lonely))
    assert all(torch.equal(plain[name], other[name]) for name in plain)


def test_chances_of_other_weights_do_not_stay_with_a_run_that_was_stopped(tmp_path: Path) -> None:
    run: dict[str, Any] = {"dim": 4, "history": 2, "device": "cpu", "out": tmp_path / "run", "verbose": False}
    fit(long_dataset(), "tango-distmult", epochs=1, **run)
    assert (tmp_path / "run" / FILE).exists()
    with pytest.raises(Interrupted):
        fit(long_dataset(), "tango-distmult", epochs=9, resume=True, stop=lambda _: "stopped", **run)
    assert not (tmp_path / "run" / FILE).exists()
    assert 0 <= load(tmp_path / "run").forecast("e3", "r1", "e5").answers[0].chance <= 1


def test_a_span_begins_after_the_usual_facts_where_one_stands_alone() -> None:
    facts = dated(long_dataset()).facts
    many = facts.select(np.concatenate([np.tile(np.arange(len(facts)), 20), [0]]))
    many.t[-1] += 60 * 365
    forecaster = make_forecaster("frequency", many.split())
    last = float(facts.t.max())
    found = forecaster.forecast("e3", "r1", "e5", by=facts.clock.format(last + 5))
    assert found.by
    assert 0 <= found.answers[0].chance <= 1
    with pytest.raises(DataError, match="the span begins after the last fact"):
        forecaster.forecast("e3", "r1", "e5", by=facts.clock.format(last))


def test_questions_until_a_date_are_skipped_where_they_are_bad() -> None:
    forecaster = make_forecaster("frequency", long_dataset())
    last = int(forecaster.facts.t.max())
    questions = pa.table({"subject": ["e3", "nobody", "e4"], "relation": ["r1"] * 3})
    found = forecaster.forecast_table(questions, by=last + 3, top=1, skip_bad=True).to_pylist()
    assert [row["query"] for row in found] == [0, 2]
    alone = forecaster.forecast("e4", "r1", by=last + 3, top=1).answers[0]
    assert found[1]["chance"] == pytest.approx(alone.chance)


def test_objects_that_take_turns_are_each_likely_within_a_week() -> None:
    """The share is that of the next step, where one of three is due; until then each of them is."""
    rows = [("Ann", "visits", f"town{day % 3}", day) for day in range(90)]
    columns = dict(zip(("subject", "relation", "object", "time"), zip(*rows, strict=True), strict=True))
    forecaster = fit(pa.table({name: list(column) for name, column in columns.items()}), "frequency", verbose=False)
    step = [forecaster.forecast("Ann", "visits", f"town{n}").answers[0].chance for n in range(3)]
    week = [forecaster.forecast("Ann", "visits", f"town{n}", by=96).answers[0].chance for n in range(3)]
    assert max(step) > 0.7
    assert sorted(step)[1] < 0.3
    assert min(week) > 0.7
