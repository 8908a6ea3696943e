"""How often, and when last, facts were seen before a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tangokg.history.index import HistoryIndex
from tangokg.quads.values import Floats, Ids


def seen_before(index: HistoryIndex, s: Ids, r: Ids, o: Ids, step: float) -> tuple[Ids, Floats]:
    """How many times each fact (M,) occurred before a step, and its last moment (arbitrary where it never occurred)."""
    labels, n = 2 * index.vocab.num_relations, index.vocab.num_entities
    from_object = len(np.unique(o)) < len(np.unique(s))  # then from its side there is less to look at
    subject, other = (o, s) if from_object else (s, o)
    wanted = (subject * labels + 2 * r + from_object) * n + other
    number, of = np.unique(wanted, return_inverse=True)
    subjects, t, back, relations, others = index.take(np.unique(subject), -np.inf, step)
    key = (subjects * labels + 2 * relations + back) * n + others
    hit = np.isin(key, number)
    at = np.searchsorted(number, key[hit])
    count, last = np.bincount(at, minlength=len(number)), np.full(len(number), -(2**62))
    np.maximum.at(last, at, t[hit])
    moment = last[of].astype(np.float64)
    for i in np.flatnonzero(count[of] > 0) if index.timed else ():
        moment[i] = max(_moments(index, int(last[of[i]]), s[i], r[i], o[i]))
    return count[of], moment


def _moments(index: HistoryIndex, t: int, s: int, r: int, o: int) -> Iterator[float]:
    """The moments at which a fact was reported within a step, one for each report."""
    for layer in index.facts:
        ((start, end),) = zip(*layer.spans(np.zeros(1, np.int64), t, t + 1), strict=True)
        subjects, labels, objects, moments = (column[start:end] for column in layer.columns)
        yield from moments[(subjects == s) & (labels == r) & (objects == o)].tolist()
