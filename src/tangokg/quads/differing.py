"""Describes how two data sets differ."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tangokg.quads.values import Dataset, Quadruples

FEW = 3  # names that are listed


def what_differs(stored: Dataset, current: Dataset) -> str:
    """``train: 80 facts to 2024-03-01 there, 90 to 2024-03-09 here``; the first things that differ."""
    return "; ".join(_differences(stored, current)) or "the order of names or facts"


def _differences(stored: Dataset, current: Dataset) -> Iterator[str]:
    if stored.clock != current.clock:
        yield f"times are counted in {_clock(stored)} there, in {_clock(current)} here"
    names = (("entities", stored.vocab.entities, current.vocab.entities),)
    for kind, old, new in (*names, ("relations", stored.vocab.relations, current.vocab.relations)):
        for only, place in ((set(old) - set(new), "there"), (set(new) - set(old), "here")):
            if only:
                listed = ", ".join(map(repr, sorted(only)[:FEW])) + (" and others" if len(only) > FEW else "")
                yield f"{len(only):,} {kind} only {place} ({listed})"
    for name in dict.fromkeys([*stored.parts, *current.parts]):
        old_part, new_part = stored.parts.get(name), current.parts.get(name)
        old_text, new_text = _part(old_part), _part(new_part)
        if old_text != new_text:
            yield f"{name}: {old_text} there, {new_text} here"
        elif old_part is not None and new_part is not None and (changed := _changed(old_part, new_part)):
            yield f"{name}: {changed:,} of {len(new_part):,} facts are others"


def _clock(data: Dataset) -> str:
    origin = f" from {data.clock.origin}" if data.clock.origin is not None else ""
    zone = f" ({data.clock.timezone})" if data.clock.timezone != "UTC" else ""
    return f"{data.clock.unit}s{origin}{zone}"


def _part(facts: Quadruples | None) -> str:
    if facts is None or not len(facts):
        return "no facts"
    first, last = (facts.clock.format(float(end(facts.t))) for end in (np.min, np.max))
    return f"{len(facts):,} facts, {first} to {last}"


def _changed(stored: Quadruples, current: Quadruples) -> int:
    """How many facts of ``current`` are not in ``stored``, compared by name."""

    def named(facts: Quadruples) -> set[tuple[str, str, str, int]]:
        entities, relations = facts.vocab.entities, facts.vocab.relations
        columns = (facts.s.tolist(), facts.r.tolist(), facts.o.tolist(), facts.t.tolist())
        return {(entities[s], relations[r], entities[o], t) for s, r, o, t in zip(*columns, strict=True)}

    return len(named(current) - named(stored))
