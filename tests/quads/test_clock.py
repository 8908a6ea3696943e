"""Steps and calendar dates are two names for the same times."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tangokg.errors import DataError
from tangokg.quads.clock import LENGTHS, UNITS, Clock

CALENDAR = [unit for unit in UNITS if unit != "step"]
ORIGIN = {"month": "2011-03", "year": "1830"}


def clock_of(unit: str) -> Clock:
    return Clock(unit, origin=ORIGIN.get(unit, "2011-03-07"))


@pytest.mark.parametrize("unit", CALENDAR)
@given(t=st.integers(-1500, 90_000))
def test_whole_steps_survive_format_and_parse(unit: str, t: int) -> None:
    clock = clock_of(unit)
    if unit in ("month", "quarter", "year", "week"):
        t %= 1000
    assert clock.parse(clock.format(t)) == t


@pytest.mark.parametrize("unit", CALENDAR)
@given(t=st.floats(0, 1000))
def test_fractions_survive_to_a_microsecond(unit: str, t: float) -> None:
    clock = clock_of(unit)
    microsecond = timedelta(microseconds=1) / LENGTHS.get(unit, timedelta(days=28))
    assert clock.parse(clock.format(t)) == pytest.approx(t, abs=2 * microsecond, rel=1e-12)


@pytest.mark.parametrize("unit", CALENDAR)
@given(moments=st.lists(st.datetimes(datetime(1600, 1, 1), datetime(2400, 1, 1)), min_size=1, max_size=5))
def test_steps_of_an_array_are_the_floor_of_parse(unit: str, moments: list[datetime]) -> None:
    clock = clock_of(unit)
    slow = [int(np.floor(clock.parse(moment))) for moment in moments]
    assert clock.steps(np.array(moments, "datetime64[us]")).tolist() == slow


def test_known_dates() -> None:
    day, month, year = Clock("day", "2014-01-01"), Clock("month", "2014-01"), Clock("year", "1830")
    assert day.parse("2014-11-26") == day.parse(date(2014, 11, 26)) == day.parse(329) == day.parse("329") == 329
    assert day.parse("2014-01-01T18:00") == 0.75
    assert day.parse("2015") == day.parse("2015-01") == 365
    assert day.format(329) == "2014-11-26"
    assert day.format(0.75) == "2014-01-01T18:00:00"
    assert Clock("hour", "2014-01-01").format(5) == "2014-01-01T05:00:00"
    assert month.parse("2014-02-15") == 1.5  # the middle of 28 days
    assert month.format(10) == "2014-11"
    assert year.parse("2017") == 187
    assert year.parse("2016-07-02") == 186.5  # a leap year has 366 days
    assert year.format(187) == "2017"
    assert Clock("step").parse("12.5") == 12.5
    assert Clock("step").format(12) == "12"


def test_aware_datetimes_count_in_utc() -> None:
    clock = Clock("hour", "2014-01-01")
    east = timezone(timedelta(hours=5))
    assert clock.parse(datetime(2014, 1, 1, 9, tzinfo=east)) == clock.parse("2014-01-01T04:00Z") == 4
    assert clock.parse(datetime(2014, 1, 1, 4, tzinfo=UTC)) == 4


@pytest.mark.parametrize("text", ["soon", "", "2014-13", "26.11.2014", "2014-02-30", "0000", "1e5", "٣-٤"])
def test_text_that_is_no_date_says_what_is_expected(text: str) -> None:
    with pytest.raises(DataError, match="expected an ISO date or datetime such as 2014-11-26"):
        Clock("day", "2014-01-01").parse(text)


def test_other_errors_say_what_is_wrong() -> None:
    with pytest.raises(DataError, match="unknown time unit 'fortnight': expected one of step, second"):
        Clock("fortnight")
    with pytest.raises(DataError, match="plain steps have no origin"):
        Clock("step", origin="2014-01-01")
    with pytest.raises(DataError, match="a step of 0 is impossible"):
        Clock("day", step=0)
    with pytest.raises(DataError, match="plain numbers, so a number is expected"):
        Clock("step").parse("2014-11-26")
    for value in (float("nan"), float("inf"), 10**400):
        with pytest.raises(DataError, match="not a finite number of days"):
            Clock("day", "2014-01-01").parse(value)
    for unit in CALENDAR:
        with pytest.raises(DataError, match="outside the years 1 to 9999"):
            clock_of(unit).format(1e15)


@pytest.mark.parametrize("value", [1711065600, "1711065600", "1711065600000"])
def test_a_unix_time_is_refused_with_its_date(value: int | str) -> None:
    with pytest.raises(DataError, match="give the date, such as '2024-03-22T00:00:00'"):
        Clock("day", origin="2024-01-01").parse(value)
