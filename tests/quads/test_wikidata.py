"""Statements of Wikidata become facts as exactly as they are dated; names are ids or labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from published import (
    dump,
    item,
    labelled,
    named,
    named_property,
    read,
    statement,
    static_edges,
)
from tangokg.errors import DataError


def spans(tmp_path: Path, *statements: dict[str, Any], unit: str = "day") -> list[str]:
    """The first and the last day of each run of days of facts about one item."""
    until = item("Q9", P1=[statement("Q8", P585="2012-06-30")])  # where the data end
    facts = read(tmp_path, "wikidata", dump(item("Q1", P39=list(statements)), until), unit=unit)
    days = [fact[3] for fact in named(facts) if fact[0] == "Q1"]
    return [days[0], days[-1]] if days else []


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ({"P580": "2010-05-03", "P582": "2010-05-05"}, ["2010-05-03", "2010-05-05"]),
        ({"P580": ("2010-05-00", 10), "P582": ("2010-06-00", 10)}, ["2010-05-01", "2010-06-30"]),
        ({"P580": ("2010-00-00", 9), "P582": ("2011-00-00", 9)}, ["2010-01-01", "2011-12-31"]),
        ({"P580": ("2010-01-01", 9), "P582": ("2011-01-01", 9)}, ["2010-01-01", "2011-12-31"]),
        ({"P585": "2010-05-03"}, ["2010-05-03", "2010-05-03"]),
        ({"P585": ("2010-00-00", 9)}, ["2010-01-01", "2010-01-01"]),
        ({"P580": "2012-06-20"}, ["2012-06-20", "2012-06-30"]),
        ({"P580": "2012-06-20", "P582": "novalue"}, ["2012-06-20", "2012-06-30"]),
        ({"P580": "2012-06-20", "P582": "somevalue"}, ["2012-06-20", "2012-06-20"]),
        ({"P582": "2010-05-05"}, ["2010-05-05", "2010-05-05"]),
        ({"P580": "somevalue", "P582": "2010-05-05"}, ["2010-05-05", "2010-05-05"]),
        ({"P580": "2010-05-03", "P582": "2010-05-05", "P585": "2009-01-01"}, ["2010-05-03", "2010-05-05"]),
        ({"P580": ("00000002010-05-03", 11), "P582": ("2010-05-05", 14)}, ["2010-05-03", "2010-05-05"]),
    ],
)
def test_statements_hold_as_long_as_their_times_say(tmp_path: Path, times: dict[str, Any], expected: list[str]) -> None:
    assert spans(tmp_path, statement("Q2", **times)) == expected


@pytest.mark.parametrize(
    ("times", "note"),
    [
        ({"P580": ("-0044-03-15", 11)}, "before the year 1"),
        ({"P580": ("-0100-00-00", 9), "P582": "2001-01-01"}, "before the year 1"),
        ({"P585": ("123456-01-01", 9)}, "after the year 9998"),
        ({"P580": ("1900-00-00", 7)}, "by decades or longer"),
        ({"P580": "somevalue"}, "not known"),
        ({"P585": "somevalue"}, "not known"),
        ({"P585": "novalue"}, "not known"),
        ({"P580": "novalue", "P582": "novalue"}, "not known"),
        ({"P580": "2012-01-01", "P582": "2010-01-01"}, "end before they start"),
        ({"P585": ("2010-13-01", 11)}, "cannot be read"),
        ({"P585": ("2010-02-30", 11)}, "cannot be read"),
    ],
)
def test_statements_without_a_usable_time_are_left_out_and_counted(
    tmp_path: Path, times: dict[str, Any], note: str
) -> None:
    data = dump(item("Q1", P39=[statement("Q2", **times)], P1=[statement("Q3", P585="2010-01-01")]))
    facts = read(tmp_path, "wikidata", data)
    assert [fact[2] for fact in named(facts)] == ["Q3"]
    assert facts.static is None
    assert any(note in found and "left out: 1" in found for found in facts.notes), facts.notes


def test_only_statements_about_items_that_are_not_deprecated_are_taken(tmp_path: Path) -> None:
    text: dict[str, Any] = {
        "mainsnak": {"snaktype": "value", "datavalue": {"value": "x", "type": "string"}},
        "rank": "normal",
    }
    nobody: dict[str, Any] = {"mainsnak": {"snaktype": "somevalue", "datatype": "wikibase-item"}, "rank": "normal"}
    about_property = statement("Q7")
    about_property["mainsnak"]["datavalue"]["value"] = {"entity-type": "property", "numeric-id": 7, "id": "P7"}
    old = statement("Q6", rank="preferred")
    del old["mainsnak"]["datavalue"]["value"]["id"]
    claims = [text, nobody, about_property, old, statement("Q4", rank="deprecated"), statement("Q5", P585="2010-01-01")]
    lexeme = {"type": "lexeme", "id": "L1", "claims": {"P1": [statement("Q1", P585="2010-01-01")]}}
    facts = read(tmp_path, "wikidata", dump(item("Q1", P1=claims), item("Q2"), lexeme))
    assert named(facts) == [("Q1", "P1", "Q5", "2010")]
    assert static_edges(facts) == {("Q1", "P1", "Q6")}


def test_labels_stand_for_ids_in_the_language_that_is_asked_for(tmp_path: Path) -> None:
    """Two items with one label stay two; what has no label in the language keeps its id."""
    entities = [
        labelled(
            item("Q1", P39=[statement("Q2", P585="2010-01-01"), statement("Q3", P585="2010-01-01")]),
            en="Ann",
            de="Anna",
        ),
        labelled(item("Q2"), en="Paris"),
        labelled(item("Q3", P31=[statement("Q4")]), en="Paris", de="Paris"),
        labelled(item("Q4"), mul="Town\tof "),
        named_property("P39", en="position held", de="Amt"),
    ]
    data = dump(*entities)
    english = read(tmp_path, "wikidata", data, language="en")
    assert sorted(named(english)) == [
        ("Ann", "position held", "Paris (Q2)", "2010"), ("Ann", "position held", "Paris (Q3)", "2010"),
    ]  # fmt: skip
    assert static_edges(english) == {("Paris (Q3)", "P31", "Town of")}
    assert "relation names without a label in 'en', called by their ids: 1" in english.notes
    assert sorted(named(read(tmp_path, "wikidata", data, language="de"))) == [
        ("Anna", "Amt", "Paris", "2010"), ("Anna", "Amt", "Q2", "2010"),
    ]  # fmt: skip
    assert sorted(named(read(tmp_path, "wikidata", data)))[0] == ("Q1", "P39", "Q2", "2010")
    other_order = "\n".join(json.dumps(entity, sort_keys=True) for entity in entities).encode()
    assert sorted(named(read(tmp_path, "wikidata", other_order, language="en"))) == sorted(named(english))


def test_lines_of_json_without_an_array_are_a_dump_too_and_a_broken_line_is_said(tmp_path: Path) -> None:
    entity = item("Q1", P39=[statement("Q2", P585="2010-01-01")])
    lines = json.dumps(entity) + "\n" + json.dumps(item("Q3")) + "\n"
    assert named(read(tmp_path, "wikidata", lines.encode())) == [("Q1", "P39", "Q2", "2010")]
    broken = (lines + '{"type": "item", "id"\n').encode()
    with pytest.raises(DataError, match=r"file:3: no JSON .* expected one entity"):
        read(tmp_path, "wikidata", broken)
    assert len(read(tmp_path, "wikidata", broken, skip_bad=True)) == 1
    for strange in ({"P1": 5}, {"P1": [7]}, {"\ud800": [statement("Q1", P585="2010-01-01")]}):
        line = json.dumps({"type": "item", "id": "Q9", "claims": strange}) + "\n"
        with pytest.raises(DataError, match=r"file:3: Q9 has no statements of the known form"):
            read(tmp_path, "wikidata", (lines + line).encode())
