"""The hazard looks at what is known alone, is the same each time, and grows with the span."""

from __future__ import annotations

import pytest
import torch

from conftest import N, R, facts_like, make_facts
from tangokg.history.hazard import Hazard, fit_hazard, hazard_from
from tangokg.quads.values import Quadruples, concatenate
from tangokg.quads.world import make_world
from tangokg.snapshots.timeline import Timeline, build_timeline

PAIRS = torch.arange(N * 2 * R)


def fitted(facts: Quadruples) -> tuple[Hazard, Timeline]:
    timeline = build_timeline(facts)
    return fit_hazard(timeline, 20, 5), timeline


def asked(hazard: Hazard, timeline: Timeline, known: int, t: float, span: bool = False) -> torch.Tensor:
    rows, times = torch.full_like(PAIRS, known), torch.full(PAIRS.shape, t, dtype=torch.float64)
    return hazard.chance(timeline, PAIRS, rows, times, span)


FACTS = make_facts(3, snapshots=30)


def later_is_otherwise(t: float) -> Quadruples:
    later = FACTS.select(FACTS.t >= t)
    rows = zip(later.s, later.r, later.o, later.t, strict=True)
    other = facts_like(FACTS, [(int(o), int(r + 1) % R, int(s), int(at) + 2) for s, r, o, at in rows])
    return concatenate([FACTS.before(t), other])


@pytest.mark.parametrize("span", [False, True])
@pytest.mark.parametrize("ahead", [0.0, 1.5, 30.0])
def test_no_chance_depends_on_what_is_not_known(span: bool, ahead: float) -> None:
    hazard, timeline = fitted(FACTS)
    t = float(timeline.t[26])
    other = build_timeline(later_is_otherwise(t))
    assert torch.equal(asked(hazard, timeline, 26, t + ahead, span), asked(hazard, other, 26, t + ahead, span))
    assert not torch.equal(asked(hazard, timeline, 26, t, span), asked(hazard, timeline, 20, t, span))


def test_fitting_does_not_look_beyond_validation() -> None:
    hazard, timeline = fitted(FACTS)
    other, _ = fitted(later_is_otherwise(float(timeline.t[25])))
    assert all(torch.equal(x, other.tensors()[name]) for name, x in hazard.tensors().items())


def test_what_is_kept_comes_back() -> None:
    hazard, timeline = fitted(FACTS)
    again = hazard_from(hazard.tensors())
    t = float(timeline.t[-1]) + 1
    for span in (False, True):
        assert torch.equal(asked(again, timeline, 30, t, span), asked(hazard, timeline, 30, t, span))


def test_a_longer_span_is_never_less_likely() -> None:
    hazard, timeline = fitted(FACTS)
    last = float(timeline.t[-1])
    spans = torch.stack([asked(hazard, timeline, 30, last + days, True) for days in (*range(1, 12), 17, 33, 50, 90)])
    assert ((spans >= 0) & (spans <= 1)).all()
    assert (spans.diff(dim=0) >= -1e-12).all()


def test_nothing_to_learn_from_gives_how_often_it_was() -> None:
    facts = facts_like(FACTS, [(0, 0, 1, 3)])
    hazard = fit_hazard(build_timeline(facts), 1, 0)
    p = asked(hazard, build_timeline(facts), 1, 4.0)
    assert float(p[0]) == pytest.approx(0.75)
    assert p.isfinite().all()


@pytest.mark.slow
def test_a_rhythm_is_learned() -> None:
    """In the built-in world: of the visits that are due, most happen; of those that just were, hardly any."""
    world = make_world(1, 60, 0, 365)
    timeline, train = build_timeline(world.facts), len(world.t) * 8 // 10
    hazard = fit_hazard(timeline, train, len(world.t) // 10)
    target = torch.arange(len(world.t) * 9 // 10, len(world.t))
    pair = torch.unique(timeline.s * 2 * timeline.num_relations + timeline.r)
    known = target.repeat_interleave(len(pair))
    pairs = pair.repeat(len(target))
    p = hazard.chance(timeline, pairs, known, timeline.t[known])
    edges = timeline.s * 2 * timeline.num_relations + timeline.r
    edges = torch.repeat_interleave(timeline.offset.diff()) * 10**6 + edges
    y = torch.isin(known * 10**6 + pairs, edges).double()
    assert ((p - y) ** 2).mean() < 0.6 * ((y.mean() - y) ** 2).mean()
