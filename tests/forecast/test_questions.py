"""Questions by name: what is asked, when, and what was seen before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest

from conftest import N, R, dated, facts_like, make_dataset, make_facts, make_forecaster
from tangokg.errors import DataError, UnknownName
from tangokg.forecast.questions import Question, make_question, place
from tangokg.quads.clock import Clock
from tangokg.quads.vocabulary import Vocabulary

FACTS = make_facts(1)
FIRST, LAST = int(FACTS.t.min()), int(FACTS.t.max())


@pytest.mark.parametrize("blank", [None, "?"])
def test_what_is_left_out_or_written_as_a_question_mark_is_asked_for(blank: str | None) -> None:
    t = float(LAST)
    cases = {
        ("e3", "r1", blank): (Question(3, 1, None, t), "object"),
        ("e3", blank, "e4"): (Question(3, None, 4, t), "relation"),
        (blank, "r1", "e4"): (Question(None, 1, 4, t), "subject"),
        ("e0", "r0", blank): (Question(0, 0, None, t), "object"),  # id 0 is a name like any other
    }
    for names, (question, asked) in cases.items():
        assert make_question(FACTS, *names, LAST) == question
        assert question.asked == asked


@pytest.mark.parametrize("names", [("e1", None, None), ("?", None, "e1"), (None, "r0", None), (None, None, None)])
def test_two_or_three_unknown_names_ask_for_events(names: tuple[str | None, str | None, str | None]) -> None:
    assert make_question(FACTS, *names, LAST).asked == "event"


def test_three_names_ask_for_yes_or_no() -> None:
    assert make_question(FACTS, "e1", "r1", "e2", LAST).asked == "fact"


def test_a_span_begins_after_the_last_fact() -> None:
    question = make_question(FACTS, "e1", "r1", "e2", by=LAST + 2.5)
    assert (question.step, question.until, question.span) == (LAST + 1, LAST + 2, True)
    for by in (LAST, LAST + 0.5, FIRST):
        with pytest.raises(DataError, match=rf"by {by}: the span begins after the last fact, of {LAST}, and must end"):
            make_question(FACTS, "e1", "r1", None, by=by)
    with pytest.raises(DataError, match=r"give at \(3\) or by \(4\), not both"):
        make_question(FACTS, "e1", "r1", None, at=3, by=4)


def test_unknown_names_offer_close_ones() -> None:
    vocab = Vocabulary(("Xi Jinping", "Angela Merkel", *FACTS.vocab.entities[2:]), ("Make a visit", "Consult", "r2"))
    facts = replace(FACTS, vocab=vocab)
    cases: dict[tuple[Any, ...], tuple[str, str]] = {
        ("Xi Jingping", "Consult", None): ("entity", "Xi Jinping"),
        (None, "Consult", "merkel"): ("entity", "Angela Merkel"),
        ("Xi Jinping", "Make visit", None): ("relation", "Make a visit"),
    }
    for (s, r, o), (kind, near) in cases.items():
        with pytest.raises(UnknownName, match=f"unknown {kind} .*Did you mean '{near}'") as caught:
            make_question(facts, s, r, o, LAST)
        assert caught.value.nearest[0] == near
    assert make_question(facts, "xi_jinping", "make A visit", None, LAST) == Question(0, 0, None, LAST)


@pytest.mark.parametrize("at", [FIRST, FIRST + 0.99, FIRST - 1, -1e9, str(FIRST)])
def test_a_time_with_nothing_before_it_is_refused(at: Any) -> None:
    with pytest.raises(DataError, match=rf"time {at!s}: nothing is known before it. The history runs from {FIRST} to"):
        place(FACTS, at)


def test_the_step_after_the_first_fact_is_the_earliest() -> None:
    assert place(FACTS, FIRST + 1) == FIRST + 1


def test_one_observed_time_is_enough_to_ask_for_the_next() -> None:
    assert place(facts_like(FACTS, [(0, 0, 1, 7), (1, 0, 2, 7)]), None) == 8.0


@pytest.mark.parametrize(
    ("unit", "at", "t"),
    [
        ("day", "2024-01-11", 10.0),
        ("day", "2024-01-11T18:00", 10.75),
        ("day", date(2024, 1, 11), 10.0),
        ("day", datetime(2024, 1, 11, 6), 10.25),
        ("day", datetime(2024, 1, 11, 6, tzinfo=UTC), 10.25),
        ("day", datetime(2024, 1, 11, 6, tzinfo=timezone(timedelta(hours=6))), 10.0),
        ("day", "2034-01-01", 3653.0),
        ("day", 10.5, 10.5),
        ("day", "10", 10.0),
        ("day", np.int64(10), 10.0),
        ("hour", "2024-01-01T07:30", 7.5),
        ("month", "2024-11", 10.0),
        ("month", date(2024, 11, 16), 10.5),
        ("year", "2034", 10.0),
        ("year", 10, 10.0),
    ],
)
def test_times_are_placed_in_the_clocks_unit(unit: str, at: Any, t: float) -> None:
    assert place(dated(make_dataset(1), unit).facts, at) == pytest.approx(t)


@pytest.mark.parametrize(
    ("clock", "at", "message"),
    [
        (Clock("step"), "2024-01-11", "a number is expected"),
        (Clock("step"), date(2024, 1, 11), "a number is expected"),
        (Clock("step"), "soon", "a number is expected"),
        (Clock("day", "2024-01-01"), "soon", "is no date"),
        (Clock("day", "2024-01-01"), "2024-02-30", "is no date"),
        (Clock("day", "2024-01-01"), float("nan"), "is not a finite number"),
        (Clock("day", "2024-01-01"), "2023-12-31", r"nothing is known before it. The history runs from 2024-01-0\d to"),
    ],
)
def test_times_that_are_none_say_so(clock: Clock, at: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        place(replace(FACTS, clock=clock), at)


MATCH: dict[str, Callable[[tuple[int, ...], int], bool]] = {
    "object": lambda fact, i: fact[:3] == (3, 1, i),
    "subject": lambda fact, i: fact[:3] == (i, 1, 3),
    "relation": lambda fact, i: fact[:3] == (3, i, 3),
}
ASK = {
    "object": {"subject": "e3", "relation": "r1"},
    "subject": {"relation": "r1", "object": "e3"},
    "relation": {"subject": "e3", "object": "e3"},
}


@pytest.mark.parametrize("asked", ASK)
def test_evidence_counts_the_times_before_and_names_the_last(asked: str) -> None:
    """By a look at every fact; a fact that stands twice at a time was seen once there."""
    data = dated(make_dataset(1))
    t = int(np.unique(data.facts.t)[6])
    extra = facts_like(data.train, [(3, 1, 3, t - 1), (3, 1, 3, t - 1), (3, 1, 3, t), (3, 1, 5, t), (3, 1, 6, t - 1)])
    forecaster = make_forecaster("frequency", replace(data, after=extra))
    facts = forecaster.facts
    rows = list(zip(*(getattr(facts, c).tolist() for c in "srot"), strict=True))
    found = forecaster.forecast(**ASK[asked], at=t, top=N)  # type: ignore[arg-type]
    assert len(found.answers) == (R if asked == "relation" else N)
    assert found.at == data.clock.format(t)
    for answer in found.answers:
        times = sorted({fact[3] for fact in rows if fact[3] < t and MATCH[asked](fact, int(answer.name[1:]))})
        assert answer.seen == len(times)
        assert answer.last == (data.clock.format(times[-1]) if times else None)
    assert sum(answer.seen > 0 for answer in found.answers) > 0
