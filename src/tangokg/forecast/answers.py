"""What comes back: names with probabilities, and the earlier facts that speak for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tangokg.forecast.questions import UNKNOWN, Question
from tangokg.quads.values import Quadruples


@dataclass(frozen=True)
class Answer:
    """One candidate, how likely it is, and how often and when the fact was seen before."""

    name: str
    probability: float
    seen: int
    last: str | None


@dataclass(frozen=True)
class Forecast:
    """The likeliest answers to one question, the likeliest first."""

    subject: str
    relation: str
    object: str
    at: str
    asked: str  # which of the three the answers are for
    answers: tuple[Answer, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        question = {"subject": self.subject, "relation": self.relation, "object": self.object, "at": self.at}
        return question | {"asked": self.asked, "answers": [vars(answer) for answer in self.answers]}

    def __str__(self) -> str:
        lines = [f"({self.subject}, {self.relation}, {self.object}) at {self.at}"]
        for place, answer in enumerate(self.answers, 1):
            often = "once" if answer.seen == 1 else f"{answer.seen} times"
            seen = f"seen {often}, last {answer.last}" if answer.seen else "never seen before"
            lines.append(f"{place:3d}. {answer.probability:6.1%}  {answer.name}  ({seen})")
        return "\n".join(lines)


def describe(facts: Quadruples, question: Question, ids: list[int], probabilities: list[float]) -> Forecast:
    """Ids and probabilities -> names, with what is known of each before the time asked for."""
    vocab, clock = facts.vocab, facts.clock
    known = facts.t < question.step
    for column, value in (("s", question.s), ("r", question.r), ("o", question.o)):
        if value is not None:
            known &= getattr(facts, column) == value
    asked = {"subject": facts.s, "relation": facts.r, "object": facts.o}[question.asked][known]
    t, moments = facts.t[known], facts.moments[known]
    names = vocab.relations if question.asked == "relation" else vocab.entities
    answers = []
    for i, probability in zip(ids, probabilities, strict=True):
        own = asked == i
        last = clock.format(float(moments[own].max())) if own.any() else None
        answers.append(Answer(names[i], probability, len(np.unique(t[own])), last))
    return Forecast(
        UNKNOWN if question.s is None else vocab.entities[question.s],
        UNKNOWN if question.r is None else vocab.relations[question.r],
        UNKNOWN if question.o is None else vocab.entities[question.o],
        clock.format(question.t),
        question.asked,
        tuple(answers),
    )
