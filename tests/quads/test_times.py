"""Times are read as they are meant: dates without separators, Unix times, zones, spacing, lone rows, open ends."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tangokg.errors import DataError
from tangokg.forecast.questions import place
from tangokg.quads.adapt import adapt
from tangokg.quads.clock import UNITS, Clock
from tangokg.quads.counts import inspect
from tangokg.quads.formats import NAMED
from tangokg.quads.splits import split, split_at
from tangokg.quads.tables import read_table
from tangokg.quads.values import Quadruples

DAY = date(2024, 2, 10)


def table(times: Any) -> pa.Table:
    n = len(times)
    return pa.table({"s": [f"s{i}" for i in range(n)], "r": ["r"] * n, "o": ["o"] * n, "t": times})


def dates(facts: Quadruples) -> list[str]:
    """The moment of each fact, in the order of the rows."""
    order = np.argsort(facts.s)
    return [facts.clock.format(float(moment)) for moment in facts.moments[order]]


# (a) and (b): numbers that are dates

STAMP = datetime(2024, 2, 10, 18, 30, tzinfo=UTC)
SECONDS = int(STAMP.timestamp())
WRITTEN: dict[str, tuple[int, str]] = {
    "YYYYMMDD": (20240210, "2024-02-10"),
    "YYYYMMDDHHMM": (202402101830, "2024-02-10T18:30:00"),
    "YYYYMMDDHHMMSS": (20240210183000, "2024-02-10T18:30:00"),
    "Unix seconds": (SECONDS, "2024-02-10T18:30:00"),
    "Unix milliseconds": (SECONDS * 10**3, "2024-02-10T18:30:00"),
    "Unix microseconds": (SECONDS * 10**6, "2024-02-10T18:30:00"),
    "Unix nanoseconds": (SECONDS * 10**9, "2024-02-10T18:30:00"),
}


@pytest.mark.parametrize("kind", [pa.int64(), pa.string(), pa.float64()], ids=str)
@pytest.mark.parametrize("form", WRITTEN)
def test_numbers_that_are_dates_are_read_as_dates(form: str, kind: pa.DataType) -> None:
    number, expected = WRITTEN[form]
    if kind == pa.float64() and number > 2**53:
        pytest.skip("a float has not so many digits")
    facts = read_table(table(pa.array([number]).cast(kind)))
    assert dates(facts) == [expected]
    assert facts.clock.unit == "day"
    assert any("read as" in note for note in facts.notes)
    if number < 2**53:
        plain = read_table(table(pa.array([number]).cast(kind)), unit="step")
        assert (plain.t.tolist(), plain.clock) == ([number], Clock("step")), "a unit of steps takes the number as it is"


def test_months_without_separators_and_columns_of_years_have_their_unit() -> None:
    months = read_table(table([202402, 202411, 202501]))
    assert (months.clock.unit, dates(months)) == ("month", ["2024-02", "2024-11", "2025-01"])
    years = read_table(table([2003, 2010]).rename_columns(["s", "r", "o", "year"]))
    assert (years.clock, dates(years)) == (Clock("year", "2003"), ["2003", "2010"])
    assert dates(read_table(table([2003, 2010]), unit="year")) == ["2003", "2010"]


@given(st.lists(st.integers(0, 9_999), min_size=1, max_size=20))
def test_small_numbers_stay_numbers(times: list[int]) -> None:
    facts = read_table(table(times))
    assert (facts.clock, sorted(times)) == (Clock("step"), facts.t.tolist())


@pytest.mark.parametrize("unit", [unit for unit in UNITS if unit not in ("step", "year")])
@pytest.mark.parametrize("times", [[1, 2, 3], [2003, 2004], ["1", "2"]], ids=str)
def test_a_unit_does_not_relabel_plain_numbers(unit: str, times: list[Any]) -> None:
    with pytest.raises(DataError, match=rf"plain numbers, such as .*, which a unit of {unit}s does not make dates"):
        read_table(table(times), unit=unit)


def test_unix_seconds_may_have_fractions() -> None:
    for times in ([SECONDS + 0.5], [f"{SECONDS}.5"]):
        assert dates(read_table(table(times), unit="second")) == ["2024-02-10T18:30:00.500000"]


def test_a_number_among_dates_is_a_bad_row() -> None:
    with pytest.raises(DataError, match="table: row 3: time 7 found; expected dates YYYYMMDD, as in the other rows"):
        read_table(table([20240210, 20240211, 7]))
    assert len(read_table(table([20240210, 20240211, 7]), skip_bad=True)) == 2


# (c): zones


def test_times_with_an_offset_are_converted_and_others_are_read_in_the_zone() -> None:
    aware, naive = ["2024-02-10T23:30:00Z", "2024-02-10T22:30:00Z"], ["2024-02-10T23:30", "2024-02-11T00:30"]
    berlin = read_table(table(aware), timezone="Europe/Berlin")
    assert berlin.clock == Clock("day", "2024-02-10", timezone="Europe/Berlin")
    assert dates(berlin) == ["2024-02-11T00:30:00", "2024-02-10T23:30:00"]
    assert dates(read_table(table(aware))) == ["2024-02-10T23:30:00", "2024-02-10T22:30:00"]
    assert dates(read_table(table(naive), timezone="Europe/Berlin")) == ["2024-02-10T23:30:00", "2024-02-11T00:30:00"]
    assert dates(read_table(table([SECONDS]), timezone="Asia/Tokyo")) == ["2024-02-11T03:30:00"]
    typed = pa.array([STAMP, STAMP], pa.timestamp("s", "Asia/Tokyo"))
    assert dates(read_table(table(typed), timezone="+02:00")) == ["2024-02-10T20:30:00"] * 2


def test_the_zone_that_was_used_is_said() -> None:
    for times, zone in ((["2024-02-10T12:00Z"], None), (["2024-02-10T12:00"], "Europe/Berlin")):
        facts = read_table(table(times), timezone=zone)
        assert any((zone or "UTC") in note for note in facts.notes)
        assert inspect(split(facts))["timezone"] == (zone or "UTC")
    assert inspect(split(read_table(table([1, 2]))))["timezone"] is None


@pytest.mark.parametrize(
    "times", [["2024-02-10T12:00Z", "2024-02-10T12:00"], ["2024-02-10", "2024-02-11T10:00+02:00"]], ids=str
)
@pytest.mark.parametrize("skip_bad", [False, True])
def test_times_with_and_without_an_offset_do_not_mix(times: list[str], skip_bad: bool) -> None:
    with pytest.raises(
        DataError, match=r"table: times with an offset \(.*\) and without one \(.*\) stand in one column"
    ):
        read_table(table(times), skip_bad=skip_bad)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "+05:45", "UTC"])
@pytest.mark.parametrize("unit", [unit for unit in UNITS if unit != "step"])
@given(st.datetimes(datetime(1990, 1, 1), datetime(2030, 1, 1)))
def test_a_clock_of_any_zone_counts_arrays_as_single_times(zone: str, unit: str, moment: datetime) -> None:
    clock = Clock(unit, "2011-03-07", timezone=zone)
    moment = moment.replace(microsecond=0)
    array = np.array([moment], "datetime64[us]")
    aware = moment.replace(tzinfo=UTC)
    assert clock.exact(array)[0] == pytest.approx(clock.parse(aware), abs=1e-9, rel=1e-12)
    assert clock.steps(array)[0] == np.floor(clock.exact(array)[0])
    again = clock.parse(clock.format(float(clock.exact(array)[0])))
    assert again == pytest.approx(clock.exact(array)[0], abs=1e-9, rel=1e-12)


def test_hours_are_counted_as_they_pass_and_days_as_the_calendar_has_them() -> None:
    """In Berlin the night of 2024-10-27 has 25 hours."""
    begin = datetime(2024, 10, 26, 22, tzinfo=UTC)  # midnight there
    stamps = [(begin + timedelta(hours=h)).isoformat() for h in range(26)]
    hours = read_table(table(stamps), unit="hour", timezone="Europe/Berlin")
    assert np.sort(hours.t).tolist() == list(range(26))
    days = read_table(table(stamps), unit="day", timezone="Europe/Berlin")
    assert np.sort(days.t).tolist() == [0] * 25 + [1]
    assert hours.clock.format(2.0) != hours.clock.format(3.0)
    for t in range(26):
        assert hours.clock.parse(hours.clock.format(t)) == t


def test_facts_change_zones_by_their_instants() -> None:
    facts = read_table(table(["2024-02-10T23:30:00Z"]))
    there = adapt(facts, facts.vocab, Clock("day", "2024-02-01", timezone="Asia/Tokyo"))
    assert there.clock.format(float(there.moments[0])) == "2024-02-11T08:30:00"


def test_an_unknown_zone_offers_known_ones() -> None:
    with pytest.raises(DataError, match=r"unknown time zone 'Europe/Berln'. Did you mean 'Europe/Berlin'"):
        read_table(table([1]), timezone="Europe/Berln")


# (d) and (f): the unit


def series(first: date, count: int, **step: int) -> list[date]:
    if "months" in step:
        return [d.date() for d in pd.date_range(first, periods=count, freq=pd.DateOffset(**step))]
    return [first + timedelta(**step) * i for i in range(count)]


MONTH_ENDS = [date(2023, 1, 31), date(2023, 2, 28), date(2023, 3, 31), date(2023, 4, 30), date(2023, 5, 31)]
SPACED: dict[str, tuple[list[date], str]] = {
    "days": (series(DAY, 9, days=1), "day"),
    "odd days": ([DAY + timedelta(days=i) for i in (0, 5, 6, 20, 33)], "day"),
    "Saturdays": (series(DAY, 8, weeks=1), "week"),
    "some Saturdays": ([DAY + timedelta(weeks=i) for i in (0, 2, 3, 7)], "week"),
    "firsts": (series(date(2020, 1, 1), 8, months=1), "month"),
    "fifteenths": (series(date(2020, 1, 15), 8, months=1), "month"),
    "month ends": (MONTH_ENDS, "month"),
    "quarters": (series(date(2020, 1, 1), 8, months=3), "quarter"),
    "quarter ends": ([date(2023, 3, 31), date(2023, 6, 30), date(2023, 9, 30), date(2023, 12, 31)], "quarter"),
    "new years": (series(date(2000, 1, 1), 8, months=12), "year"),
    "Saturdays, one moved": ([*series(DAY, 19, weeks=1), DAY + timedelta(weeks=19, days=-1)], "week"),
    "Saturdays, and a Friday": ([*series(DAY, 20, weeks=1), DAY + timedelta(days=6)], "day"),
    "firsts, one moved": ([*series(date(2020, 1, 1), 19, months=1), date(2021, 8, 2)], "month"),
    "three Saturdays": (series(DAY, 3, weeks=1), "day"),
}


@pytest.mark.parametrize("case", SPACED)
def test_the_unit_follows_from_the_spacing_and_the_reason_is_said(case: str) -> None:
    times, unit = SPACED[case]
    facts = read_table(table(times))
    assert facts.clock.unit == unit
    assert any(note.startswith(f"one step is a {unit}: ") for note in facts.notes)
    assert dates(facts)[-1].startswith(times[-1].isoformat()[:4])
    if unit not in ("day",) and case != "some Saturdays":
        assert np.diff(np.unique(facts.t)).tolist() == [1] * (len(times) - 1), "horizons count in the unit"
    assert read_table(table(times), unit="day").clock.unit == "day"


@pytest.mark.parametrize("pattern", NAMED)
def test_a_date_with_the_name_of_a_month_needs_no_pattern(pattern: str) -> None:
    days = series(date(2024, 1, 30), 5, days=1)
    facts = read_table(table([day.strftime(pattern) for day in days]))
    assert dates(facts) == [day.isoformat() for day in days]
    assert any("dates are read as" in note for note in facts.notes)


def test_plain_years_are_told_how_they_become_years() -> None:
    assert any("--unit year" in note for note in read_table(table(list(range(1990, 2000)))).notes)
    assert not any("--unit year" in note for note in read_table(table(list(range(10)))).notes)


def test_one_time_of_day_for_all_does_not_hide_the_spacing() -> None:
    noons = [f"{day}T12:00" for day in series(DAY, 8, weeks=1)]
    assert read_table(table(noons)).clock.unit == "week"
    assert read_table(table([*noons[:-1], f"{noons[-1][:10]}T13:00"])).clock.unit == "day"


@pytest.mark.parametrize(
    ("text", "unit"), [("2024-02", "month"), ("2024-Q1", "quarter"), ("Q1 2024", "quarter"), ("2024-W06", "week")]
)
def test_a_text_states_its_unit(text: str, unit: str) -> None:
    facts = read_table(table([text]))
    assert facts.clock.unit == unit
    assert facts.clock.parse(text) == 0


@pytest.mark.parametrize("first", [date(2024, 2, 5) + timedelta(days=i) for i in range(7)], ids=str)
def test_weeks_begin_on_monday_whatever_the_first_fact_is(first: date) -> None:
    facts = read_table(table([first, date(2024, 2, 11), date(2024, 2, 12)]), unit="week")
    assert facts.t.tolist() == [0, 0, 1]
    assert facts.clock.format(1.0) == "2024-02-12"


# (e): rows that stand alone, and ends that are none


def with_line(tmp_path: Path, odd: str, count: int = 60) -> Path:
    path = tmp_path / "events.csv"
    days = [date(2020, 1, 1) + timedelta(days=i) for i in range(count)]
    rows = [f"a,r,b{i % 3},{day}" for i, day in enumerate(days)]
    path.write_text("\n".join(["s,r,o,t", *rows[:5], f"a,r,z,{odd}", *rows[5:]]) + "\n")
    return path


@pytest.mark.parametrize("odd", ["2105-01-01", "1970-01-01"])
def test_a_row_decades_away_is_kept_reported_and_decides_nothing(tmp_path: Path, odd: str) -> None:
    facts = read_table(with_line(tmp_path, odd))
    assert len(facts) == 61
    assert facts.clock.unit == "day"
    assert any(f"events.csv:7 ({odd})" in note for note in facts.notes)
    data, clean = split(facts), split(read_table(with_line(tmp_path, "2020-01-30")))
    kept = {name: (len(part), part.clock.format(float(part.t[0]))) for name, part in data.parts.items()}
    assert kept["train"][1] == "2020-01-01"
    assert (kept["valid"], kept["test"][0]) == (
        (len(clean.valid), clean.clock.format(float(clean.valid.t[0]))),
        len(clean.test),
    )
    assert len(data.facts) == 61
    assert facts.clock.format(place(facts, None)) == "2020-03-01", "one gap after the last usual day"
    by_date = split_at(facts, "2020-02-01", "2020-02-10")
    assert all(part.clock.format(float(part.t[0])) >= "2020" for part in (by_date.train, by_date.valid, by_date.test))
    assert all(part.clock.format(float(part.t[-1])) < "2021" for part in (by_date.train, by_date.valid, by_date.test))


def test_a_lone_row_does_not_decide_the_unit_and_is_reported_with_its_own_date() -> None:
    mondays = series(date(2024, 1, 1), 20, weeks=1)
    facts = read_table(table([*mondays, date(1950, 5, 5)]))
    assert facts.clock.unit == "week"
    assert any("table: row 21 (1950-05-05)" in note for note in facts.notes)


def test_long_histories_with_gaps_have_no_lone_rows() -> None:
    years = [date(1800 + 30 * i, 1, 1) for i in range(5) for _ in range(5)]
    data = split(read_table(table(years)))
    assert (data.before, data.after) == (None, None)


@pytest.mark.parametrize("never", ["9999-12-31", "9999-12-31T23:59:59", "9999-01-01"])
def test_the_year_9999_is_no_point_in_time(tmp_path: Path, never: str) -> None:
    path = with_line(tmp_path, never)
    with pytest.raises(DataError, match=r"events.csv:7: time 9999-.* found; expected a date before the year 9999"):
        read_table(path)
    assert len(read_table(path, skip_bad=True)) == 60


@pytest.mark.parametrize("never", ["", "9999-12-31"])
@pytest.mark.parametrize("typed", [False, True])
def test_an_open_end_is_the_end_of_the_data(never: str, typed: bool) -> None:
    ends: Any = ["2004-01-01", never]
    if typed:
        ends = pa.array([date.fromisoformat(end) if end else None for end in ends], pa.date32())
    starts: Any = ["2000-01-01", "2002-01-01"]
    starts = pa.array([date.fromisoformat(s) for s in starts], pa.date32()) if typed else starts
    held = pa.table({"s": ["a", "b"], "r": ["r", "r"], "o": ["o", "o"], "start": starts, "end": ends})
    facts = read_table(held, unit="year")
    assert [facts.clock.format(float(t)) for t in facts.t[facts.s == 1]] == ["2002", "2003", "2004"]


def test_an_end_decades_after_everything_else_is_open_and_reported() -> None:
    starts = [f"{year}-01-01" for year in range(2000, 2010)]
    ends = [f"{year}-06-01" for year in range(2001, 2010)] + ["2099-12-31"]
    n = len(starts)
    held = pa.table({"s": [f"s{i}" for i in range(n)], "r": ["r"] * n, "o": ["o"] * n, "start": starts, "end": ends})
    facts = read_table(held, unit="year")
    assert facts.clock.format(float(facts.t.max())) == "2009"
    assert any("ends lie decades after everything else (table: row 10)" in note for note in facts.notes)


# (g): other forms


@pytest.mark.parametrize(
    ("texts", "pattern", "expected"),
    [
        (["10.02.2024", "11.02.2024"], "%d.%m.%Y", ["2024-02-10", "2024-02-11"]),
        (["2/10/2024", "12/31/2023"], "%m/%d/%Y", ["2024-02-10", "2023-12-31"]),
        (["10 February 2024"], "%d %B %Y", ["2024-02-10"]),
        ([100224], "%d%m%y", ["2024-02-10"]),
        (["10.02.2024 18:30 +0200"], "%d.%m.%Y %H:%M %z", ["2024-02-10T16:30:00"]),
        ([60_000_000], "unix", ["1971-11-26T10:40:00"]),
        (["60000000000"], "unix-ms", ["1971-11-26T10:40:00"]),
    ],
    ids=str,
)
def test_a_format_reads_everything_else(texts: list[Any], pattern: str, expected: list[str]) -> None:
    assert dates(read_table(table(texts), date_format=pattern)) == expected


def test_a_format_that_does_not_fit_is_a_bad_row_and_one_that_would_is_offered() -> None:
    with pytest.raises(DataError, match=r"row 2: time 'soon' found; expected a time written as '%d.%m.%Y'"):
        read_table(table(["10.02.2024", "soon"]), date_format="%d.%m.%Y")
    with pytest.raises(DataError, match=r"--date-format '%d/%m/%Y'\."):
        read_table(table(["13/02/2024", "25/02/2024"]))
    with pytest.raises(DataError, match=r"--date-format '%d/%m/%Y' or '%m/%d/%Y'"):
        read_table(table(["10/02/2024"]))
    with pytest.raises(DataError, match="has no fields"):
        read_table(table(["10/02/2024"]), date_format="DD/MM/YYYY")


def test_a_question_may_have_a_date_without_separators() -> None:
    clock = Clock("day", "2024-02-01")
    assert clock.parse("20240210") == clock.parse("2024-02-10") == 9
    assert clock.parse(20240210) == 9, "also as a number, as tables have it"
    years = Clock("year", "1980-01-01")
    assert years.parse(2021) == years.parse("2021") == 41
    assert years.parse(41) == 41
    for unit in ("second", "minute", "day"):
        for number in (1_704_067_241, 1_704_067_241_000):
            with pytest.raises(
                DataError, match=r"Unix seconds or milliseconds give the date, such as '2024-01-01T00:00:41'"
            ):
                Clock(unit, "2024-02-01").parse(number)
    assert Clock("step").parse(1_704_067_241) == 1_704_067_241
    assert Clock("step").parse("20240210") == Clock("second", "2024-02-01").parse(20240210) == 20240210
