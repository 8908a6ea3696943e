"""Counters count what their docstrings say, and nothing that is not known."""

from __future__ import annotations

import gc
from dataclasses import replace
from typing import Any
from weakref import ref

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from tangokg.history import occurrences_of
from tangokg.models import MODELS
from tangokg.models.counters import COUNTERS, Counter, Recurrence, RecurrenceSettings
from tangokg.models.sparse import sparse_scores
from tangokg.quads.clock import Clock
from tangokg.quads.values import Quadruples
from tangokg.quads.vocabulary import Vocabulary
from tangokg.snapshots.timeline import Timeline, build_timeline
from tangokg.snapshots.windows import Queries, Windows, queries_at, windows_at

HISTORY = [  # s, r, o, t
    (0, 0, 1, 0),
    (0, 0, 1, 2),
    (0, 0, 1, 2),
    (0, 0, 2, 2),
    (0, 0, 3, 7),
    (0, 1, 3, 7),
    (0, 0, 1, 9),
]


def timeline_of(rows: list[tuple[int, int, int, int]]) -> Timeline:
    s, r, o, t = np.array(rows, dtype=np.int64).T
    return build_timeline(Quadruples(s, r, o, t, Vocabulary(tuple("abcdef"), ("likes", "meets")), Clock("step")))


def ask(model: Counter, timeline: Timeline, s: int, r: int, known: int, t: float) -> list[float]:
    windows = Windows(torch.tensor([known]), torch.tensor([t], dtype=torch.float64))
    query = Queries(*(torch.tensor([v]) for v in (0, s, r, 0)))
    scores: list[float] = model.score(model.encode(timeline, windows), query)[0].tolist()
    return scores


@pytest.mark.parametrize(
    ("name", "known", "expected"),
    [
        ("copy-last", 2, [0, 1, 1, 0, 0, 0]),
        ("copy-last", 3, [0, 0, 0, 1, 0, 0]),
        ("copy-last", 0, [0] * 6),
        ("frequency", 3, [0, 2, 1, 1, 0, 0]),
        ("frequency", 4, [0, 3, 1, 1, 0, 0]),
        ("frequency", 0, [0] * 6),
        ("recurrence", 3, [0, 2**-1.0, 2**-1.0, 2**-0.5, 0, 0]),
        ("recurrence", 4, [0, 2**-0.3, 2**-1.0, 2**-0.5, 0, 0]),
        ("recurrence", 0, [0] * 6),
    ],
)
def test_scores_by_hand(name: str, known: int, expected: list[float]) -> None:
    """(0, likes, ?) at t = 12; snapshots are at 0, 2, 7 and 9."""
    assert ask(COUNTERS[name](), timeline_of(HISTORY), 0, 0, known, 12.0) == pytest.approx(expected, rel=1e-6)


def test_subjects_are_counted_through_reciprocal_edges() -> None:
    assert ask(COUNTERS["frequency"](), timeline_of(HISTORY), 1, 2, 4, 12.0) == [3, 0, 0, 0, 0, 0]


def test_the_decay_is_a_setting_and_an_old_fact_never_ties_with_none() -> None:
    timeline = timeline_of(HISTORY)
    assert ask(Recurrence(RecurrenceSettings(decay=1.0)), timeline, 0, 0, 1, 3.0) == [0, 2**-3, 0, 0, 0, 0]
    old, never = ask(Recurrence(), timeline, 0, 0, 1, 1e6)[1:3]
    assert old > never == 0


def random_rows(seed: int) -> list[tuple[int, int, int, int]]:
    rng = np.random.default_rng(seed)
    columns = [rng.integers(size, size=150).tolist() for size in (6, 2, 6, 9)]
    return [(s, r, o, t) for s, r, o, t in zip(*columns, strict=True)]


@pytest.mark.parametrize("name", COUNTERS)
def test_nothing_at_or_after_the_first_unknown_snapshot_changes_a_score(name: str) -> None:
    rows = random_rows(0)
    windows = Windows(torch.tensor([3, 5]), torch.tensor([5.0, 6.0], dtype=torch.float64))
    s, r, w = torch.cartesian_prod(torch.arange(6), torch.arange(4), torch.arange(2)).unbind(1)
    queries = Queries(w, s, r, torch.zeros_like(s))

    def scores(rows: list[tuple[int, int, int, int]]) -> Tensor:
        return COUNTERS[name]().score(COUNTERS[name]().encode(timeline_of(rows), windows), queries)

    other = [row for row in rows if row[3] < 5] + [(o, 1 - r, s, t + 1) for s, r, o, t in rows if t >= 5]
    other.append((0, 0, 0, 5))
    early = [row for row in other if row[3] < 3] + [(o, r, s, t) for s, r, o, t in other if t >= 3]
    assert torch.equal(scores(rows), scores(other))
    assert torch.equal(scores(rows)[w == 0], scores(early)[w == 0])
    assert not torch.equal(scores(rows)[w == 1], scores(early)[w == 1])


@pytest.mark.parametrize("name", COUNTERS)
def test_a_batch_equals_one_query_at_a_time(name: str) -> None:
    timeline = timeline_of(random_rows(1))
    model, target = COUNTERS[name](), torch.tensor([0, 3, 4, 8])
    windows, queries = windows_at(timeline, target), queries_at(timeline, target)
    together = model.score(model.encode(timeline, windows), queries)
    for i, (w, s, r) in enumerate(zip(queries.window, queries.s, queries.r, strict=True)):
        known, t = int(windows.known[w]), float(windows.t[w])
        assert together[i].tolist() == pytest.approx(ask(model, timeline, int(s), int(r), known, t), rel=1e-15)


@pytest.mark.parametrize("name", COUNTERS)
def test_objects_with_the_same_past_tie_exactly(name: str) -> None:
    """Also where a vectorised function would round the end of an array differently: every length up to 40."""
    for count in range(2, 41):
        s, o, t = np.zeros(count, np.int64), np.arange(count), np.full(count, 3)
        names = Vocabulary(tuple(f"e{i}" for i in range(count)), ("likes",))
        timeline = build_timeline(Quadruples(s, s, o, t, names, Clock("step")))
        assert len(set(ask(COUNTERS[name](), timeline, 0, 0, 1, 8.0))) == 1


@pytest.mark.parametrize("name", COUNTERS)
def test_probabilities_sum_to_one_and_keep_the_order(name: str) -> None:
    timeline = timeline_of(HISTORY)
    model = COUNTERS[name]()
    scores = torch.tensor([ask(model, timeline, 0, 0, 4, 1e6), ask(model, timeline, 5, 0, 4, 12.0)]).double()
    p = model.probabilities(scores)
    assert p.sum(1).tolist() == pytest.approx([1, 1])
    assert p[1].tolist() == pytest.approx([1 / 6] * 6)
    assert torch.equal(p[0].argsort(stable=True), scores[0].argsort(stable=True))


def test_the_sorted_history_is_derived_once_and_goes_with_its_timeline() -> None:
    timeline = timeline_of(HISTORY)
    occurrences = occurrences_of(timeline)
    assert occurrences_of(timeline) is occurrences
    held = ref(occurrences)
    del timeline, occurrences
    gc.collect()
    assert held() is None


class Largest(TorchDispatchMode):
    """Under it: how many entries the largest tensor has that an operation makes."""

    entries = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        some = made if isinstance(made, (tuple, list)) else [made]
        self.entries = max(self.entries, *(x.numel() for x in some if isinstance(x, Tensor)), 0)
        return made


@pytest.mark.parametrize("name", [*COUNTERS, "recurrency", "cygnet", "tango"])
def test_nothing_has_an_entry_for_each_subject_label_and_object(name: str) -> None:
    """As a dense vocabulary would: on ICEWS05-15 it takes 220 GB."""
    n, r = 500, 90
    names = Vocabulary(tuple(f"e{i}" for i in range(n)), tuple(f"r{i}" for i in range(r)))
    rng = np.random.default_rng(0)
    s, label, o, t = (rng.integers(size, size=90) for size in (n, r, n, 9))
    timeline = build_timeline(Quadruples(s, label, o, t, names, Clock("step")))
    recipe = MODELS[name]
    small = {name: 8 for name in ("dim", "width") if hasattr(recipe.settings, name)}
    settings = replace(recipe.settings, **small)
    model = recipe.build(settings, timeline, torch.Generator())
    model.settle(timeline)
    windows, queries = windows_at(timeline, torch.arange(1, 9)), queries_at(timeline, torch.arange(1, 9))
    few = queries.select(torch.arange(0, len(queries), 8))
    with Largest() as largest:  # type: ignore[no-untyped-call]
        model.score(model.encode(timeline, windows), few)
        if any(True for _ in model.parameters()):
            model(timeline, windows, few, torch.Generator()).backward()
    assert len(few) * n <= largest.entries < n * 2 * r


def test_sparse_values_add_up_and_have_gradients() -> None:
    row, o = torch.tensor([0, 1, 1, 1]), torch.tensor([2, 0, 0, 1])
    value = torch.randn(4, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    expected = torch.zeros(2, 3, dtype=torch.float64)
    for b, n, v in zip(row, o, value.detach(), strict=True):
        expected[b, n] += v
    assert torch.allclose(sparse_scores(row, o, value, 2, 3), expected, rtol=0, atol=1e-15)
    assert torch.autograd.gradcheck(lambda v: sparse_scores(row, o, v, 2, 3), (value,))
