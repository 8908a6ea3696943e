"""What is in a data set, in numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tangokg.quads.folders import PARTS
from tangokg.quads.values import Dataset, Quadruples


def inspect(dataset: Dataset) -> dict[str, Any]:
    """Counts for people and programs: facts as read and distinct, times, ids used, and what training never saw."""
    seen = dataset.train.named
    everything = dataset.facts.named
    parts = {part: _inspect_part(getattr(dataset, part), *seen) for part in PARTS}
    return {
        "name": dataset.name,
        "unit": dataset.clock.unit,
        "timezone": None if dataset.clock.origin is None else dataset.clock.timezone,
        "entities": dataset.vocab.num_entities,
        "entities_used": int(everything[0].sum()),
        "entities_in_train": int(seen[0].sum()),
        "relations": dataset.vocab.num_relations,
        "relations_used": int(everything[1].sum()),
        "relations_in_train": int(seen[1].sum()),
        "timestamps": len(np.unique(dataset.facts.t)),
        "parts": parts,
        "notes": list(dataset.notes),
    }


def _inspect_part(facts: Quadruples, seen_entities: Any, seen_relations: Any) -> dict[str, Any]:
    rows = np.stack([facts.s, facts.r, facts.o, facts.t])[:, np.lexsort((facts.o, facts.r, facts.s, facts.t))]
    repeats = int((rows[:, 1:] == rows[:, :-1]).all(axis=0).sum())
    unseen = ~(seen_entities[facts.s] & seen_entities[facts.o])
    new_entities, _ = facts.named
    span = [facts.t.min(), facts.t.max()] if len(facts) else []
    return {
        "facts": len(facts),
        "distinct": len(facts) - repeats,
        "timestamps": len(np.unique(facts.t)),
        "first_t": int(span[0]) if span else None,
        "last_t": int(span[1]) if span else None,
        "first": facts.clock.format(float(span[0])) if span else None,
        "last": facts.clock.format(float(span[1])) if span else None,
        "self_loops": int((facts.s == facts.o).sum()),
        "unseen_entities": int((new_entities & ~seen_entities).sum()),
        "facts_with_unseen_entity": int(unseen.sum()),
        "share_with_unseen_entity": float(unseen.mean()) if len(facts) else 0.0,
        "facts_with_unseen_relation": int((~seen_relations[facts.r]).sum()),
    }
