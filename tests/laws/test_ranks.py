"""What must hold for the ranks of every model, and for the windows of every solver."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from conftest import all_queries, equal, make_dataset, make_forecaster
from tangokg.models import MODELS, Model
from tangokg.quads.values import Dataset
from tangokg.rank import FILTERS, Metrics, evaluate
from tangokg.snapshots.timeline import Timeline, build_timeline
from tangokg.snapshots.windows import Queries, Windows, windows_at
from tangokg.solve import ADAPTIVE, SOLVERS

EVERY = pytest.mark.parametrize("name", MODELS)


def measured(name: str, seed: int = 1) -> tuple[Dataset, Timeline, Model, Metrics]:
    """The model of this name on the last snapshots of the small data."""
    dataset = make_dataset(seed)
    model, timeline = make_forecaster(name, dataset).model, build_timeline(dataset.facts)
    return dataset, timeline, model, evaluate(model, timeline, torch.arange(4, len(timeline)))


@EVERY
def test_a_stronger_filter_never_makes_a_rank_worse(name: str) -> None:
    """raw >= time-aware >= time-unaware >= 1 for each query, however ties are counted."""
    *_, metrics = measured(name)
    assert list(FILTERS) == ["raw", "time-aware", "time-unaware"]
    for kind in ("optimistic", "realistic", "pessimistic"):
        raw, aware, unaware = (getattr(metrics.ranks[filter_name], kind) for filter_name in FILTERS)
        assert (raw >= aware).all()
        assert (aware >= unaware).all()
        assert (unaware >= 1).all()
        assert raw.sum() > aware.sum() > unaware.sum(), "on these data each filter must leave something out"


@EVERY
def test_ranks_are_those_of_the_answer_among_what_is_not_left_out(name: str) -> None:
    """The slow way, query by query; the answer is true itself and is there all the same."""
    dataset, timeline, model, metrics = measured(name)
    scores = scores_of(model, timeline, metrics)
    R = dataset.vocab.num_relations
    facts = {
        fact for f in zip(*(getattr(dataset.facts, c).tolist() for c in "srot"), strict=True) for fact in both(f, R)
    }
    rows = zip(metrics.s.tolist(), metrics.r.tolist(), metrics.answer.tolist(), metrics.t.tolist(), strict=True)
    for i, (s, r, answer, t) in enumerate(rows):
        assert (s, r, answer, t) in facts
        now = {o for (s2, r2, o, t2) in facts if (s2, r2, t2) == (s, r, t)}
        ever = {o for (s2, r2, o, _) in facts if (s2, r2) == (s, r)}
        for filter_name, true in (("raw", set()), ("time-aware", now), ("time-unaware", ever)):
            others = [float(x) for o, x in enumerate(scores[i]) if o != answer and o not in true]
            own = float(scores[i, answer])
            rank = 1 + sum(x > own for x in others) + sum(x == own for x in others) / 2
            assert metrics.ranks[filter_name].realistic[i] == rank


def both(fact: tuple[int, int, int, int], R: int) -> list[tuple[int, int, int, int]]:
    """A fact and its reciprocal."""
    s, r, o, t = fact
    return [fact, (o, r + R, s, t)]


def scores_of(model: Model, timeline: Timeline, metrics: Metrics) -> Tensor:
    """The scores behind ``metrics``, for its queries in their order."""
    times, window = torch.unique(metrics.t, return_inverse=True)
    windows = Windows(torch.searchsorted(timeline.t, times), times)
    with torch.inference_mode():
        return model.score(model.encode(timeline, windows), Queries(window, metrics.s, metrics.r, metrics.answer))


def solving(solver: str, rtol: float) -> tuple[Timeline, Model]:
    """TANGO with this solver over intervals long enough for it to matter."""
    dataset = make_dataset(1)
    train = build_timeline(dataset.train)
    small: dict[str, Any] = {
        "dim": 5,
        "history": 3,
        "step_time": 0.4,
        "solver": solver,
        "rtol": rtol,
        "atol": rtol / 10,
    }
    settings = replace(MODELS["tango-distmult"].settings, **small)
    model = MODELS["tango-distmult"].build(settings, train, torch.Generator().manual_seed(2)).double()
    model.settle(train)
    return build_timeline(dataset.facts), model.eval()


@pytest.mark.parametrize("rtol", [1e-3, 1e-5])
@pytest.mark.parametrize("solver", SOLVERS)
def test_a_batch_of_windows_equals_one_at_a_time(solver: str, rtol: float) -> None:
    """On a fixed grid to rounding; an adaptive solver chooses its steps by the error of the whole batch.

    It keeps its local error below rtol * |z| + atol either way, so both are as near to the solution, and to each
    other, as a small multiple of rtol. Far smaller ones prove nothing: at a kink of relu the estimate sees too little.
    """
    timeline, model = solving(solver, rtol)
    target = torch.tensor([5, 0, 8, 1, 6])
    windows, queries = windows_at(timeline, target), all_queries(len(target))
    with torch.inference_mode():
        together = model.score(model.encode(timeline, windows), queries)
        tolerance = 20 * rtol * float(together.abs().max()) if solver in ADAPTIVE else 1e-12
        for w in range(len(target)):
            own = queries.select(queries.window == w)
            one = Windows(windows.known[w : w + 1], windows.t[w : w + 1])
            alone = model.score(model.encode(timeline, one), replace(own, window=torch.zeros_like(own.window)))
            assert equal(alone, together[queries.window == w], tolerance)
