"""What happened before, by searches over sorted events, equals what a look at every fact finds."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from conftest import N, R, all_queries, equal, make_timeline, make_vocab
from tangokg.history import meetings_of, occurrences_of, past_of
from tangokg.history.decay import decayed_sums, decayed_sums_at
from tangokg.history.occurrences import acts_of, uses_of
from tangokg.history.partners import Partners, find_partners
from tangokg.history.statistics import NUM_STATISTICS, SCALES, TIME_CODE, count, statistics, time_code
from tangokg.quads.clock import Clock
from tangokg.quads.values import Quadruples
from tangokg.snapshots.timeline import Timeline, build_timeline
from tangokg.snapshots.windows import windows_at

ORDERS = {"facts": occurrences_of, "meetings": meetings_of, "acts": acts_of, "uses": uses_of}
GAP = 2.5
Event = tuple[int, int, int, float]  # s, r, o, t


def events_before(timeline: Timeline, known: int) -> list[Event]:
    """All edges of the first ``known`` snapshots in the order of time, then of (r, o)."""
    edges = [(j, *edge) for j in range(known) for edge in zip(*(c.tolist() for c in columns(timeline, j)), strict=True)]
    return [(s, r, o, float(timeline.t[j])) for j, s, r, o in edges]


def columns(timeline: Timeline, j: int) -> tuple[Tensor, Tensor, Tensor]:
    snapshot = timeline[j]
    return snapshot.s, snapshot.r, snapshot.o


def group(name: str, s: int, r: int) -> int:
    return s * 2 * R + r if name in ("facts", "uses") else s


def partners_at(timeline: Timeline, target: list[int]) -> Partners:
    windows = windows_at(timeline, torch.tensor(target))
    return find_partners(timeline, windows, all_queries(len(target)), GAP)


def test_the_last_object_of_a_group_is_not_the_first_of_the_next() -> None:
    last = N - 1
    s, r, o, t = np.array([[0, 1], [0, 0], [last, 0], [0, 0]])
    timeline = build_timeline(Quadruples(s, r, o, t, make_vocab(), Clock("step")))
    meetings = meetings_of(timeline)
    assert list(zip(meetings.pair.tolist(), meetings.o.tolist(), strict=True)) == [(0, 1), (0, last), (1, 0), (last, 0)]


@pytest.mark.parametrize("name", ORDERS)
def test_decayed_sums_add_what_every_earlier_occurrence_has_left(name: str) -> None:
    timeline = make_timeline(3)
    occurrences = ORDERS[name](timeline)
    scale = torch.tensor([0.5, 3.0, 40.0], dtype=torch.float64)
    found = decayed_sums(occurrences, scale)
    rows = list(zip(occurrences.fact.tolist(), occurrences.times.tolist(), strict=True))
    for n, (fact, t) in enumerate(rows):
        left = [math.exp(-(t - earlier) / 3.0) for other, earlier in rows[: n + 1] if other == fact]
        assert float(found[n, 1]) == pytest.approx(sum(left), abs=1e-12)
    assert found.shape == (len(rows), 3)
    some = torch.arange(0, len(rows), 3).flip(0)
    torch.testing.assert_close(decayed_sums_at(occurrences, some, scale), found[some], rtol=1e-13, atol=0.0)


@pytest.mark.parametrize("name", ORDERS)
def test_statistics_are_those_of_all_earlier_occurrences_at_a_time_between_snapshots(name: str) -> None:
    timeline = make_timeline(4)
    known, t = 6, float(timeline.t[5]) + 0.7
    counted = timeline.derive(count, ORDERS[name], GAP, torch.float64)
    groups = torch.unique(counted.occurrences.pair)
    past = past_of(counted.occurrences, groups, torch.full_like(groups, known))
    found = statistics(counted, past, torch.full((len(past.row),), t, dtype=torch.float64))
    before: dict[tuple[int, int], list[float]] = {}
    for s, r, o, at in events_before(timeline, known):
        before.setdefault((group(name, s, r), o if name in ("facts", "meetings") else 0), []).append(at)
    assert len(before) == len(past.row)
    for row, values in enumerate(found.tolist()):
        times = before[int(groups[past.row[row]]), int(past.o[row])]
        sums = [sum(math.exp(-(t - at) / (GAP * scale)) for at in times) for scale in SCALES]
        age, n = (t - times[-1]) / GAP, len(times)
        between = (times[-1] - times[0]) / GAP / max(n - 1, 1)
        phase = min(age / max(between, 0.5), 4.0) if n > 1 else 4.0
        expected = [*map(math.log1p, sums), *(a / (1 + a) for a in sums), 0.2 * math.log1p(n), 0.2 * math.log(age)]
        expected += [1 / (1 + age), 0.3 * math.log1p(between), 0.5 * phase, 1.0]
        assert values == pytest.approx(expected, abs=1e-12)
        assert len(values) == NUM_STATISTICS


def test_a_time_code_has_the_declared_size_and_stays_finite_at_age_zero() -> None:
    code = time_code(torch.tensor([0.0, 1.0, 1e6]))
    assert code.shape == (3, TIME_CODE)
    assert code.isfinite().all()


def test_partners_are_all_whom_a_subject_met_in_the_known_snapshots_and_nobody_else() -> None:
    timeline, target = make_timeline(5), [3, 7]
    partners = partners_at(timeline, target)
    query, z, begin = partners.pairs()
    found: dict[int, list[int]] = {}
    for q, o in zip(query.tolist(), partners.past.o[z].tolist(), strict=True):
        found.setdefault(q, []).append(o)
    queries = partners.queries
    for q in range(len(queries)):
        known = target[int(queries.window[q])]
        met = sorted({o for s, _, o, _ in events_before(timeline, known) if s == int(queries.s[q])})
        assert found.get(q, []) == met
        assert query[int(begin[q]) : int(begin[q]) + len(met)].tolist() == [q] * len(met)


def test_new_relations_are_looked_up_as_the_mean_of_their_direction() -> None:
    partners = partners_at(make_timeline(5), [3])
    table = torch.arange(4.0, dtype=torch.float64)[:, None]  # two relations were known: rows 0, 1 and 2, 3
    rows = partners.look_up(table, torch.arange(2 * R))
    assert equal(rows[:, 0], torch.tensor([0, 1, 0.5, 2, 3, 2.5], dtype=torch.float64))
