"""The evaluator equals one that asks each query alone, and gives the known figures on known sets."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch
from torch import Tensor

from tangokg.errors import DataError, TrainingError
from tangokg.models.counters import COUNTERS, CopyLast
from tangokg.models.protocol import Model
from tangokg.quads import data_folders
from tangokg.quads.clock import Clock
from tangokg.quads.folders import read_folder
from tangokg.quads.values import Quadruples
from tangokg.quads.vocabulary import Vocabulary
from tangokg.rank import FILTERS, Listed, Metrics, Protocol, evaluate, examine, horizon, inductive, prepare, true_facts
from tangokg.rank.evaluate import CELL_BYTES, CELLS, MOST_CELLS, fitting_cells
from tangokg.rank.protocols import SINGLE_STEP
from tangokg.rank.ranks import count_rivals
from tangokg.snapshots.timeline import Timeline, build_timeline
from tangokg.snapshots.windows import Queries, Windows

N, R, T = 9, 3, 8
DATA = os.environ.get("TANGOKG_DATA")


@pytest.fixture(scope="module")
def facts() -> Quadruples:
    rng = np.random.default_rng(5)
    s, r, o, t = (rng.integers(size, size=260) for size in (N, R, N, T))
    return Quadruples(s, r, o, t, Vocabulary(tuple("abcdefghi"), ("likes", "meets", "visits")), Clock("step"))


@pytest.fixture(scope="module")
def timeline(facts: Quadruples) -> Timeline:
    return build_timeline(facts)


class Tabled(Model):
    """Tied scores that depend on all of a query but its answer, and on how much its window knows."""

    def __init__(self) -> None:
        super().__init__()
        self.modes: list[tuple[bool, bool]] = []  # (training, gradients on) at each call

    def encode(self, timeline: Timeline, windows: Windows) -> tuple[int, Windows]:
        self.modes.append((self.training, torch.is_grad_enabled()))
        return timeline.num_entities, windows

    def score(self, encoded: tuple[int, Windows], queries: Queries) -> Tensor:
        num_entities, windows = encoded
        known, t = windows.known[queries.window], windows.t[queries.window].long()
        o = torch.arange(num_entities)
        return ((3 * queries.s + 5 * queries.r + 7 * known + t)[:, None] * (o + 2) % 11 // 3).float()


def rows_of(metrics: Metrics) -> dict[tuple[float, ...], dict[str, float]]:
    """(s, r, answer, t) -> realistic rank under each filter."""
    asked = torch.stack([metrics.s, metrics.r, metrics.answer, metrics.t], dim=1).tolist()
    assert len({tuple(query) for query in asked}) == len(asked)
    return {tuple(q): {name: float(metrics.ranks[name].realistic[i]) for name in FILTERS} for i, q in enumerate(asked)}


def slow_evaluation(
    model: Model, facts: Quadruples, target: Tensor, dt: int
) -> dict[tuple[float, ...], dict[str, float]]:
    """Each query alone, in Python, with sets of true facts; times are 0 .. T - 1, so a snapshot's index is its time."""
    both = {(int(s), int(r), int(o), int(t)) for s, r, o, t in zip(facts.s, facts.r, facts.o, facts.t, strict=True)}
    both |= {(o, r + R, s, t) for s, r, o, t in both}
    timeline = build_timeline(facts)
    result: dict[tuple[float, ...], dict[str, float]] = {}
    for s, r, o, t in both:
        if t not in target.tolist():
            continue
        window = Windows(torch.tensor([t - dt + 1]), torch.tensor([t], dtype=torch.float64))
        query = Queries(*(torch.tensor([v]) for v in (0, s, r, o)))
        x = model.score(model.encode(timeline, window), query)[0].tolist()
        now = {b for b in range(N) if (s, r, b, t) in both} - {o}
        ever = {b for b in range(N) if any((s, r, b, u) in both for u in range(T))} - {o}
        ranks = {}
        for name, out in (("raw", set[int]()), ("time-aware", now), ("time-unaware", ever)):
            rest = [x[b] for b in range(N) if b != o and b not in out]
            ranks[name] = 1 + sum(v > x[o] for v in rest) + sum(v == x[o] for v in rest) / 2
        result[s, r, o, t] = ranks
    return result


@pytest.mark.parametrize("name", ["tabled", *COUNTERS])
@pytest.mark.parametrize("dt", [1, 3])
def test_evaluation_equals_asking_each_query_alone(name: str, dt: int, facts: Quadruples, timeline: Timeline) -> None:
    model = COUNTERS[name]() if name in COUNTERS else Tabled()
    target = torch.tensor([4, 5, 7])
    fast = evaluate(model, timeline, target, SINGLE_STEP if dt == 1 else horizon(dt))
    slow = slow_evaluation(model, facts, target, dt)
    assert rows_of(fast) == slow
    for filter_name in FILTERS:
        reciprocal = [1 / ranks[filter_name] for ranks in slow.values()]
        assert fast[filter_name].mrr == pytest.approx(100 * np.mean(reciprocal), rel=1e-12)


def test_raw_time_aware_and_time_unaware_ranks_are_ordered(timeline: Timeline) -> None:
    metrics = evaluate(Tabled(), timeline, torch.arange(2, T))
    for kind in ("optimistic", "realistic", "pessimistic"):
        raw, aware, unaware = (getattr(metrics.ranks[name], kind) for name in ("raw", "time-aware", "time-unaware"))
        assert (raw >= aware).all()
        assert (aware >= unaware).all()
        assert (unaware >= 1).all()
        assert (raw > aware).any()
        assert (aware > unaware).any()


@pytest.mark.parametrize(
    "protocol", [SINGLE_STEP, inductive(torch.arange(N) < N - 1)], ids=["single-step", "inductive"]
)
def test_chunks_and_batches_change_nothing(protocol: Protocol, timeline: Timeline) -> None:
    target = torch.tensor([2, 3, 5, 6, 7])
    whole = rows_of(evaluate(Tabled(), timeline, target, protocol))
    for cells, windows_at_once in ((1, 1), (4 * N, 2), (10**6, 3), (10**6, 100)):
        some = evaluate(Tabled(), timeline, target, protocol, true_facts(timeline), cells, windows_at_once)
        assert rows_of(some) == whole


def test_one_exam_serves_several_models(timeline: Timeline) -> None:
    target = torch.tensor([3, 4, 7])
    exam = prepare(timeline, target)
    for model in (Tabled(), CopyLast(), Tabled()):
        assert rows_of(examine(model, exam)) == rows_of(evaluate(model, timeline, target))


def test_counting_a_chunk_reads_nothing_back(timeline: Timeline) -> None:
    """On a device without data every look at a value is an error; on a GPU it would be a wait."""
    exam = prepare(timeline, torch.tensor([3, 4, 7]))
    away = {
        name: Listed(some.o.to("meta"), some.start.to("meta"), some.stop.to("meta"), some.before)
        for name, some in exam.left_out.items()
    }
    pairs = {name: some.pairs(2, 7) for name, some in away.items()}
    counted = count_rivals(torch.empty(5, N, device="meta"), exam.queries.answer[2:7].to("meta"), pairs)
    for name, some in exam.left_out.items():
        assert pairs[name][0].shape == some.pairs(2, 7)[0].shape
        assert counted.greater[name].shape == counted.equal[name].shape == counted.damaged.shape == (5,)


def test_a_damaged_score_is_an_error_wherever_it_stands(timeline: Timeline) -> None:
    class Damaged(Tabled):
        def score(self, encoded: tuple[int, Windows], queries: Queries) -> Tensor:
            scores = super().score(encoded, queries)
            scores[queries.s == 4, 2] = torch.nan
            return scores

    exam = prepare(timeline, torch.tensor([3, 7]))
    message = f"{int((exam.queries.s == 4).sum())} of {len(exam)} queries have a score that is not a number"
    for cells in (1, None):
        with pytest.raises(TrainingError, match=message):
            examine(Damaged(), exam, cells)


def test_chunks_follow_the_free_memory_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the allocator holds without need is free too."""
    held = {"memory_reserved": 3 * 2**30, "memory_allocated": 2**30}
    for name, size in held.items():
        monkeypatch.setattr(torch.cuda, name, lambda device, size=size: size)
    found = []
    for free in (0, 2 * 2**30, 100 * 2**30):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device, free=free: (free, 2**40))
        found.append(fitting_cells(torch.device("cuda")))
    assert found == [2**31 // CELL_BYTES, 2**32 // CELL_BYTES, MOST_CELLS]
    assert fitting_cells(torch.device("cpu")) == CELLS


def test_what_is_true_may_come_from_a_longer_timeline(facts: Quadruples, timeline: Timeline) -> None:
    """Facts are matched by their time, not by the index of a snapshot."""
    known = build_timeline(facts.select((facts.t >= 2) & (facts.t < 7)))
    found = rows_of(evaluate(CopyLast(), known, torch.tensor([4]), facts=true_facts(timeline)))
    assert found == rows_of(evaluate(CopyLast(), timeline, torch.tensor([6])))


def test_the_model_is_asked_in_evaluation_mode_and_given_back_as_it_was(timeline: Timeline) -> None:
    model = Tabled()
    for training in (True, False):
        model.train(training)
        evaluate(model, timeline, torch.tensor([3]))
        assert model.training is training
    assert model.modes == [(False, False)] * 2
    assert torch.is_grad_enabled()


def test_progress_counts_queries_to_the_end(timeline: Timeline) -> None:
    heard: list[tuple[int, int]] = []
    metrics = evaluate(Tabled(), timeline, torch.tensor([3, 4]), cells=7 * N, progress=lambda *at: heard.append(at))
    done, total = zip(*heard, strict=True)
    assert done == (*range(7, metrics.queries, 7), metrics.queries)
    assert set(total) == {metrics.queries}


def test_no_query_is_an_error(timeline: Timeline) -> None:
    with pytest.raises(DataError, match="asks no query at the 1 target snapshots"):
        evaluate(Tabled(), timeline, torch.tensor([3]), inductive(torch.ones(N, dtype=torch.bool)))


@pytest.mark.skipif(DATA is None, reason="TANGOKG_DATA is not set: the benchmark sets are not at hand")
@pytest.mark.parametrize(("name", "mrr"), [("YAGO", 88.8), ("ICEWS14s", 9.8)])
def test_copy_last_gives_the_known_figure(name: str, mrr: float) -> None:
    """Figures found independently, to 0.1."""
    data = read_folder(next(place / name for place in data_folders() if (place / name).is_dir()))
    timeline = build_timeline(data.facts)
    target = torch.arange(timeline.before(float(data.test.t.min())), len(timeline))
    metrics = evaluate(CopyLast(), timeline, target)
    assert metrics["time-aware"].mrr == pytest.approx(mrr, abs=0.1)
