"""Counts, ages and gaps found by search equal a look at every snapshot."""

from __future__ import annotations

import pytest
import torch

from conftest import N, R, make_timeline
from tangokg.history.features import expected_objects, fact_features, pair_features
from tangokg.history.given import fact_numbers
from tangokg.history.series import FAR, active_pairs, edges_about, pasts_of, recent_pairs, tell, usual_gap
from tangokg.snapshots.timeline import Timeline


def times_with(timeline: Timeline, pair: int, known: int) -> list[int]:
    """The known snapshots in which a pair has a fact."""
    s, r = pair // (2 * R), pair % (2 * R)
    return [j for j in range(known) if bool(((timeline[j].s == s) & (timeline[j].r == r)).any())]


@pytest.mark.parametrize("known", [1, 4, 9])
def test_what_is_told_of_a_pair_equals_a_slow_look(known: int) -> None:
    timeline = make_timeline(1)
    gap = usual_gap(timeline.t)
    pasts, pair = pasts_of(timeline, gap), torch.arange(N * 2 * R)
    t = float(timeline.t[known - 1]) + 2
    rows = torch.full_like(pair, known)
    told = tell(pasts.pair, pair, rows, torch.full(pair.shape, t / gap, dtype=torch.float64), (1, 3))
    several = 0
    for p in pair.tolist():
        at = times_with(timeline, p, known)
        moments = [float(timeline.t[j]) / gap for j in at]
        gaps = torch.tensor(moments).diff()
        assert int(told.count[p]) == len(at)
        assert told.recent[p].tolist() == [sum(j >= known - w for j in at) for w in (1, 3)]
        assert float(told.age[p]) == pytest.approx(t / gap - moments[-1] if at else FAR)
        assert int(told.last[p]) == (at[-1] if at else -1)
        if len(at) > 1:
            several += 1
            assert float(told.mean_gap[p]) == pytest.approx(float(gaps.mean()))
            assert float(told.least_gap[p]) == pytest.approx(float(gaps.min()))
            assert float(told.last_gap[p]) == pytest.approx(float(gaps[-1]))
            spread = float(gaps.std(correction=0) / gaps.mean())
            assert float(told.spread[p]) == pytest.approx(spread, abs=1e-6)
    assert several or known < 4


@pytest.mark.parametrize("known", [1, 4, 9])
def test_the_edges_about_some_pairs_say_of_them_what_all_edges_say(known: int) -> None:
    timeline = make_timeline(1)
    gap, pair = usual_gap(timeline.t), torch.arange(0, N * 2 * R, 7)
    rows, t = torch.full_like(pair, known), torch.full(pair.shape, float(known), dtype=torch.float64)
    active = torch.bincount(pasts_of(timeline, gap).pair.j, minlength=len(timeline))
    some = timeline.only(edges_about(timeline, pair)).give(active_pairs, active)
    assert len(some.o) < len(timeline.o)
    o = torch.arange(N).repeat(len(pair))
    said = []
    for part in (timeline, some):
        pasts, of = pasts_of(part, gap), torch.arange(len(pair)).repeat_interleave(N)
        fact = fact_numbers(part, pair[of], o)
        of_facts = fact_features(pasts, pair[of], fact, rows[of], t[of])
        said.append((fact >= 0, of_facts, pair_features(pasts, pair, rows, t)))
    assert all(torch.equal(whole, part) for whole, part in zip(*said, strict=True))


def test_recently_active_pairs_are_those_of_the_last_snapshots() -> None:
    timeline = make_timeline(1)
    known = torch.tensor([3, 8])
    t = timeline.t[known]
    window, pair = recent_pairs(timeline, known, t, 4.0)
    for w in range(2):
        near = [j for j in range(int(known[w])) if float(timeline.t[j]) >= float(t[w]) - 4.0]
        rows = {(int(s), int(r)) for j in near for s, r in zip(timeline[j].s, timeline[j].r, strict=True)}
        assert set(pair[window == w].tolist()) == {s * 2 * R + r for s, r in rows}


def test_features_are_finite_for_pairs_and_facts_that_never_were() -> None:
    timeline = make_timeline(1)
    pasts, pair = pasts_of(timeline, 1.0), torch.arange(N * 2 * R)
    for known in (0, 1, len(timeline)):
        rows, t = torch.full_like(pair, known), torch.full(pair.shape, 40.0, dtype=torch.float64)
        fact = fact_numbers(timeline, pair, torch.zeros_like(pair))
        assert (fact == -1).any()
        assert pair_features(pasts, pair, rows, t).isfinite().all()
        assert fact_features(pasts, pair, fact, rows, t).isfinite().all()
        assert (expected_objects(pasts, pair, rows) > 0).all()
