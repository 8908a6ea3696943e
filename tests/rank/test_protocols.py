"""What each protocol knows and asks."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor

from conftest import make_timeline
from tangokg.errors import ConfigError, DataError
from tangokg.quads.clock import Clock
from tangokg.quads.values import Quadruples
from tangokg.quads.vocabulary import Vocabulary
from tangokg.rank.protocols import (
    PLAIN,
    PROTOCOLS,
    SINGLE_STEP,
    Protocol,
    horizon,
    inductive,
    multi_step,
    named,
    single_step,
)
from tangokg.snapshots.timeline import Timeline, build_timeline
from tangokg.snapshots.windows import Queries, Windows

N = 12


@pytest.fixture
def timeline() -> Timeline:
    rng = np.random.default_rng(1)
    t = np.sort(rng.choice([0, 1, 2, 4, 7, 8, 9, 11, 12], size=120))
    entity = (rng.random((2, 120)) * (4 + t * (N - 4) / 12)).astype(np.int64)  # newcomers all the time
    names = Vocabulary(tuple("abcdefghijkl"), ("likes", "meets"))
    return build_timeline(Quadruples(entity[0], rng.integers(2, size=120), entity[1], t, names, Clock("step")))


TARGET = torch.tensor([5, 6, 7, 8])


def columns(queries: Queries) -> list[tuple[int, ...]]:
    rows = torch.stack([queries.window, queries.s, queries.r, queries.answer], dim=1)
    return [tuple(row) for row in rows.tolist()]


def seen_before(timeline: Timeline, snapshot: int) -> Tensor:
    """(N,) bool: the entities of the snapshots before this one."""
    return torch.isin(torch.arange(timeline.num_entities), timeline.s[: timeline.offset[snapshot]])


def made(name: str, timeline: Timeline) -> Protocol:
    settings: dict[str, tuple[object, ...]] = {
        "horizon": (2.0,),
        "inductive": (seen_before(timeline, 5),),
        "multi-step": (float(timeline.t[6]),),
    }
    return PROTOCOLS[name](*settings.get(name, ()))


@pytest.mark.parametrize("name", PROTOCOLS)
def test_nothing_at_or_after_the_target_time_is_known(name: str, timeline: Timeline) -> None:
    windows, queries = made(name, timeline).ask(timeline, TARGET)
    assert torch.equal(windows.t, timeline.t[TARGET])
    assert (timeline.t[windows.known - 1] < windows.t).all()
    assert len(queries) > 0
    assert (queries.window.diff() >= 0).all()


def test_single_step_knows_all_before(timeline: Timeline) -> None:
    assert SINGLE_STEP.ask(timeline, TARGET)[0].known.tolist() == TARGET.tolist()
    assert single_step(horizon(3)).ask(timeline, TARGET)[0].known.tolist() == TARGET.tolist()


@pytest.mark.parametrize("dt", [1, 2, 2.5, 5, 20])
def test_a_horizon_asks_the_same_queries_with_a_history_that_ends_at_t_minus_dt(dt: float, timeline: Timeline) -> None:
    windows, queries = horizon(dt).ask(timeline, TARGET)
    assert columns(queries) == columns(SINGLE_STEP.ask(timeline, TARGET)[1])
    expected = [sum(float(u) <= float(t) - dt for u in timeline.t) for t in windows.t]
    assert windows.known.tolist() == expected


@pytest.mark.parametrize("dt", [0, -1, float("nan"), float("inf")])
def test_an_impossible_horizon_is_an_error(dt: float) -> None:
    with pytest.raises(ConfigError, match="expected a number of time steps above 0"):
        horizon(dt)


@pytest.mark.parametrize("since", [-1.0, 4.0, 7.5, 8.0, 99.0])
def test_in_multi_step_nothing_from_a_time_on_is_known_for_any_target(since: float, timeline: Timeline) -> None:
    windows, queries = multi_step(since).ask(timeline, TARGET)
    assert columns(queries) == columns(SINGLE_STEP.ask(timeline, TARGET)[1])
    assert windows.t.tolist() == timeline.t[TARGET].tolist()
    assert windows.known.tolist() == [sum(float(u) < min(since, float(t)) for u in timeline.t) for t in windows.t]


def test_inductive_asks_for_facts_with_an_entity_that_training_never_saw(timeline: Timeline) -> None:
    known = set(timeline.s[: timeline.offset[5]].tolist()) | set(timeline.o[: timeline.offset[5]].tolist())
    seen = seen_before(timeline, 5)
    every = columns(SINGLE_STEP.ask(timeline, TARGET)[1])
    expected = [q for q in every if q[1] not in known or q[3] not in known]
    assert 0 < len(expected) < len(every)
    assert columns(inductive(seen).ask(timeline, TARGET)[1]) == expected


def test_protocols_compose_in_any_order(timeline: Timeline) -> None:
    seen = seen_before(timeline, 5)
    for alone, *joined in (
        (horizon(3), horizon(3, inductive(seen)), inductive(seen, horizon(3))),
        (multi_step(8.0), multi_step(8.0, inductive(seen)), inductive(seen, multi_step(8.0))),
    ):
        for both in joined:
            windows, queries = both.ask(timeline, TARGET)
            assert windows.known.tolist() == alone.ask(timeline, TARGET)[0].known.tolist()
            assert columns(queries) == columns(inductive(seen).ask(timeline, TARGET)[1])


def test_a_fixed_history_is_one_more_value(timeline: Timeline) -> None:
    def fixed(timeline: Timeline, target: Tensor, known: int) -> Windows:
        return Windows(torch.full_like(target, known), timeline.t[target])

    windows, queries = Protocol(partial(fixed, known=5)).ask(timeline, TARGET)
    assert windows.known.tolist() == [5] * 4
    assert columns(queries) == columns(SINGLE_STEP.ask(timeline, TARGET)[1])


def test_a_name_that_came_after_training_is_not_seen() -> None:
    timeline = make_timeline(0)
    target = torch.tensor([len(timeline) - 1])
    shorter = torch.ones(int(timeline[len(timeline) - 1].o.min()) + 1, dtype=torch.bool)
    _, queries = inductive(shorter).ask(timeline, target)
    assert len(queries)
    assert ((queries.s >= len(shorter)) | (queries.answer >= len(shorter))).all()


def test_protocols_that_need_no_number_have_names() -> None:
    for name in PLAIN:
        assert isinstance(named(name), Protocol)
    for name in {*PROTOCOLS} - {*PLAIN}:
        with pytest.raises(TypeError):
            PROTOCOLS[name]()
        with pytest.raises(DataError, match="Choose one of single-step, tgb, or a value"):
            named(name)
