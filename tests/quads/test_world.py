"""The built-in world obeys the laws of its docstring, and its stated probabilities are those of what happens."""

from __future__ import annotations

import numpy as np
import pytest

from tangokg.errors import DataError
from tangokg.quads.values import Floats, Ids
from tangokg.quads.world import CRITICISM, RELATIONS, SANCTION, TRADE, Law, World, make_world

SEEDS = range(4)


@pytest.fixture(scope="module")
def worlds() -> list[World]:
    return [make_world(seed) for seed in SEEDS]


def keys(world: World, s: Ids, r: Ids, o: Ids, t: Ids) -> Ids:
    """One number for each (t, s, r, o)."""
    n = len(world.bloc)
    return ((t * n + s) * len(RELATIONS) + r) * n + o


def fact_keys(world: World) -> Ids:
    return keys(world, world.facts.s, world.facts.r, world.facts.o, world.facts.t)


def stated_keys(world: World) -> Ids:
    return keys(world, world.stated.s, world.stated.r, world.stated.o, world.stated.t)


def assert_binomial(hits: float, p: Floats, what: object, trials: Floats | int = 1) -> None:
    """``hits`` is within four standard deviations of what independent Bernoullis give, ``trials`` of each ``p``."""
    mean, variance = (trials * p).sum(), (trials * p * (1 - p)).sum()
    z = (hits - mean) / np.sqrt(variance)
    assert abs(z) < 4, f"{what}: {hits} happened, {mean:.1f} expected, z = {z:.1f}"


def test_one_seed_gives_one_world_and_another_seed_another(worlds: list[World]) -> None:
    again = make_world(SEEDS[0])
    assert np.array_equal(fact_keys(again), fact_keys(worlds[0]))
    assert np.array_equal(again.stated.p, worlds[0].stated.p)
    assert again.facts.vocab == worlds[0].facts.vocab
    assert not np.array_equal(again.t, worlds[1].t)
    assert again.facts.vocab.entities != worlds[1].facts.vocab.entities


def test_facts_are_distinct_join_two_actors_and_lie_on_every_observed_day(worlds: list[World]) -> None:
    for world in worlds:
        assert len(np.unique(fact_keys(world))) == len(world.facts)
        assert len(np.unique(stated_keys(world))) == len(world.stated.p)
        assert (world.facts.s != world.facts.o).all()
        assert np.array_equal(np.unique(world.facts.t), world.t)
        assert (np.diff(world.facts.t) >= 0).all()


def test_size_gaps_and_the_share_of_each_law(worlds: list[World]) -> None:
    shares = {
        Law.RHYTHM: (0.35, 0.5),
        Law.TIE: (0.3, 0.5),
        Law.SANCTION: (0.008, 0.02),
        Law.ANSWER: (0.03, 0.08),
        Law.NOISE: (0.05, 0.12),
    }
    assert set(shares) == set(Law)
    for world in worlds:
        assert 10_000 < len(world.facts) < 15_000
        assert 170 < len(world.t) < 230
        assert set(np.diff(world.t)) == {1, 2, 3, 4}
        for law, (least, most) in shares.items():
            assert least < (world.law == law).mean() < most, law


def test_parts_share_no_day_and_hold_every_fact(worlds: list[World]) -> None:
    for world in worlds:
        data = world.dataset
        days = [set(part.t.tolist()) for part in (data.train, data.valid, data.test)]
        assert max(days[0]) < min(days[1]) <= max(days[1]) < min(days[2])
        assert [round(10 * len(d) / len(world.t)) for d in days] == [8, 1, 1]
        assert len(data.facts) == len(world.facts)


def test_newcomers_are_absent_from_training_and_act_later(worlds: list[World]) -> None:
    for world in worlds:
        data, new = world.dataset, world.since > 0
        assert new.sum() == 25
        assert not new[np.concatenate([data.train.s, data.train.o])].any()
        seen = np.unique(np.concatenate([data.valid.s, data.valid.o, data.test.s, data.test.o]))
        assert new[seen].sum() >= 20
        facts = data.facts
        assert (facts.t >= np.maximum(world.since[facts.s], world.since[facts.o])).all()


def test_newcomers_are_as_busy_as_members(worlds: list[World]) -> None:
    """Stated facts of a subject for each day it can act: newcomers against members, over the days of the test part."""
    busy: dict[bool, list[float]] = {True: [], False: []}
    for world in worlds:
        start = world.dataset.test.t.min()
        p = np.bincount(world.stated.s, world.stated.p * (world.stated.t >= start), minlength=len(world.bloc))
        days = (world.t[:, None] >= np.maximum(world.since, start)).sum(0)
        for new in (True, False):
            rows = (world.since > 0) == new
            busy[new].append(p[rows].sum() / days[rows].sum())
    assert np.mean(busy[True]) == pytest.approx(np.mean(busy[False]), rel=0.2)


def test_stated_probabilities_are_calibrated(worlds: list[World]) -> None:
    """For each law, each length of gap and each range of p, as many stated facts happen as were to be expected."""
    p = np.concatenate([w.stated.p for w in worlds])
    law = np.concatenate([w.stated.law for w in worlds])
    gap = np.concatenate([np.diff(w.t, prepend=-1)[np.searchsorted(w.t, w.stated.t)] for w in worlds])
    hit = np.concatenate([np.isin(stated_keys(w), fact_keys(w)) for w in worlds])
    bins = np.digitize(p, np.linspace(0, 1, 11))
    for name, group in (("law", law), ("gap", gap), ("range of p", bins)):
        for value in np.unique(group):
            rows = group == value
            assert_binomial(hit[rows].sum(), p[rows], (name, value))


@pytest.mark.parametrize("r", range(len(RELATIONS)), ids=RELATIONS)
def test_the_floor_is_calibrated(worlds: list[World], r: int) -> None:
    """Facts that were not stated, across blocs and inside, come as often as the floor says for the pairs left."""
    for inside in (0, 1):
        hits, p, trials = 0, [], []
        for world in worlds:
            surprise = ~np.isin(fact_keys(world), stated_keys(world)) & (world.facts.r == r)
            hits += (surprise & ((world.bloc[world.facts.s] == world.bloc[world.facts.o]) == inside)).sum()
            stated = (world.stated.r == r) & ((world.bloc[world.stated.s] == world.bloc[world.stated.o]) == inside)
            taken = np.bincount(np.searchsorted(world.t, world.stated.t[stated]), minlength=len(world.t))
            for j, t in enumerate(world.t):
                size = np.bincount(world.bloc[world.since <= t])
                pairs = (size * (size - 1)).sum() if inside else size.sum() ** 2 - (size**2).sum()
                trials.append(pairs - taken[j])
            p.append(world.floor[:, r, inside])
        assert_binomial(hits, np.concatenate(p), (RELATIONS[r], inside), np.array(trials))


def test_a_sanction_follows_the_end_of_trade_and_little_else(worlds: list[World]) -> None:
    followed, total, elsewhere = 0, 0, []
    for world in worlds:
        facts, gone = world.facts, world.dissolutions
        sanctions = facts.select(facts.r == SANCTION)
        ends = gone.select((gone.r == TRADE) & (gone.t < world.t[-1] - 13))
        explained = np.zeros(len(sanctions), bool)
        for s, o, t in zip(ends.s, ends.o, ends.t, strict=True):
            after = (sanctions.s == s) & (sanctions.o == o) & (sanctions.t >= t + 2) & (sanctions.t <= t + 13)
            followed, total, explained = followed + after.any(), total + 1, explained | after
        elsewhere.append((~explained & (sanctions.t < world.t[-1] - 13)).sum() / (world.t[-1] * len(world.bloc)))
    assert_binomial(followed, np.array(0.6), "sanctions after the end of trade", total)
    assert np.mean(elsewhere) < 0.0015  # an actor and day, where the end of trade raises it to about 0.1


def test_half_of_all_criticism_is_answered_in_kind(worlds: list[World]) -> None:
    """Followed until day 8: day 5 after may fall into a gap. A second attack opens the days anew: first ones only."""
    answered, total = 0, 0
    for world in worlds:
        facts = world.facts.select(world.facts.r == CRITICISM)
        when: dict[tuple[int, int], list[int]] = {}
        for s, o, t in zip(facts.s.tolist(), facts.o.tolist(), facts.t.tolist(), strict=True):
            when.setdefault((s, o), []).append(t)
        for (s, o), (t, *_) in when.items():
            if t < world.t[-1] - 8 and not any(u <= t for u in when.get((o, s), [])):
                total, answered = total + 1, answered + any(u <= t + 8 for u in when.get((o, s), []))
    assert_binomial(answered, np.array(0.5), "answers", total)


def test_probabilities_of_answers_follow_from_earlier_facts_alone(worlds: list[World]) -> None:
    """A slow twin of law 4: the last attack before the day, the days that count, and noise."""
    world = worlds[0]
    facts, stated = world.facts, world.stated
    hazard = 1 - 0.5 ** (1 / 5)
    for i in np.flatnonzero(stated.law == Law.ANSWER):
        t1, t0 = stated.t[i], world.t[np.searchsorted(world.t, stated.t[i]) - 1]
        attack = (facts.r == CRITICISM) & (facts.s == stated.o[i]) & (facts.o == stated.s[i]) & (facts.t <= t0)
        t = facts.t[attack].max()
        days = len([day for day in range(t0 + 1, t1 + 1) if t + 1 <= day <= t + 5])
        noise = (1 - 0.008 / 249) ** (t1 - t0)
        assert stated.p[i] == pytest.approx(1 - (1 - hazard) ** days * noise, rel=1e-12)


@pytest.mark.parametrize(
    ("relation", "hazard", "across", "inside"), [(0, 0.04, 0.0006, 0.0026), (1, 0.02, 0.0001, 0.0009)]
)
def test_ties_end_and_form_at_their_rates_whatever_the_gap(
    worlds: list[World], relation: int, hazard: float, across: float, inside: float
) -> None:
    """Of the ties that stood, 1 - (1 - hazard)^gap ended; a pair that had none is reported by the rate of law 2."""
    for gap in (1, 2, 3, 4):
        ended, stood = 0, 0
        for world in worlds:
            days = world.t[1:][np.diff(world.t) == gap]
            ties = np.isin(world.stated.t, days) & (world.stated.r == relation)
            stood += ties.sum()
            ended += (np.isin(world.dissolutions.t, days) & (world.dissolutions.r == relation)).sum()
            for same, rate in enumerate((across / 225, inside / 24)):
                none = (1 - 0.95 * (1 - (1 - rate) ** gap)) * (1 - 0.0008 / 249) ** gap
                assert world.floor[np.isin(world.t, days), relation, same] == pytest.approx(1 - none, rel=1e-9)
        assert_binomial(ended, np.array(1 - (1 - hazard) ** gap), (RELATIONS[relation], gap), stood)


def test_rhythms_come_back_after_their_period(worlds: list[World]) -> None:
    """Facts of one rhythm are at least 14 days apart, but for noise; 0.7 a day makes long delays rare."""
    world = worlds[0]
    rhythm = world.law == Law.RHYTHM
    facts = world.facts.select(rhythm)
    triple = keys(world, facts.s, facts.r, facts.o, np.zeros_like(facts.t))
    order = np.lexsort((facts.t, triple))
    gaps = np.diff(facts.t[order])[np.diff(triple[order]) == 0]
    assert gaps.min() >= 14
    assert gaps.max() <= 2 * 56
    assert np.mean(gaps > 56 + 6) < 0.01


def test_an_impossible_world_is_refused() -> None:
    with pytest.raises(DataError, match=r"20 actors, 25 newcomers and 365 days.*at least 30 actors"):
        make_world(num_actors=20)
    with pytest.raises(DataError, match="59 days were asked for"):
        make_world(num_days=59)


def test_the_smallest_world_works() -> None:
    world = make_world(3, num_actors=30, num_newcomers=0, num_days=60)
    assert len(world.bloc) == 30
    assert world.dataset.test.t.max() <= 60
