"""The chance of a fact at many times, which shows the continuous time of the model."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tangokg.errors import DataError
from tangokg.forecast.answering import AskedAt
from tangokg.forecast.questions import make_question
from tangokg.quads.values import Ids
from tangokg.serve.asking import check_span
from tangokg.serve.schemas import Curve
from tangokg.serve.state import State


def curve(state: State, request: Curve, span: float) -> dict[str, Any]:
    """The chance of (subject, relation, object), or of any object, at the steps from ``since`` to ``until``.

    Each step is a separate question: it uses all facts before the step; after the last fact, it uses all facts.
    """
    names = request.subject, request.relation, request.object
    first = make_question(state.index, *names, at=request.since)
    until = request.until
    end = (
        first.step + max(request.points - 1, 1) if until is None else make_question(state.index, *names, at=until).step
    )
    check_span(state, max(first.t, end), span)
    if end < first.step or end - first.step > span:
        raise DataError(f"a curve runs from since to a later until, {span:,.0f} {state.clock.unit}s at most.")
    steps = np.unique(np.floor(np.linspace(first.step, end, request.points)))
    chances = _chances(state, first.s, first.r, first.o, steps)
    return {
        "position": state.position,
        "points": [{"at": state.tell(t), "chance": p} for t, p in zip(steps.tolist(), chances, strict=True)],
        "trusted_until": state.trusted,
        "base": _base(state, first.s, first.r, first.o, end),
    }


def _chances(state: State, s: int | None, r: int | None, o: int | None, steps: Any) -> list[float]:
    assert s is not None
    assert r is not None
    answering, t = state.answering, torch.from_numpy(steps)
    pair = torch.full((len(t),), s * answering.labels + r)
    known = torch.searchsorted(state.index.times, t)
    with torch.inference_mode():
        if o is None:
            history = state.known.history_of(pair // answering.labels)
            chance = answering.chances.pair(history, pair, known, t)
        else:
            _, chance, _ = answering.chances_of(pair, torch.full_like(pair, o), AskedAt(known, t, t, False))
    return [float(p) for p in chance]


def _base(state: State, s: int | None, r: int | None, o: int | None, step: float) -> float | None:
    """The share of the times with facts before a step at which the fact stood."""
    times = int(np.searchsorted(state.index.t, step))
    return float(len(np.unique(times_of(state, s, r, o, step))) / times) if times else None


def times_of(state: State, s: int | None, r: int | None, o: int | None, step: float) -> Ids:
    """The times before a step of the facts (s, r, o), or of (s, r) with any object."""
    _, t, inverse, label, partner = state.index.take(np.array([s]), -np.inf, step)
    matches = (inverse == 0) & (label == r)
    times: Ids = t[matches if o is None else matches & (partner == o)]
    return times
