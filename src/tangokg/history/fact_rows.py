"""Facts as sorted rows: by time, by subject, and by label and object."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tangokg.history.sorted_rows import Column, SortedRows, sort_rows
from tangokg.quads.values import Ids, Quadruples

Bools = NDArray[np.bool_]
OBJECTS = 2**32  # more than there are entities


def rows_of(facts: Quadruples) -> SortedRows:
    """By time."""
    return sort_rows(np.zeros_like(facts.t), facts.t, (facts.s, facts.r, facts.o, facts.moments), distinct=False)


def edges_of(facts: Quadruples) -> SortedRows:
    """Both directions of each fact, by subject and time."""
    back = np.repeat(np.array([0, 1], np.int8), len(facts))
    r, o = np.tile(facts.r.astype(np.int32), 2), np.concatenate([facts.o, facts.s]).astype(np.int32)
    return sort_rows(np.concatenate([facts.s, facts.o]), np.tile(facts.t, 2), (back, r, o), distinct=True)


def starts_of_pairs(edges: SortedRows) -> Bools:
    """(E,) whether an edge is the first of its subject, time and label."""
    back, r, _ = edges.columns
    first = np.ones(len(edges), bool)
    first[1:] = (np.diff(edges.key) != 0) | (back[1:] != back[:-1]) | (r[1:] != r[:-1])
    return first


def unseen(seen: Bools, num_entities: int) -> Ids:
    """The entities that are not ``seen``, those with higher ids among them."""
    return np.concatenate([np.flatnonzero(~seen), np.arange(len(seen), num_entities)])


def objects_of(edges: tuple[Column, ...]) -> SortedRows:
    """The other directions of edges s, t, back, r, o, whose object is s, by label and object."""
    s, t, back, r, _ = edges
    return sort_rows((2 * r.astype(np.int64) + (back == 0)) * OBJECTS + s, t, (), distinct=False)
