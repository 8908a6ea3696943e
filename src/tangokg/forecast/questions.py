"""A question by name -> ids and a time; unknown names and impossible times are told apart here."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from math import floor

import numpy as np

from tangokg.errors import DataError
from tangokg.quads.values import Quadruples

UNKNOWN = "?"  # how people write what is asked for

When = str | int | float | date | datetime | None


@dataclass(frozen=True)
class Question:
    """(s, r, o) with exactly one of the three asked for (None), at time ``t`` in steps of the clock.

    Facts are dated by the step that holds them, and a step is known only when it has ended: a question at any time
    inside ``step`` is one about this step, and knows the steps before it.
    """

    s: int | None
    r: int | None
    o: int | None
    t: float

    @property
    def step(self) -> float:
        """The step that holds the time asked for: nothing of it, or later, is known."""
        return float(floor(self.t))

    @property
    def asked(self) -> str:
        return "subject" if self.s is None else "relation" if self.r is None else "object"


def make_question(
    facts: Quadruples, subject: str | None, relation: str | None, object: str | None, at: When
) -> Question:
    """Look names up and place the time; one of the three is None or "?"."""
    vocab = facts.vocab
    named = [None if name in (None, UNKNOWN) else str(name) for name in (subject, relation, object)]
    if sum(name is None for name in named) != 1:
        raise DataError(
            f"exactly one of subject, relation and object is asked for (leave it out or write {UNKNOWN!r}); found "
            f"subject {subject!r}, relation {relation!r}, object {object!r}."
        )
    s, r, o = named
    return Question(
        None if s is None else vocab.entity_id(s),
        None if r is None else vocab.relation_id(r),
        None if o is None else vocab.entity_id(o),
        place(facts, at),
    )


def place(facts: Quadruples, at: When) -> float:
    """The time asked for, in steps; None is one usual gap after the last fact. A step with facts must have ended."""
    if at is None:
        times = np.unique(facts.t)
        return float(times[-1] + (np.median(np.diff(times)) if len(times) > 1 else 1))
    t = facts.clock.parse(at)
    if not floor(t) > facts.t.min():
        first, last = (facts.clock.format(float(bound)) for bound in (facts.t.min(), facts.t.max()))
        raise DataError(
            f"time {at!s}: nothing is known before it. The history runs from {first} to {last}; ask for a later time."
        )
    return t
