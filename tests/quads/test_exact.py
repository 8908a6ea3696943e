"""Facts keep their exact moments beside their steps, wherever they go."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tangokg.errors import RunError
from tangokg.quads.adapt import adapt
from tangokg.quads.clock import UNITS, Clock
from tangokg.quads.splits import split
from tangokg.quads.tables import read_table
from tangokg.quads.values import Quadruples, concatenate
from tangokg.train import RunFolder, make_config

CALENDAR = [unit for unit in UNITS if unit != "step"]
MOMENTS = st.lists(st.datetimes(datetime(1600, 1, 1), datetime(2400, 1, 1)), min_size=1, max_size=6)
STAMPS = ["2024-02-10T18:00", "2024-02-06T09:30", "2024-02-16T00:00", "2024-03-01T12:00"]


def table(stamps: list[str]) -> pa.Table:
    n = len(stamps)
    return pa.table(
        {"subject": ["a"] * n, "relation": ["r"] * n, "object": [f"o{i}" for i in range(n)], "time": stamps}
    )


def shown(facts: Quadruples) -> list[str]:
    return [facts.clock.format(float(moment)) for moment in facts.moments]


@pytest.mark.parametrize("unit", CALENDAR)
@given(moments=MOMENTS)
def test_a_moment_lies_in_its_step_and_comes_back(unit: str, moments: list[datetime]) -> None:
    clock = Clock(unit, "2011-03-07")
    array = np.array(moments, "datetime64[us]")
    exact, t = clock.exact(array), clock.steps(array)
    assert (np.floor(exact) == t).all()
    assert exact == pytest.approx([clock.parse(moment) for moment in moments], abs=1e-9, rel=1e-12)
    fine = np.spacing(np.abs(exact)) * np.float64(31_622_400e6 if unit in ("quarter", "year") else 2_678_400e6) < 0.5
    error = np.abs((clock.moments(exact) - array).astype(np.int64))
    assert (error <= np.where(fine, 1, 1000)).all()
    whole = array.astype("datetime64[s]").astype("datetime64[us]")
    assert (clock.moments(clock.exact(whole)) == whole).all()


@pytest.mark.parametrize("unit", ["hour", "day", "week", "month", "year"])
def test_a_table_keeps_the_date_of_each_fact(unit: str) -> None:
    facts = read_table(table(STAMPS), unit=unit)
    again = [datetime.fromisoformat(text if len(text) > 4 else f"{text}-01-01") for text in shown(facts)]
    assert sorted(again) == sorted(datetime.fromisoformat(text) for text in STAMPS)


def test_a_moment_at_midnight_is_shown_as_its_date() -> None:
    facts = read_table(table(["2024-02-06", "2024-02-09"]), unit="week")
    assert shown(facts)[1] == "2024-02-09"


def test_facts_on_their_steps_carry_no_second_column() -> None:
    assert read_table(table(["2024-02-10", "2024-02-11"]), unit="day").exact is None
    numbers = replace(read_table(table(["2024-02-10", "2024-02-11"]), unit="day"), clock=Clock("step"))
    assert numbers.moments.tolist() == [0.0, 1.0]


def test_an_interval_begins_at_its_moment_and_goes_on_by_steps() -> None:
    held = pa.table({"s": ["a"], "r": ["r"], "o": ["b"], "start": ["2003-07-02"], "end": ["2005-03-01"]})
    facts = read_table(held, unit="year")
    assert shown(facts) == ["2003-07-02", "2004", "2005"]


def test_moments_stay_with_their_facts() -> None:
    facts = read_table(table(STAMPS), unit="week")
    by_object = dict(zip(facts.o.tolist(), shown(facts), strict=True))
    parts = split(facts, 0.5, 0.25)
    coarse = replace(facts, exact=None)
    for kept in (facts.select(facts.o > 0), facts.before(2), parts.facts, concatenate([facts, facts.select(slice(1))])):
        assert kept.exact is not None
        assert all(by_object[o] == text for o, text in zip(kept.o.tolist(), shown(kept), strict=True))
    mixed = concatenate([coarse, facts])
    assert mixed.moments.tolist() == [*facts.t.astype(float), *facts.moments]
    assert concatenate([coarse, coarse]).exact is None


@pytest.mark.parametrize("unit", ["hour", "day", "week", "month", "year"])
def test_another_clock_takes_the_moment_not_the_step(unit: str) -> None:
    facts = read_table(table(STAMPS), unit="week")
    to = Clock(unit, "2020-01-06")
    found = adapt(facts, facts.vocab, to)
    straight = to.steps(np.sort(np.array(STAMPS, "datetime64[us]")))
    assert np.array_equal(np.sort(found.t), straight)
    assert np.allclose(np.sort(found.moments), to.exact(np.sort(np.array(STAMPS, "datetime64[us]"))), atol=1e-9)


def test_a_run_folder_keeps_moments_and_reads_those_without(tmp_path: Path) -> None:
    data = split(read_table(table(STAMPS), unit="week"), 0.5, 0.25)
    run = RunFolder(tmp_path / "run")
    run.create(data, make_config("recurrence"))
    assert shown(run.dataset().facts) == shown(data.facts)
    path = run.path / "history.parquet"
    stored = pq.read_table(path)
    pq.write_table(stored.drop_columns(["exact"]), path)  # as an older version wrote it
    assert run.dataset().facts.exact is None
    assert run.dataset().same_facts(data)
    pq.write_table(stored.set_column(5, "exact", [np.full(len(stored), np.nan)]), path)
    with pytest.raises(RunError, match="a moment lies outside the step of its fact"):
        run.dataset()
