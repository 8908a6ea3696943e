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


def answer(state: State, requests: Sequence[schemas.Question], span: float) -> list[dict[str, Any] | BaseException]:
    """The answer to each request as JSON, or its exception: one that fails does not stop the others."""
    prepared = [_attempt(lambda q=q: _make(state, q, span)) for q in requests]
    results: list[Any] = list(prepared)
    plain = [i for i, item in enumerate(prepared) if isinstance(item, PreparedQuestion) and not requests[i].suppose]
    for spans in (False, True):  # the library answers all questions of one kind in one batch
        batch = [i for i in plain if prepared[i].question.span == spans]
        if batch:
            forecasts = _attempt(
                lambda batch=batch: _forecast(state, [prepared[i].question for i in batch], requests, batch)
            )
            for place, i in enumerate(batch):
                if isinstance(forecasts, BaseException):  # perhaps due to another question: ask alone
                    forecast = _attempt(lambda i=i: _forecast(state, [prepared[i].question], requests, [i])[0])
                else:
                    forecast = forecasts[place]
                results[i] = (
                    forecast
                    if isinstance(forecast, BaseException)
                    else _attempt(lambda i=i, forecast=forecast: prepared[i].to_json(forecast))
                )
    for i, item in enumerate(prepared):
        if isinstance(item, PreparedQuestion) and requests[i].suppose:
            results[i] = _attempt(
                lambda item=item, i=i: item.to_json(_forecast(item.state, [item.question], requests, [i])[0])
            )
    return results


def _attempt(call: Any) -> Any:
    try:
        return call()
    except Exception as error:
        return error


def _forecast(
    state: State, questions: list[Question], requests: Sequence[schemas.Question], rows: list[int]
) -> list[Forecast]:
    return state.answering.answer(questions, max(requests[i].top for i in rows))


@dataclass(frozen=True)
class PreparedQuestion:
    """A checked question and the state that answers it, which includes the supposed facts."""

    state: State
    request: schemas.Question
    question: Question

    def to_json(self, forecast: Forecast) -> dict[str, Any]:
        request, state = self.request, self.state
        answers = forecast.answers[: request.top]
        if request.why:
            history = state.known.whole()
            explained = explain(
                state.forecaster.model,
                state.forecaster.facts,
                history,
                self.question,
                forecast,
                number_of_answers(True),
            )
            answers = explained.answers[: request.top]
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
            "answers": [self._answer(rank, answer) for rank, answer in enumerate(answers, 1)],
            "warnings": warnings(state, self.question),
        }

    def _answer(self, rank: int, answer: Answer) -> dict[str, Any]:
        answer_json = {
            "rank": rank,
            "name": answer.name,
            "subject": answer.subject,
            "relation": answer.relation,
            "object": answer.object,
            "share": answer.share,
            "chance": answer.chance,
            "base": base_rate(self.state, self.question, answer.seen),
            "seen": {"count": answer.seen, "last": self.state.tell_text(answer.last)},
        }
        return (
            answer_json if answer.reasons is None else answer_json | {"why": _reasons_json(self.state, answer.reasons)}
        )


def _name(text: str) -> str | None:
    return None if text == "?" else text


def _reasons_json(state: State, reasons: Reasons) -> list[dict[str, Any]]:
    return [
        {
            "subject": reason.subject,
            "relation": reason.relation,
            "object": reason.object,
            "at": state.tell_text(reason.time),
            "share": reason.share,
            "sentence": f"{fact_of(reason)}, {reason.time}: {reason.share:.0%} of the answer",
        }
        for reason in reasons.facts[:REASONS]
        if reason.share >= WEAK
    ]


def _make(state: State, request: schemas.Question, span: float) -> PreparedQuestion:
    if request.subject is None and request.object is None:
        raise DataError("subject and object are both missing: one of them may be null. /likely names whole events.")
    if request.relation is None and None in (request.subject, request.object):
        raise DataError("the relation is missing: it may be null only where subject and object are given.")
    if request.suppose:
        state, _ = state.with_facts(make_facts(state, request.suppose), state.position)
    question = make_question(state.index, request.subject, request.relation, request.object, request.at, request.by)
    check_span(state, question.t, span)
    return PreparedQuestion(state, request, question)


def check_span(state: State, t: float, span: float) -> None:
    """Raise an error if a time lies more than ``span`` after the last fact."""
    if not t - state.last <= span:
        last = state.clock.format(state.last)
        raise DataError(f"the time lies more than {span:,.0f} {state.clock.unit}s after the last fact, of {last}.")


def base_rate(state: State, question: Question, count: int) -> float | None:
    """The share of known times with the fact; for a span, the chance of at least one at that rate."""
    num_times = int(np.searchsorted(state.index.t, question.step))
    if not num_times:
        return None
    rate = count / num_times
    if question.since is None:
        return rate
    steps = (question.until - question.since + 1) * share_recorded(state.index)
    return float(1 - (1 - rate) ** steps)


def warnings(state: State, question: Question) -> list[str]:
    """Warnings for questions far ahead and for times without facts."""
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
        "events": [{key: getattr(event, key) for key in keys} for event in forecast.answers],
    }
