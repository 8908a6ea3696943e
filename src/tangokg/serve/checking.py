"""Converts new facts of a request to the run's ids and clock; all are checked before any is used."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor

import numpy as np

from tangokg.errors import HIDDEN, DataError, harmless_line
from tangokg.quads.values import Quadruples, exact_or_none
from tangokg.serve.schemas import Fact
from tangokg.serve.state import State

SHOWN = 5  # wrong facts named in one message


def make_facts(
    state: State, facts: Sequence[Fact], late: float | None = None, ahead: float | None = None
) -> Quadruples:
    """Facts by name -> ids and times; new names get the next ids.

    A fact more than ``late`` steps before the last one known, or more than ``ahead`` after it, is refused.
    """
    wrong: list[str] = []
    moments = []
    for row, fact in enumerate(facts):
        try:
            moments.append(_moment(state, fact, late, ahead))
        except DataError as error:
            wrong.append(f"fact {row + 1}: {error}")
    if wrong:
        rest = f" And {len(wrong) - SHOWN} more." if len(wrong) > SHOWN else ""
        raise DataError(
            f"{len(wrong)} of {len(facts)} facts cannot be taken, so none was. {' '.join(wrong[:SHOWN])}{rest}"
        )
    subjects, relations, objects = ([getattr(f, c) for f in facts] for c in ("subject", "relation", "object"))
    names = [name for pair in zip(subjects, objects, strict=True) for name in pair]
    vocab = state.index.vocab.extend(names, relations)
    ids, r = vocab.ids_of(names, relations)
    s, o = np.array(ids, np.int64).reshape(-1, 2).T.copy()
    exact = np.array(moments, np.float64)
    t = np.floor(exact).astype(np.int64)
    return Quadruples(s, np.array(r, np.int64), o, t, vocab, state.clock, exact_or_none(exact, t))


def _moment(state: State, fact: Fact, late: float | None, ahead: float | None) -> float:
    for name in (fact.subject, fact.relation, fact.object):
        if HIDDEN.search(name) or "\n" in name or "\t" in name:
            raise DataError(f"the name {harmless_line(name)!r:.80} holds control characters.")
    if fact.at != fact.at:
        raise DataError("the time is missing (NaN).")
    moment = state.clock.parse(fact.at)
    last, unit = state.last, state.clock.unit
    if late is not None and floor(moment) < last - late:
        raise DataError(
            f"{fact.at} lies more than {late:,.0f} {unit}s before the last fact, of {state.clock.format(last)}: "
            f"the service takes late facts up to this bound (--late)."
        )
    if not abs(moment) < 2**53 or (ahead is not None and moment > last + ahead):
        raise DataError(f"{fact.at} lies too far after the last fact, of {state.clock.format(last)} (--ahead).")
    state.clock.format(moment)  # an error where it lies outside the calendar
    return moment
