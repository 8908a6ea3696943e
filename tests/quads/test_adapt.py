"""Facts from elsewhere mean the same under the names and the clock they are brought into."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import facts_like, make_dataset, make_facts, make_vocab
from tangokg.errors import DataError, TangoError
from tangokg.quads.adapt import adapt
from tangokg.quads.clock import Clock
from tangokg.quads.folders import read_folder
from tangokg.quads.values import Quadruples, concatenate
from tangokg.quads.vocabulary import Vocabulary

DAYS = Clock("day", "2024-01-01")


def named(facts: Quadruples) -> list[tuple[str, str, str, str]]:
    e, r = facts.vocab.entities, facts.vocab.relations
    rows = zip(facts.s, facts.r, facts.o, facts.t, strict=True)
    return [(e[s], r[p], e[o], facts.clock.format(t)) for s, p, o, t in rows]


NAMES = st.permutations([f"e{i}" for i in range(9)])
ROWS = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 2), st.integers(0, 8), st.integers(-50, 900)), max_size=12)


@given(theirs=NAMES, ours=NAMES, size=st.integers(0, 9), rows=ROWS)
def test_names_and_dates_stay_and_only_used_names_are_added(
    theirs: list[str], ours: list[str], size: int, rows: list[tuple[int, int, int, int]]
) -> None:
    vocab = Vocabulary(tuple(ours[:size]), ("r2", "x"))
    table = np.array(rows, np.int64).reshape(-1, 4)
    s, r, o, t = table.T.copy()
    facts = Quadruples(s, r, o, t, Vocabulary(tuple(theirs), ("r0", "r1", "r2")), Clock("day", "2023-11-30"))
    found = adapt(facts, vocab, DAYS)
    assert named(found) == named(facts)
    assert found.clock == DAYS
    assert found.vocab.entities[:size] == vocab.entities
    assert found.vocab.relations[:2] == vocab.relations
    used = {name for s, _, o, _ in named(facts) for name in (s, o)}
    assert set(found.vocab.entities) == {*vocab.entities, *used}
    assert set(found.vocab.relations) == {*vocab.relations, *(r for _, r, _, _ in named(facts))}


def test_facts_that_are_at_home_stay_as_they_are() -> None:
    facts = make_facts(1)
    found = adapt(facts, facts.vocab, facts.clock)
    assert found.vocab == facts.vocab
    assert all(np.array_equal(getattr(found, c), getattr(facts, c)) for c in "srot")


@pytest.mark.parametrize(
    ("of", "to", "t", "expected"),
    [
        (Clock("day", "2024-03-01"), DAYS, [0, 5], [60, 65]),
        (Clock("day", "2023-12-01"), DAYS, [0, 31], [-31, 0]),
        (Clock("hour", "2024-01-02"), DAYS, [0, 23, 24, -1], [1, 1, 2, 0]),
        (DAYS, Clock("hour", "2024-01-02"), [0, 1, 2], [-1, 23, 47]),
        (Clock("second", "2024-01-01T12:00:00"), Clock("minute", "2024-01-01"), [59, 60], [720, 721]),
        (DAYS, Clock("week", "2024-01-01"), [6, 7, -1], [0, 1, -1]),
        (DAYS, Clock("month", "2023-11"), [0, 30, 31], [2, 2, 3]),
        (Clock("month", "2024-01"), DAYS, [0, 1, 2, -1], [30, 59, 90, -1]),
        (Clock("month", "2024-01"), Clock("year", "1786"), [0, 11, 12], [238, 238, 239]),
        (Clock("year", "1786"), Clock("year", "1830"), [44, 45, 0], [0, 1, -44]),
        (Clock("year", "2024"), DAYS, [0, 1], [365, 730]),
        (Clock("week", "2024-01-01"), DAYS, [0, 1], [6, 13]),
        (Clock("day", "2024-01-01", step=24), DAYS, [3], [3]),
        (Clock("step"), Clock("day", step=24), [7], [7]),
        (Clock("day"), Clock("step"), [7], [7]),
    ],
)
def test_a_step_becomes_the_one_in_which_it_ends(of: Clock, to: Clock, t: list[int], expected: list[int]) -> None:
    facts = replace(facts_like(make_facts(1), [(0, 0, 1, x) for x in t]), clock=of)
    found = adapt(facts, facts.vocab, to)
    assert found.t.tolist() == expected
    assert found.t.dtype == np.int64


@pytest.mark.parametrize(
    ("of", "to", "message"),
    [
        (Clock("step"), DAYS, "the new facts are dated by numbers, those already here by dates"),
        (DAYS, Clock("day"), "the new facts are dated by dates, those already here by numbers"),
        (Clock("hour"), Clock("day"), "the new facts count hours, those already here days; convert the column"),
    ],
)
def test_times_that_cannot_be_compared_are_refused(of: Clock, to: Clock, message: str) -> None:
    facts = replace(make_facts(1), clock=of)
    with pytest.raises(DataError, match=message):
        adapt(facts, facts.vocab, to)


def test_parts_stand_in_the_order_of_time_and_facts_are_all_of_them() -> None:
    data = make_dataset(1)
    assert list(data.parts) == ["train", "valid", "test"]
    early, late = (facts_like(data.train, [(0, 0, 1, t)]) for t in (-5, 10**6))
    more = replace(data, before=early, after=late)
    assert list(more.parts) == ["before", "train", "valid", "test", "after"]
    assert named(more.facts) == [row for part in more.parts.values() for row in named(part)]
    assert named(more.past) == named(concatenate([early, data.train]))
    assert named(data.past) == named(data.train)


def test_a_grown_vocabulary_goes_to_every_part() -> None:
    data = make_dataset(1)
    more = replace(data, before=facts_like(data.train, [(0, 0, 1, -5)]), name="kept", notes=("odd",))
    grown = more.with_vocab(make_vocab(15, 4))
    assert all(part.vocab == make_vocab(15, 4) for part in grown.parts.values())
    assert named(grown.facts) == named(more.facts)
    assert (grown.name, grown.notes, grown.after) == ("kept", ("odd",), None)


@pytest.mark.parametrize(
    ("text", "clock", "t"),
    [
        (None, Clock("step"), [24, 48]),
        ('unit = "day"\norigin = "2024-05-01"\nstep = 24\n', Clock("day", "2024-05-01", 24), [1, 2]),
        ('unit = "day"\norigin = 2024-05-01\n', Clock("day", "2024-05-01"), [24, 48]),
        ('unit = "hour"\norigin = 2024-05-01T06:00:00\n', Clock("hour", "2024-05-01T06:00:00"), [24, 48]),
        ('unit = "year"\n', Clock("year"), [24, 48]),
    ],
)
def test_a_folder_says_what_its_times_are(text: str | None, clock: Clock, t: list[int], tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("0 0 1 24\n1 0 0 48\n")
    if text is not None:
        (tmp_path / "clock.toml").write_text(text)
    data = read_folder(tmp_path)
    assert data.clock == clock
    assert data.train.t.tolist() == t
    assert read_folder(tmp_path, clock=Clock("day", step=24)).clock == Clock("day", step=24), "what is given wins"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("unit = day", r"clock.toml: not a TOML file"),
        ('units = "day"', r"clock.toml: unknown setting 'units'. Did you mean unit"),
        ("unit = 1", r"clock.toml: unit must be str, found 1"),
        ('unit = "day"\nstep = "24"', r"clock.toml: step must be int, found '24'"),
        ('unit = "day"\norigin = 5', r"clock.toml: origin must be str or none, found 5"),
        ('unit = "fortnight"', r"unknown time unit 'fortnight': expected one of"),
        ('unit = "day"\norigin = "May"', r"time 'May' is no date"),
        ('unit = "day"\nstep = 0', r"a step of 0 is impossible"),
        ('origin = "2024-01-01"', r"plain steps have no origin"),
        ('unit = "day"\nstep = 7', r"train.txt:1: time 24 found; expected a multiple of 7"),
    ],
)
def test_a_clock_that_is_none_says_so(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("0 0 1 24\n")
    (tmp_path / "clock.toml").write_text(text)
    with pytest.raises(TangoError, match=message):
        read_folder(tmp_path)
