"""Parts in time order share no time and lose no fact."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tangokg.errors import DataError
from tangokg.quads import read_events
from tangokg.quads.clock import Clock
from tangokg.quads.splits import split, split_at, split_tgb, thin, thin_dataset
from tangokg.quads.values import Quadruples
from tangokg.quads.vocabulary import Vocabulary

TIMES = st.lists(st.integers(-50, 50), min_size=1, max_size=60).map(sorted)


def facts_at(times: list[int], clock: Clock = Clock("step")) -> Quadruples:  # noqa: B008 (frozen)
    t = np.array(times, np.int64)
    s = np.arange(len(t))  # a number of its own for each fact
    return Quadruples(s, s * 0, s, t, Vocabulary(tuple(map(str, range(len(t)))), ("r",)), clock)


@given(times=TIMES, train=st.floats(0.05, 1), valid=st.floats(0, 1))
def test_a_split_is_a_partition_at_two_borders(times: list[int], train: float, valid: float) -> None:
    facts = facts_at(times)
    data = facts.split(train, min(valid, 1 - train), name="x")
    assert np.concatenate([data.train.s, data.valid.s, data.test.s]).tolist() == facts.s.tolist()
    assert len(data.train) > 0
    ranges = [set(part.t.tolist()) for part in (data.train, data.valid, data.test)]
    assert max(ranges[0]) < min(ranges[1] | ranges[2], default=99)
    assert max(ranges[1], default=-99) < min(ranges[2], default=99)
    assert data.name == "x"


@given(times=TIMES)
def test_shares_are_met_to_half_a_snapshot_and_no_part_is_left_out(times: list[int]) -> None:
    data = split(facts_at(times))
    distinct, counts = np.unique(times, return_counts=True)
    if len(distinct) >= 3:
        assert min(len(data.train), len(data.valid), len(data.test)) > 0
    if len(distinct) >= 30:  # far from the ends, where each part must get a time
        assert abs(len(data.train) - 0.8 * len(times)) <= counts.max() / 2 + counts[-2:].sum()


def test_ten_even_days_are_cut_eight_one_one() -> None:
    data = split(facts_at([day for day in range(10) for _ in range(5)]))
    assert [sorted(set(part.t)) for part in (data.train, data.valid, data.test)] == [list(range(8)), [8], [9]]


def test_cut_by_date_is_half_open() -> None:
    facts = facts_at(list(range(10)), Clock("day", "2014-01-01"))
    data = split_at(facts, "2014-01-05", "2014-01-08")
    assert [part.t.tolist() for part in (data.train, data.valid, data.test)] == [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]]
    with pytest.raises(DataError, match="no fact lies before 2014-01-01: the training part would be empty"):
        split_at(facts, "2014-01-01", "2014-01-08")
    with pytest.raises(DataError, match="the test part would begin at 2, before the validation part at 4"):
        split_at(facts, 4, 2)


def test_a_cut_within_a_step_leaves_the_step_whole_and_later(tmp_path: Path) -> None:
    path = tmp_path / "weeks.csv"
    days = ["2024-02-26", "2024-03-04", "2024-03-06", "2024-03-10", "2024-03-11", "2024-03-18"]
    path.write_text("subject,relation,object,time\n" + "".join(f"a,meets,b{i},{day}\n" for i, day in enumerate(days)))
    data = split_at(read_events(path, unit="week"), "2024-03-06", "2024-03-13")
    assert [len(part) for part in (data.train, data.valid, data.test)] == [1, 3, 2], "the weeks of the 4th and the 11th"


@pytest.mark.parametrize(("train", "valid"), [(0, 0.5), (1.1, 0), (0.8, 0.3), (0.5, -0.1), (float("nan"), 0.1)])
def test_shares_out_of_range_are_refused(train: float, valid: float) -> None:
    with pytest.raises(DataError, match="expected 0 < train, 0 <= valid and train"):
        split(facts_at([1, 2, 3]), train, valid)


def test_nothing_cannot_be_split() -> None:
    with pytest.raises(DataError, match="no facts to split"):
        split(facts_at([]))


@given(times=TIMES, seed=st.integers(0, 99), longest=st.integers(1, 5))
def test_thinning_keeps_whole_snapshots_with_gaps_in_range(times: list[int], seed: int, longest: int) -> None:
    facts = facts_at(times)
    thinned = thin(facts, seed, longest)
    kept = np.unique(thinned.t)
    assert thinned.s.tolist() == facts.s[np.isin(facts.t, kept)].tolist()
    position = np.searchsorted(np.unique(facts.t), kept)
    assert position[0] == 0
    assert set(np.diff(position)) <= set(range(1, longest + 1))
    assert len(np.unique(facts.t)) - position[-1] <= longest
    assert thin(facts, seed, longest).s.tolist() == thinned.s.tolist()


def test_gaps_are_uniform_and_another_seed_draws_others() -> None:
    facts = facts_at(list(range(20_000)))
    gaps = np.diff(thin(facts, 0).t)
    assert np.bincount(gaps)[1:] / len(gaps) == pytest.approx([0.25] * 4, abs=0.02)
    assert thin(facts, 1).t.tolist() != thin(facts, 0).t.tolist()


def test_a_thinned_set_is_one_timeline_in_the_same_parts() -> None:
    data = split(facts_at(list(range(100))))
    thinned = thin_dataset(data, seed=3)
    assert thinned.facts.t.tolist() == thin(data.facts, seed=3).t.tolist()
    for part in ("train", "valid", "test"):
        assert set(getattr(thinned, part).t) <= set(getattr(data, part).t)
    with pytest.raises(DataError, match="a longest gap of 0 found"):
        thin(data.facts, 0, longest=0)


@given(times=TIMES, valid=st.floats(0, 0.4), test=st.floats(0, 0.4))
def test_the_parts_of_tgb_end_at_quantiles_of_the_times_in_both_directions(
    times: list[int], valid: float, test: float
) -> None:
    facts = facts_at(times)
    data = split_tgb(facts, valid, test, name="x")
    assert np.concatenate([data.train.s, data.valid.s, data.test.s]).tolist() == facts.s.tolist()
    ordered = sorted(times * 2)
    for earlier, later, share in ((data.train, data.valid, 1 - valid - test), (data.valid, data.test, 1 - test)):
        place = share * (len(ordered) - 1)
        if abs(place - round(place)) > 1e-6:  # else rounding says to which side of the quantile a time belongs
            assert max(earlier.t, default=min(times)) <= ordered[math.floor(place)]
            assert min(later.t, default=max(times) + 1) > ordered[math.floor(place)]
    assert any("empty" in note for note in data.notes) == (min(len(data.valid), len(data.test)) == 0)


def test_the_parts_of_tgb_hold_facts_decades_away_and_say_where_steps_hide_times() -> None:
    years = [0, *(1990 + i for i in range(40) for _ in range(50))]
    data = split_tgb(facts_at(years, Clock("year", "0001-01-01")))
    assert (data.before, data.after, int(data.train.t.min())) == (None, None, 0)
    days = facts_at(list(range(20)))
    hourly = replace(days, t=days.t // 2, exact=days.t / 2)
    assert [any("fall into one step" in note for note in split_tgb(one).notes) for one in (days, hourly)] == [
        False,
        True,
    ]


@pytest.mark.parametrize(("valid", "test"), [(-0.1, 0.1), (0.5, 0.5), (float("nan"), 0.1)])
def test_shares_of_tgb_out_of_range_are_refused(valid: float, test: float) -> None:
    with pytest.raises(DataError, match="add up to less than 1"):
        split_tgb(facts_at([1, 2, 3]), valid, test)
    with pytest.raises(DataError, match="no facts to split"):
        split_tgb(facts_at([]))
