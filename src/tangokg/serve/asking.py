"""Questions of requests -> the library's questions, answered together -> the JSON of answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tangokg.errors import DataError
from tangokg.forecast.answers import Answer, Forecast
from tangokg.forecast.horizon import share_recorded, warn_far, warn_gaps
from tangokg.forecast.questions import Question, make_question
from tangokg.forecast.reasons import WEAK, Reasons, fact_of
from tangokg.forecast.why import explain, number_of_answers
from tangokg.serve import schemas
from tangokg.serve.checking import make_facts
from tangokg.serve.state import State

EVENTS = 100  # of the likeliest, at most
REASONS = 10  # of an answer, at most


def answer(state: State, asked: Sequence[schemas.Question], span: float) -> list[dict[str, Any] | BaseException]:
    """The JSON of each question, or what is wrong with it: one that cannot be answered does not disturb the others."""
    made = [_attempt(lambda q=q: _make(state, q, span)) for q in asked]
    found: list[Any] = list(made)
    plain = [i for i, one in enumerate(made) if isinstance(one, Made) and not asked[i].suppose]
    for spans in (False, True):  # the library answers those of one kind together
        some = [i for i in plain if made[i].question.span == spans]
        if some:
            forecasts = _attempt(lambda some=some: _forecast(state, [made[i].question for i in some], asked, some))
            for place, i in enumerate(some):
                if isinstance(forecasts, BaseException):  # perhaps of another question
                    own = _attempt(lambda i=i: _forecast(state, [made[i].question], asked, [i])[0])
                else:
                    own = forecasts[place]
                found[i] = own if isinstance(own, BaseException) else _attempt(lambda i=i, own=own: made[i].told(own))
    for i, one in enumerate(made):
        if isinstance(one, Made) and asked[i].suppose:
            found[i] = _attempt(lambda one=one, i=i: one.told(_forecast(one.state, [one.question], asked, [i])[0]))
    return found


def _attempt(call: Any) -> Any:
    try:
        return call()
    except Exception as error:
        return error


def _forecast(
    state: State, questions: list[Question], asked: Sequence[schemas.Question], rows: list[int]
) -> list[Forecast]:
    return state.answering.answer(questions, max(asked[i].top for i in rows))


@dataclass(frozen=True)
class Made:
    """A question, what is known for it (with what it supposes), and how its answer is told."""

    state: State
    asked: schemas.Question
    question: Question

    def told(self, forecast: Forecast) -> dict[str, Any]:
        asked, state = self.asked, self.state
        answers = forecast.answers[: asked.top]
        if asked.why:
            whole = state.known.whole()
            explained = explain(
                state.forecaster.model, state.forecaster.facts, whole, self.question, forecast, number_of_answers(True)
            )
            answers = explained.answers[: asked.top]
        at = state.tell_text(forecast.at)
        return {
            "position": state.position,
            "question": {
                "subject": _name(forecast.subject),
                "relation": _name(forecast.relation),
                "object": _name(forecast.object),
                "at": None if forecast.by else at,
                "by": at if forecast.by else None,
                "asked": forecast.asked,
            },
            "any": forecast.happens,
            "answers": [self._answer(rank, one) for rank, one in enumerate(answers, 1)],
            "warnings": warnings(state, self.question),
        }

    def _answer(self, rank: int, one: Answer) -> dict[str, Any]:
        told = {
            "rank": rank,
            "name": one.name,
            "subject": one.subject,
            "relation": one.relation,
            "object": one.object,
            "share": one.share,
            "chance": one.chance,
            "base": base_rate(self.state, self.question, one.seen),
            "seen": {"count": one.seen, "last": self.state.tell_text(one.last)},
        }
        return told if one.reasons is None else told | {"why": _why(self.state, one.reasons)}


def _name(text: str) -> str | None:
    return None if text == "?" else text


def _why(state: State, reasons: Reasons) -> list[dict[str, Any]]:
    return [
        {
            "subject": one.subject,
            "relation": one.relation,
            "object": one.object,
            "at": state.tell_text(one.time),
            "share": one.share,
            "sentence": f"{fact_of(one)}, {one.time}: {one.share:.0%} of the answer",
        }
        for one in reasons.facts[:REASONS]
        if one.share >= WEAK
    ]


def _make(state: State, asked: schemas.Question, span: float) -> Made:
    if asked.subject is None and asked.object is None:
        raise DataError("subject and object are both missing: one of them may be null. /likely names whole events.")
    if asked.relation is None and None in (asked.subject, asked.object):
        raise DataError("the relation is missing: it may be null only where subject and object are given.")
    if asked.suppose:
        state, _ = state.with_facts(make_facts(state, asked.suppose), state.position)
    question = make_question(state.index, asked.subject, asked.relation, asked.object, asked.at, asked.by)
    check_span(state, question.t, span)
    return Made(state, asked, question)


def check_span(state: State, t: float, span: float) -> None:
    """An error where a time lies so far ahead that nobody means it."""
    if not t - state.last <= span:
        last = state.clock.format(state.last)
        raise DataError(f"the time lies more than {span:,.0f} {state.clock.unit}s after the last fact, of {last}.")


def base_rate(state: State, question: Question, seen: int) -> float | None:
    """The share of the known times at which the fact stood; of a span, at least once at that rate."""
    known = int(np.searchsorted(state.index.t, question.step))
    if not known:
        return None
    rate = seen / known
    if question.since is None:
        return rate
    steps = (question.until - question.since + 1) * share_recorded(state.index)
    return float(1 - (1 - rate) ** steps)


def warnings(state: State, question: Question) -> list[str]:
    """What the library says of questions far ahead, and of times without facts."""
    gaps = "" if question.span else warn_gaps(state.index, [question.step])
    return [text for text in (warn_far(state.measured, state.index, [question.t]), gaps) if text]


def likely(state: State, at: Any, span: float) -> dict[str, Any]:
    """The likeliest whole events of those who were active lately."""
    question = make_question(state.index, None, None, None, at)
    check_span(state, question.t, span)
    (forecast,) = state.answering.answer([question], EVENTS)
    keys = ("subject", "relation", "object", "chance")
    return {
        "position": state.position,
        "at": state.tell_text(forecast.at),
        "events": [{key: getattr(one, key) for key in keys} for one in forecast.answers],
    }
