"""Runs of facts, by one sort over all events, equal what a walk through each fact's own times finds."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from conftest import R, make_timeline
from history.test_history import GAP, Event, events_before, partners_at
from tangokg.history.lasting import AGES, NUM_RUN_FEATURES, run_features
from tangokg.history.occurrences import occurrences_of, past_of
from tangokg.history.runs import LONGEST_GAP, find_runs, starts_among
from tangokg.snapshots.timeline import Timeline

TARGET = [4, 8]


def runs_of(events: list[Event], fact: tuple[int, int, int]) -> list[float]:
    """When each run of a fact began."""
    times = sorted(t for s, r, o, t in events if (s, r, o) == fact)
    return [t for i, t in enumerate(times) if i == 0 or t - times[i - 1] > LONGEST_GAP * GAP]


def last_start(events: list[Event], entity: int, label: int | None) -> float:
    facts = {(s, r, o) for s, r, o, _ in events if s == entity and label in (None, r)}
    return max(runs_of(events, fact)[-1] for fact in facts)


@pytest.mark.parametrize("seed", [4, 5])
def test_a_run_goes_on_until_a_longer_gap(seed: int) -> None:
    timeline = make_timeline(seed, snapshots=15)
    occurrences, runs = occurrences_of(timeline), timeline.derive(find_runs, GAP)
    events = events_before(timeline, len(timeline))
    several = 0
    for row in range(len(occurrences.edge)):
        edge, t = int(occurrences.edge[row]), float(occurrences.times[row])
        fact = int(timeline.s[edge]), int(timeline.r[edge]), int(timeline.o[edge])
        begun = [start for start in runs_of(events, fact) if start <= t]
        assert float(runs.start[row]) == begun[-1]
        assert int(runs.number[row]) == len(begun)
        several += len(begun) > 1 or t > begun[-1]
    assert several > 10, "facts that last, and facts that come back"


def test_starts_among_edges_are_those_of_the_timeline() -> None:
    timeline = make_timeline(4, snapshots=15)
    order = np.random.default_rng(0).permutation(len(timeline.s))
    j = torch.repeat_interleave(timeline.offset.diff())
    columns = (timeline.s, timeline.t[j].long(), timeline.r // R, timeline.r % R, timeline.o)
    mask = starts_among(tuple(column.numpy()[order] for column in columns), GAP)
    assert np.sort(order[mask]).tolist() == timeline.derive(find_runs, GAP).starts.tolist()


def described(timeline: Timeline, known: int, t: float, fact: tuple[int, int, int]) -> list[float]:
    """The features of one fact, one after the other, up to the statistics of its object's starts."""
    events, (s, r, o) = events_before(timeline, known), fact
    begun = runs_of(events, fact)
    age = (t - begun[-1]) / GAP
    lasting = fact in {event[:3] for event in events if event[3] == float(timeline.t[known - 1])}
    place = sum(age > bound for bound in AGES)
    found = [0.2 * math.log(age), 1 / (1 + age), 0.3 * math.log1p(len(begun)), float(lasting)]
    found += [float(i == place) for i in range(len(AGES) + 1)]
    roles = (s, r), (o, (r + R) % (2 * R)), (s, None), (o, None)
    return found + [float(last_start(events, *role) > begun[-1]) for role in roles]


def test_features_of_runs_are_those_of_the_formula() -> None:
    timeline = make_timeline(6)
    partners = partners_at(timeline, TARGET)
    queries, occurrences = partners.queries, occurrences_of(timeline)
    known = partners.windows.known[queries.window]
    past = past_of(occurrences, queries.s * occurrences.num_labels + queries.r, known)
    found = run_features(partners, past, GAP, torch.float64)
    for row in range(0, len(past.row), 3):
        q = int(past.row[row])
        fact = int(queries.s[q]), int(queries.r[q]), int(past.o[row])
        window = int(queries.window[q])
        expected = described(timeline, TARGET[window], float(partners.windows.t[window]), fact)
        assert found[row, : NUM_RUN_FEATURES + 4].tolist() == pytest.approx(expected, abs=1e-12)
    begun = found[:, NUM_RUN_FEATURES : NUM_RUN_FEATURES + 4].mean(0)
    assert ((begun > 0.05) & (begun < 0.95)).all(), "both happen in every role"
