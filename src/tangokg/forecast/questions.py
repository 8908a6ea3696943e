"""A question by name -> ids and a time; unknown names and impossible times are errors."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from math import floor

import numpy as np
import torch

from tangokg.errors import DataError
from tangokg.history.index import HistoryIndex
from tangokg.history.series import usual_gap
from tangokg.quads.values import Quadruples

Dated = Quadruples | HistoryIndex  # both have names, a clock and times
UNKNOWN = "?"  # how people mark what they ask for

When = str | int | float | date | datetime | None


@dataclass(frozen=True)
class Question:
    """A question (s, r, o), None where asked for, at time ``t`` in steps of the clock, or at least once until then.

    Facts are dated by the step that holds them, and a step is known only when it has ended: a question at any time
    inside a step is one about this step, and knows the steps before it. ``since`` is the first step of a span, before
    which all is known.
    """

    s: int | None
    r: int | None
    o: int | None
    t: float
    since: float | None = None

    @property
    def step(self) -> float:
        """The step asked about; nothing of it, or later, is known."""
        return float(floor(self.t)) if self.since is None else self.since

    @property
    def until(self) -> float:
        """The last step that is asked about."""
        return float(floor(self.t))

    @property
    def span(self) -> bool:
        return self.since is not None

    @property
    def asked(self) -> str:
        """The kind of the answers: names of one kind, whole events if two or three are unknown, or yes and no."""
        unknown = [name for name, x in (("subject", self.s), ("relation", self.r), ("object", self.o)) if x is None]
        return unknown[0] if len(unknown) == 1 else "event" if unknown else "fact"


def make_question(
    facts: Dated,
    subject: str | None,
    relation: str | None,
    object: str | None,
    at: When = None,
    by: When = None,
) -> Question:
    """Look names up and place the time; what is None or "?" is asked for."""
    if at is not None and by is not None:
        raise DataError(f"a question is for one step or until a date: give at ({at!s}) or by ({by!s}), not both.")
    if any(time is not None and time != time for time in (at, by)):  # NaN and NaT
        raise DataError("the time of the question is missing (NaN or NaT): give a date or a number.")
    vocab = facts.vocab
    s, r, o = (None if name in (None, UNKNOWN) else str(name) for name in (subject, relation, object))
    t = place(facts, at) if by is None else place_end(facts, by)
    return Question(
        None if s is None else vocab.entity_id(s),
        None if r is None else vocab.relation_id(r),
        None if o is None else vocab.entity_id(o),
        t,
        None if by is None else float(facts.usual.t.max()) + 1,
    )


def place_end(facts: Dated, by: When) -> float:
    """The end of a span that begins after the last fact, in steps."""
    assert by is not None
    t = facts.clock.parse(by)
    last_step = float(facts.usual.t.max())
    if not floor(t) > last_step:
        last = facts.clock.format(last_step)
        raise DataError(
            f"by {by!s}: the span begins after the last fact, of {last}, and must end later. "
            f"Give a later date, or ask for one step with at (--at)."
        )
    return t


def place(facts: Dated, at: When) -> float:
    """The time asked for, in steps; None is one usual gap after the last fact. A step with facts must have ended."""
    if at is None:
        times = torch.from_numpy(np.unique(facts.usual.t)).double()
        return float(times[-1]) + usual_gap(times)
    t = facts.clock.parse(at)
    if not floor(t) > facts.t.min():
        first, last = (facts.clock.format(float(bound)) for bound in (facts.t.min(), facts.t.max()))
        raise DataError(
            f"time {at!s}: nothing is known before it. The history runs from {first} to {last}; ask for a later time."
        )
    return t
