"""A step is known only when it has ended: no question, at whatever time, knows a fact of its own step or later."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cli_runs import printed
from conftest import N, R, dated, facts_like, make_dataset, make_facts, make_forecaster, make_timeline
from tangokg.cli import main
from tangokg.forecast import Forecast, Forecaster, fit
from tangokg.forecast.answering import Answering
from tangokg.forecast.known import Known
from tangokg.forecast.questions import make_question
from tangokg.history.index import build_index
from tangokg.models import MODELS
from tangokg.quads import read_table
from tangokg.quads.adapt import adapt
from tangokg.quads.clock import Clock
from tangokg.quads.values import Quadruples, concatenate
from tangokg.snapshots.windows import windows_at

EVERY = pytest.mark.parametrize("name", MODELS)
FIRST, LAST = int(make_facts(1).t.min()), int(make_facts(1).t.max())
UNITS = ("step", "hour", "day", "week", "month", "year")


def later_is_otherwise(facts: Quadruples, step: int) -> Quadruples:
    """Other facts in ``step`` and after it."""
    later = facts.select(facts.t >= step)
    other = replace(later, s=(later.o + 1) % N, o=later.s, r=(later.r + 1) % R)
    return concatenate([facts.before(step), other, facts_like(facts, [(3, 1, N - 1, step), (0, 0, 5, step + 1)])])


def with_facts(forecaster: Forecaster, facts: Quadruples) -> Forecaster:
    """The same trained forecaster, which knows other facts."""
    nothing = facts.select(slice(0))
    dataset = replace(forecaster.dataset, train=facts, valid=nothing, test=nothing)
    return Forecaster(forecaster.model, dataset, forecaster.config, chances=forecaster.chances)


@EVERY
@given(at=st.floats(FIRST + 1, LAST + 3, exclude_max=True))
@settings(max_examples=3, deadline=None)
def test_a_question_at_any_time_knows_the_steps_before_its_own(name: str, at: float) -> None:
    forecaster = FORECASTERS.setdefault(name, make_forecaster(name))
    other = with_facts(forecaster, later_is_otherwise(forecaster.facts, int(np.floor(at))))
    for question in ASKED.values():
        same_answers(*(f.forecast(*question, at=at, top=MOST) for f in (forecaster, other)))


MOST = 2 * R * N * N  # answers: all of them, whatever is asked
ASKED = {
    "object": ("e3", "r1", None),
    "subject": (None, "r0", "e1"),
    "relation": ("e3", None, "e1"),
    "yes and no": ("e3", "r1", "e5"),
    "events of one": ("e3", None, None),
    "events of a relation": (None, "r1", None),
    "all events": (None, None, None),
}


def same_answers(one: Forecast, two: Forecast) -> None:
    """To the last digits: what is summed in another order may differ there."""
    assert (one.happens is None) == (two.happens is None)
    assert two.happens == (one.happens if one.happens is None else pytest.approx(one.happens, rel=1e-9, abs=1e-12))
    for a, b in zip(*(sorted(f.answers, key=lambda a: a.name) for f in (one, two)), strict=True):
        assert (a.name, a.seen, a.last) == (b.name, b.seen, b.last)
        assert b.share == pytest.approx(a.share, rel=1e-9, abs=1e-12)
        assert b.chance == pytest.approx(a.chance, rel=1e-9, abs=1e-12)


@EVERY
@given(by=st.floats(LAST + 1, LAST + 9), many=st.integers(1, 40))
@settings(max_examples=2, deadline=None)
def test_a_span_knows_nothing_of_itself(name: str, by: float, many: int) -> None:
    """Asked from a run that has facts inside the span, of which nothing but the steps before it may be used."""
    forecaster = FORECASTERS.setdefault(name, make_forecaster(name))
    rows = [(i % N, i % R, (5 * i + 2) % N, LAST + 1 + i % 12) for i in range(many)]
    other = with_facts(forecaster, concatenate([forecaster.facts, facts_like(forecaster.facts, rows)]))
    questions = [make_question(forecaster.facts, *question, by=by) for question in ASKED.values()]
    assert {question.step for question in questions} == {LAST + 1}
    answered = (Answering(f.model, Known(f.model, build_index(f.facts)), f.chances) for f in (forecaster, other))
    for one, two in zip(*(answering.answer(questions, MOST) for answering in answered), strict=True):
        same_answers(one, two)
        assert one.by


FORECASTERS: dict[str, Forecaster] = {}


@given(at=st.floats(FIRST + 1, LAST + 3), unit=st.sampled_from(UNITS))
@settings(max_examples=15, deadline=None)
def test_all_questions_of_one_step_have_one_answer(at: float, unit: str) -> None:
    data = make_dataset(1) if unit == "step" else dated(make_dataset(1), unit)
    forecaster = make_forecaster("recurrence", data)
    on_grid, inside = (forecaster.forecast("e3", "r1", at=t, top=N) for t in (int(np.floor(at)), at))
    assert inside.answers == on_grid.answers


@given(horizon=st.floats(0.01, 12), target=st.integers(0, 8))
@settings(max_examples=60, deadline=None)
def test_a_horizon_of_any_length_knows_what_has_ended_by_then(horizon: float, target: int) -> None:
    """Step j is known where it ends, at j + 1, no later than a horizon before the end of the target, at t + 1."""
    timeline = make_timeline(1)
    windows = windows_at(timeline, torch.tensor([target]), horizon)
    t = timeline.t.tolist()
    ended = [j for j in range(target) if t[j] + 1 <= t[target] + 1 - horizon]
    assert windows.known.tolist() == [len(ended)]


STAMPS = [f"2024-{m:02}-{d:02}T12:00" for m in (1, 2) for d in range(1, 29)]
QUESTIONS = {"day": ("2024-02-28T09:00", "2024-02-28"), "week": ("2024-02-27", "2024-02-26")}


def table(stamps: list[str]) -> pa.Table:
    """Ann calls Bob, but Cid last of all."""
    called = ["Bob"] * (len(stamps) - 1) + ["Cid"]
    return pa.table(
        {"subject": ["Ann"] * len(stamps), "relation": ["calls"] * len(stamps), "object": called, "time": stamps}
    )


@pytest.mark.parametrize("unit", QUESTIONS)
def test_a_fact_later_in_the_step_answers_nothing(
    unit: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the command line, in Python, from a table of questions and after observing."""
    events = table(STAMPS)
    pa.csv.write_csv(events, tmp_path / "events.csv")
    run, (inside, start) = tmp_path / "run", QUESTIONS[unit]
    words = ["train", str(tmp_path / "events.csv"), "--model", "frequency", "--unit", unit, "--out", str(run)]
    assert main(["-q", *words]) == 0
    (tmp_path / "questions.csv").write_text(f"subject,relation,time\nAnn,calls,{inside}\n")
    answers = printed(capsys, "forecast", str(run), "Ann", "calls", "--at", inside)["answers"]
    rows = printed(capsys, "forecast", str(run), "--queries", str(tmp_path / "questions.csv"))
    observed = fit(read_table(table([*STAMPS[:-7], STAMPS[-1]]), unit=unit), "frequency")
    observed.observe(events)
    found: list[dict[str, Any]] = [a for a in answers if a["name"] == "Cid"]
    found += [row for row in rows if row["answer"] == "Cid"]
    found += [vars(a) for a in observed.forecast("Ann", "calls", at=inside).answers if a.name == "Cid"]
    assert [(a["seen"], a["last"]) for a in found] == [(0, None)] * 3
    assert all(a["share"] < 0.01 for a in found)
    bob = next(a for a in answers if a["name"] == "Bob")
    assert bob["last"] == max(stamp for stamp in STAMPS if stamp < start) + ":00", "the moment of the fact"


def test_facts_of_a_coarser_clock_are_known_when_their_step_has_ended() -> None:
    facts = replace(facts_like(make_facts(1), [(0, 0, 1, 0)]), clock=Clock("week", "2024-01-01"))
    days = Clock("day", "2024-01-01")
    assert adapt(facts, facts.vocab, days).t.tolist() == [6]
