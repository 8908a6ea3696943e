"""Converts facts from another source to the vocabulary and clock of existing facts."""

from __future__ import annotations

import numpy as np

from tangokg.errors import DataError
from tangokg.quads.clock import Clock
from tangokg.quads.values import Floats, Ids, Quadruples, exact_or_none
from tangokg.quads.vocabulary import Vocabulary


def adapt(facts: Quadruples, vocab: Vocabulary, clock: Clock) -> Quadruples:
    """``facts`` with the ids of ``vocab``, extended by the names that are new, and the times of ``clock``."""
    entities = np.unique(np.concatenate([facts.s, facts.o]))
    relations = np.unique(facts.r)
    names = [facts.vocab.entities[i] for i in entities]
    labels = [facts.vocab.relations[i] for i in relations]
    grown = vocab.extend(names, labels)
    entity, relation = np.zeros(facts.vocab.num_entities, np.int64), np.zeros(facts.vocab.num_relations, np.int64)
    entity[entities], relation[relations] = grown.ids_of(names, labels)
    t, exact = _times(facts, clock)
    return Quadruples(entity[facts.s], relation[facts.r], entity[facts.o], t, grown, clock, exact, facts.notes)


def _times(facts: Quadruples, to: Clock) -> tuple[Ids, Floats | None]:
    """``t`` and ``exact`` in the clock ``to``."""
    of = facts.clock
    if of == to:
        return facts.t, facts.exact
    if (of.origin is None) != (to.origin is None):
        kind, expected = ("numbers", "dates") if of.origin is None else ("dates", "numbers")
        raise DataError(f"the new facts are dated by {kind}, those already here by {expected}; convert the column.")
    if of.origin is None:
        if of.unit != to.unit and "step" not in (of.unit, to.unit):
            raise DataError(f"the new facts count {of.unit}s, those already here {to.unit}s; convert the column.")
        return facts.t, facts.exact
    moments = of.moments(facts.moments)
    # Without exact moments a fact may be of any moment of its step, and is known only when the step has ended: the
    # facts of a week belong to its last day.
    ended = of.moments((facts.t + 1).astype(np.float64)) - np.timedelta64(1, "us") if facts.exact is None else moments
    t = to.steps(ended)
    return t, exact_or_none(np.maximum(to.exact(moments), t), t)
