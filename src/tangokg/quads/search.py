"""Search for names in a data set, and suggest a question."""

from __future__ import annotations

from typing import Any

import numpy as np

from tangokg.quads.values import Quadruples

LATELY = 0.1  # the share of the facts that count as recent


def find_names(facts: Quadruples, text: str | None = None, most: int = 20) -> list[dict[str, Any]]:
    """Entities, then relations, whose name contains a text, in any case; those with the most facts first.

    Each has its ``name``, its ``kind``, its number of ``facts``, and the time of the ``last`` of them.
    """
    pattern = (text or "").replace("_", " ").casefold()
    matches = []
    columns = {"entity": (facts.vocab.entities, (facts.s, facts.o)), "relation": (facts.vocab.relations, (facts.r,))}
    for kind, (known, ids) in columns.items():
        count, last = np.zeros(len(known), np.int64), np.full(len(known), -np.inf)
        for column in ids:
            np.add.at(count, column, 1)
            np.maximum.at(last, column, facts.moments)
        inside = [i for i, name in enumerate(known) if pattern in name.replace("_", " ").casefold()]
        for i in sorted(inside, key=lambda i: (-count[i], known[i]))[:most]:
            when = facts.clock.format(float(last[i])) if count[i] else None
            matches.append({"name": known[i], "kind": kind, "facts": int(count[i]), "last": when})
    return matches


def worth_asking(facts: Quadruples) -> tuple[str, str]:
    """A subject and a relation with many recent facts and, if possible, more than one object."""
    late = facts.select(facts.t >= np.quantile(facts.t, 1 - LATELY))
    pairs, place, count = np.unique(np.stack([late.s, late.r]), axis=1, return_inverse=True, return_counts=True)
    kinds = np.unique(np.stack([place.ravel(), late.o]), axis=1)
    several = np.bincount(kinds[0], minlength=len(count)) > 1
    best = int(np.lexsort((count, several))[-1])
    s, r = pairs[:, best]
    return facts.vocab.entities[s], facts.vocab.relations[r]
