"""The model card of the served run: data, metrics, the trusted horizon, and an example question."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tangokg.forecast.questions import place
from tangokg.serve.state import State
from tangokg.train import RunFolder


def card(state: State) -> dict[str, Any]:
    """The part of the model card that follows from the state."""
    index, last = state.index, state.last
    return {
        "name": state.name,
        "model": state.forecaster.config.model,
        "data": {
            "facts": int(index.counts.sum()),
            "entities": index.vocab.num_entities,
            "relations": index.vocab.num_relations,
            "first": state.tell(float(index.usual.t.min())),
            "last": state.tell(last),
            "unit": state.clock.unit,
        },
        "trusted_until": state.trusted,
        "example": example(state),
        "chances": True,
        "position": state.position,
        "now": state.tell(last),
        "next": state.tell(place(index, None)),
    }


def example(state: State) -> dict[str, Any]:
    """The subject and relation with most recent facts, preferring pairs with several objects."""
    index = state.index
    times = np.flatnonzero(index.t <= state.last)
    window = index.window(times[-max(len(times) // 10, 1) :])
    forward = (window.r < index.vocab.num_relations).numpy()
    s, r, o = (column.numpy()[forward] for column in (window.s, window.r, window.o))
    pair, of, count = np.unique(np.stack([s, r]), axis=1, return_inverse=True, return_counts=True)
    objects = np.unique(np.stack([of.reshape(-1), o]), axis=1)[0]
    several = np.bincount(objects, minlength=pair.shape[1]) > 2
    best = int(np.argmax(np.where(several, count, 0) if several.any() else count))
    names = index.vocab.entities[pair[0, best]], index.vocab.relations[pair[1, best]]
    return {"subject": names[0], "relation": names[1], "at": state.tell(place(index, None))}


def figures(run: Path) -> dict[str, dict[str, float]]:
    """Time-aware metrics in per cent for each evaluated part; empty if the run was not evaluated."""
    stored = RunFolder(run).metrics()
    try:
        parts = {part: stored[part]["time-aware"] for part in ("valid", "test") if part in stored}
        return {part: {name: float(value) for name, value in metrics.items()} for part, metrics in parts.items()}
    except (ValueError, LookupError, TypeError, AttributeError):
        return {}
