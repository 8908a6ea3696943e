"""Look up known facts: of one entity or two, in a span of times, and the neighbours of an entity."""

from __future__ import annotations

from typing import Any

import numpy as np

from tangokg.history.hazard_queries import RECENT
from tangokg.quads.values import Ids
from tangokg.serve.state import State

Columns = tuple[Ids, Ids, Ids, Ids]  # s, r, o, t


def find_facts(
    state: State, entity: str | None, other: str | None, relation: str | None, since: Any, until: Any, limit: int
) -> dict[str, Any]:
    """Distinct facts with these names in a span, the latest first."""
    vocab, clock = state.index.vocab, state.clock
    low = -np.inf if since is None else float(np.floor(clock.parse(since)))
    high = np.inf if until is None else float(np.floor(clock.parse(until))) + 1
    s, r, o, t = (
        _all_facts(state, low, high) if entity is None else _of_entity(state, vocab.entity_id(entity), low, high)
    )
    keep = np.ones(len(t), bool)
    if other is not None:
        mate = vocab.entity_id(other)
        keep &= (s == mate) | (o == mate)
        if entity == other:
            keep &= s == o
    if relation is not None:
        keep &= r == vocab.relation_id(relation)
    rows = np.flatnonzero(keep)
    rows = rows[np.lexsort((o[rows], r[rows], s[rows], -t[rows]))]
    fresh = np.ones(len(rows), bool)
    fresh[1:] = np.logical_or.reduce([np.diff(c[rows]) != 0 for c in (s, r, o, t)])
    rows = rows[fresh]
    return {"position": state.position, "facts": _facts_json(state, (s, r, o, t), rows[:limit]), "total": len(rows)}


def _facts_json(state: State, columns: Columns, rows: Ids) -> list[dict[str, Any]]:
    names, relations = state.index.vocab.entities, state.index.vocab.relations
    s, r, o, t = (column[rows].tolist() for column in columns)
    return [
        {"subject": names[a], "relation": relations[b], "object": names[c], "at": state.tell(float(when))}
        for a, b, c, when in zip(s, r, o, t, strict=True)
    ]


def _of_entity(state: State, entity: int, low: float, high: float) -> Columns:
    s, t, inverse, r, o = (np.asarray(c, np.int64) for c in state.index.take(np.array([entity]), low, high))
    return np.where(inverse == 1, o, s), r, np.where(inverse == 1, s, o), t


def _all_facts(state: State, low: float, high: float) -> Columns:
    zero = np.zeros(1, np.int64)
    columns = []
    for layer in state.index.facts:
        (start,), (end,) = layer.spans(zero, low, high)
        _, t, s, r, o, _ = layer.read(slice(int(start), int(end)))
        columns.append((s, r, o, t))
    s, r, o, t = (np.concatenate(part).astype(np.int64) for part in zip(*columns, strict=True))
    return s, r, o, t


def neighbourhood(state: State, entity: str, limit: int) -> dict[str, Any]:
    """The entities that share most facts with an entity.

    Of two neighbouring spans of 30 usual gaps up to the last fact, ``formed`` says that there are facts in the later
    one alone, ``dissolved`` in the earlier one alone.
    """
    index = state.index
    entity_id = index.vocab.entity_id(entity)
    s, r, o, t = _of_entity(state, entity_id, -np.inf, np.inf)
    partner = np.where(s == entity_id, o, s)
    recent = RECENT * state.forecaster.chances.hazard.gap
    later = t > state.last - recent
    earlier = ~later & (t > state.last - 2 * recent)
    neighbours = []
    ids, counts = np.unique(partner[partner != entity_id], return_counts=True)
    for i in np.lexsort((ids, -counts))[:limit]:
        shared = partner == ids[i]
        labels, often = np.unique(r[shared], return_counts=True)
        lately, before = bool((shared & later).any()), bool((shared & earlier).any())
        neighbours.append(
            {
                "name": index.vocab.entities[ids[i]],
                "facts": int(counts[i]),
                "last": state.tell(float(t[shared].max())),
                "relations": [index.vocab.relations[x] for x in labels[np.argsort(-often, kind="stable")]],
                "formed": lately and not before,
                "dissolved": before and not lately,
            }
        )
    return {"position": state.position, "entity": index.vocab.entities[entity_id], "neighbours": neighbours}
