"""A window knows nothing at or after its target time, and queries are the edges of the target."""

from __future__ import annotations

import pytest
import torch

from conftest import make_timeline
from tangokg.snapshots.ranges import expand
from tangokg.snapshots.windows import draw_windows, queries_at, queries_of, windows_ahead, windows_at


@pytest.mark.parametrize("horizon", [0.0, 0.5, 1.0, 2.0, 3.5, 100.0])
def test_known_snapshots_end_at_the_horizon_and_before_the_target(horizon: float) -> None:
    timeline = make_timeline(2)
    target = torch.tensor([0, 8, 3, 4])
    windows = windows_at(timeline, target, horizon)
    times = timeline.t.tolist()
    for j, known, t in zip(target.tolist(), windows.known.tolist(), windows.t.tolist(), strict=True):
        assert t == times[j]
        assert known == sum(u < t and u <= t - horizon for u in times)


def test_a_window_some_steps_ahead_knows_so_many_snapshots_less_and_one_at_least() -> None:
    timeline = make_timeline(2)
    target, ahead = torch.tensor([8, 3, 4, 1]), torch.tensor([0, 2, 7, 0])
    windows = windows_ahead(timeline, target, ahead)
    assert windows.known.tolist() == [8, 1, 1, 1]
    assert windows.known_on_host.tolist() == windows.known.tolist()
    assert windows.t.tolist() == timeline.t[target].tolist()


def test_horizons_are_drawn_and_half_of_the_windows_stay_one_step_ahead() -> None:
    timeline, target = make_timeline(2), torch.full((4000,), 8)
    ahead = 8 - draw_windows(timeline, target, 4, torch.Generator().manual_seed(0)).known
    share = torch.bincount(ahead, minlength=4) / len(ahead)
    assert share.tolist() == pytest.approx([5 / 8, 1 / 8, 1 / 8, 1 / 8], abs=0.03)
    assert draw_windows(timeline, target[:3], 1, torch.Generator()).known.tolist() == [8, 8, 8]


def test_queries_are_the_edges_of_the_targets_grouped_by_window() -> None:
    timeline = make_timeline()
    target = torch.tensor([4, 1])
    queries = queries_at(timeline, target)
    for w, j in enumerate(target.tolist()):
        here = queries.select(queries.window == w)
        assert [here.s.tolist(), here.r.tolist(), here.answer.tolist()] == [
            column.tolist() for column in (timeline[j].s, timeline[j].r, timeline[j].o)
        ]
    assert queries.window.tolist() == sorted(queries.window.tolist())


def test_expand_concatenates_ranges_empty_ones_too() -> None:
    start, stop = torch.tensor([4, 0, 7, 2]), torch.tensor([6, 1, 7, 5])
    positions, owner = expand(start, stop)
    pairs = [(p, i) for i, (a, b) in enumerate(zip(start.tolist(), stop.tolist(), strict=True)) for p in range(a, b)]
    assert list(zip(positions.tolist(), owner.tolist(), strict=True)) == pairs


def test_some_edges_are_asked_at_the_snapshots_that_hold_them() -> None:
    timeline = make_timeline(1)
    rows = torch.randperm(len(timeline.o), generator=torch.Generator().manual_seed(0))[:17]
    windows, queries = queries_of(timeline, rows)
    assert (windows.known.diff() > 0).all()
    assert torch.equal(windows.t, timeline.t[windows.known])
    found = torch.stack([windows.known[queries.window], queries.s, queries.r, queries.answer])
    snapshot = torch.tensor([sum(int(end) <= row for end in timeline.offset[1:]) for row in rows.tolist()])
    expected = torch.stack([snapshot, *(column[rows] for column in (timeline.s, timeline.r, timeline.o))])
    assert sorted(found.T.tolist()) == sorted(expected.T.tolist())
    assert (queries.window.diff() >= 0).all()
