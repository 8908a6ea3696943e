"""Summaries of a data set, in numbers and in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from tangokg.quads.folders import PARTS
from tangokg.quads.values import Dataset, Quadruples
from tangokg.showing import counted


def inspect(dataset: Dataset) -> dict[str, Any]:
    """Counts of a data set: facts as read and distinct, times, ids in use, and what training never saw."""
    named = dataset.train.named
    everything = dataset.facts.named
    parts = {part: _inspect_part(getattr(dataset, part), *named) for part in PARTS}
    return {
        "name": dataset.name,
        "unit": dataset.clock.unit,
        "timezone": None if dataset.clock.origin is None else dataset.clock.timezone,
        "entities": dataset.vocab.num_entities,
        "entities_used": int(everything[0].sum()),
        "entities_in_train": int(named[0].sum()),
        "relations": dataset.vocab.num_relations,
        "relations_used": int(everything[1].sum()),
        "relations_in_train": int(named[1].sum()),
        "timestamps": len(np.unique(dataset.facts.t)),
        "parts": parts,
        "facts_by_relation": _by_relation(dataset),
        "notes": list(dataset.notes),
    }


def _by_relation(dataset: Dataset) -> list[dict[str, Any]]:
    """The relations that have facts, the most frequent first."""
    counts = np.bincount(dataset.facts.r, minlength=dataset.vocab.num_relations)
    order = np.argsort(-counts, kind="stable")
    return [{"relation": dataset.vocab.relations[r], "facts": int(counts[r])} for r in order if counts[r]]


def facts_over_time(dataset: Dataset, most: int = 60) -> list[float]:
    """The number of facts in equally long spans of time, ``most`` of them or one for each step."""
    times = np.concatenate([dataset.train.t, dataset.valid.t, dataset.test.t])
    t = times - times.min()
    counts: list[float] = np.histogram(t, bins=int(min(most, t.max() + 1)))[0].tolist()
    return counts


def summarise(dataset: Dataset) -> list[str]:
    """Summarise a data set in a few lines, with the notes of reading."""
    summary = inspect(dataset)
    facts = sum(part["facts"] for part in summary["parts"].values())
    first = (
        f"{dataset.name}: {counted(facts, 'fact')}, {counted(summary['entities'], 'entity', 'entities')}, "
        f"{counted(summary['relations'], 'relation')}, {counted(summary['timestamps'], 'time')}, "
        f"counted in {describe_unit(summary)}"
    )
    parts = [f"  {name:5}  {_describe_part(part)}" for name, part in summary["parts"].items()]
    notes = list(summary["notes"])
    if not len(dataset.valid):
        notes.append("without a validation part the weights of the last epoch are kept")
    return [first, *parts, *(f"  note: {note}" for note in notes)]


def describe_unit(summary: dict[str, Any]) -> str:
    """``days (UTC)``: the unit of time of an inspected set, and the zone of dates."""
    return f"{summary['unit']}s" + (f" ({summary['timezone']})" if summary["timezone"] else "")


def _describe_part(part: dict[str, Any]) -> str:
    if not part["facts"]:
        return "no facts"
    unseen = f", {part['share_with_unseen_entity']:.1%} with an entity that training never saw"
    return (
        f"{counted(part['facts'], 'fact')} at {counted(part['timestamps'], 'time')}, {part['first']} to {part['last']}"
        f"{unseen if part['facts_with_unseen_entity'] else ''}"
    )


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
