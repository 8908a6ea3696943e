"""What is particular to single published tables and edge lists: encodings, widths, codes, static edges."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

import tangokg as tk
from published import (
    ICEWS,
    PUBLISHED,
    acled,
    gdelt,
    icews,
    named,
    polecat,
    read,
    static_edges,
    table,
    tgb,
    ucdp,
)
from tangokg.errors import DataError
from tangokg.quads import find, write_folder
from tangokg.quads.importers.tables import WORDS

# Words


def test_codes_are_read_as_plain_names(tmp_path: Path) -> None:
    """042 may have lost its zero on the way; a code that is in no codebook stays as it is."""
    rows = [
        {"Source Name": "a", "Target Name": "b", "Event Date": "2014-01-02", "CAMEO Code": c}
        for c in ("042", "42", "14y")
    ]
    data = table(ICEWS.replace("Event Text", "Text"), *rows)
    assert [fact[1] for fact in named(read(tmp_path, "icews", data))] == ["Make a visit", "Make a visit", "14y"]
    facts = read(tmp_path, "icews", table(ICEWS, *rows[:1]), columns={"relation": "CAMEO Code"})
    assert facts.vocab.relations == ("Make a visit",)


def test_a_code_of_icews_with_two_digits_has_lost_a_zero(tmp_path: Path) -> None:
    """Events have three digits or four: 10 is 010, and not the class Demand."""
    row = {"Source Name": "a", "Target Name": "b", "Event Date": "2014-01-02", "CAMEO Code": "10"}
    facts = read(tmp_path, "icews", table(ICEWS.replace("Event Text", "Text"), row))
    assert facts.vocab.relations == ("Make statement",)


def test_tables_of_words_are_whole() -> None:
    """CAMEO has 20 classes, each code lies in one of them, and no two codes of three or four digits share a name."""
    cameo = WORDS["cameo"]
    assert [code for code in cameo if len(code) == 2] == [f"{i:02}" for i in range(1, 21)]
    assert all(code.isdecimal() and code[:-1] in cameo for code in cameo if len(code) > 2)
    fine = [name for code, name in cameo.items() if len(code) > 2]
    assert len(set(fine)) == len(fine)
    assert len(set(WORDS["plover"].values())) == 16
    assert all(name == " ".join(name.split()) for names in WORDS.values() for name in names.values())


# Single formats


def test_icews_in_utf_8_and_with_quotes_is_read_too(tmp_path: Path) -> None:
    """Harvard Dataverse gives its tables out in another form than they were given in."""
    data = icews(('"José"', '"Make a visit"', '"The ""Group"""', "2014-01-02")).decode("iso-8859-1").encode()
    assert named(read(tmp_path, "icews", data)) == [("José", "Make a visit", 'The "Group"', "2014-01-02")]


@pytest.mark.parametrize(("width", "time", "unit", "expected"), [
    (57, "19790105", None, "1979-01-05"),
    (58, "20240102", None, "2024-01-02"),
    (61, "20240102181500", None, "2024-01-02"),
    (61, "20240102181500", "hour", "2024-01-02T18:00:00"),
])  # fmt: skip
def test_exports_of_both_versions_of_gdelt(
    tmp_path: Path, width: int, time: str, unit: str | None, expected: str
) -> None:
    facts = read(tmp_path, "gdelt", gdelt(("A", "010", "B", time), width=width), unit=unit)
    assert named(facts) == [("A", "Make statement", "B", expected)]


def test_another_column_can_be_the_relation(tmp_path: Path) -> None:
    data = gdelt(("A", "010", "B", "20240102")).replace(b"010\t1\t1", b"010\t01\t01")
    assert read(tmp_path, "gdelt", data, columns={"relation": "column 29"}).vocab.relations == (
        "Make public statement",
    )
    rows = acled(("a", "Battles", "b", "2024-01-01"), sub_event_type="Armed clash")
    facts = read(tmp_path, "acled", rows, columns={"relation": "sub_event_type"})
    assert facts.vocab.relations == ("Armed clash",)
    assert read(tmp_path, "polecat", polecat(("a", "AID", "b", "2024-01-01")), relation="meets").vocab.relations == (
        "meets",
    )


def test_events_of_ucdp_last_from_their_first_to_their_last_day(tmp_path: Path) -> None:
    facts = read(tmp_path, "ucdp", ucdp(("a", "3", "Civilians", "2022-03-30", "2022-04-02")))
    assert [fact[3] for fact in named(facts)] == ["2022-03-30", "2022-03-31", "2022-04-01", "2022-04-02"]
    assert facts.vocab.relations == ("One-sided violence",)
    with pytest.raises(DataError, match="file:2: the end 2022-03-01 lies before the start 2022-03-30"):
        read(tmp_path, "ucdp", ucdp(("a", "3", "b", "2022-03-30", "2022-03-01")))


@pytest.mark.parametrize("head", ["ts", "timestamp", "date", "year"])
def test_edge_lists_of_tgb_with_each_of_their_headings(tmp_path: Path, head: str) -> None:
    facts = read(tmp_path, "tgb", tgb((7, "Q1", "Q2", "P3"), head=f"{head},head,tail,relation_type"), unit="step")
    assert named(facts) == [("Q1", "P3", "Q2", "7")]
    assert facts.static is None


def test_the_edge_list_of_thgl_forum_has_headings_of_its_own(tmp_path: Path) -> None:
    data = b"ts,src,dst,relation_type,num_words,score\n1388534400,7,9,3,120,5\n1388534400,9,7,4,8,-1\n"
    assert [fact[:3] for fact in named(read(tmp_path, "tgb", data))] == [("7", "3", "9"), ("9", "4", "7")]


@pytest.mark.parametrize("way", ["file", "folder", "archive"])
def test_the_static_edge_list_of_tgb_comes_along(tmp_path: Path, way: str) -> None:
    lists = {
        "tkgl-small_edgelist.csv": tgb((1990, "Q1", "Q2", "P1"), (1991, "Q2", "Q1", "P1")),
        "tkgl-small_static_edgelist.csv": b"head,tail,relation_type\nQ1,Q5,P31\nQ2,Q1,P1\nQ1,Q5,P31\n",
        "tkgl-small_val_ns.pkl": b"\x80\x04not a table",
    }
    with zipfile.ZipFile(tmp_path / "tkgl-small.zip", "w") as archive:
        for name, data in lists.items():
            archive.writestr(f"tkgl_small/{name}", data)
            (tmp_path / name).write_bytes(data)
    source = {"file": "tkgl-small_edgelist.csv", "folder": ".", "archive": "tkgl-small.zip"}[way]
    facts = tk.read_events(tmp_path / source, format="tgb", unit="year")
    assert named(facts) == [("Q1", "P1", "Q2", "1990"), ("Q2", "P1", "Q1", "1991")]
    assert static_edges(facts) == {("Q1", "P31", "Q5"), ("Q2", "P1", "Q1")}
    assert any("2 static edges" in note for note in facts.notes)


def test_static_txt_has_the_ids_of_the_facts_and_further_names_follow(tmp_path: Path) -> None:
    facts = read(tmp_path, "wikidata", PUBLISHED["wikidata"][0])
    write_folder(facts.split(), tmp_path / "made")
    read_again = find(tmp_path / "made")
    assert named(read_again.facts) == named(facts)
    names: dict[str, list[str]] = {}
    for kind in ("entity", "relation"):
        text = "".join((tmp_path / "made" / f"{start}{kind}2id.txt").read_text() for start in ("", "static_"))
        pairs = [line.split("\t") for line in text.splitlines()]
        assert [int(number) for _, number in pairs] == list(range(len(pairs)))
        names[kind] = [name for name, _ in pairs]
    edges = [[int(i) for i in line.split("\t")] for line in (tmp_path / "made" / "static.txt").read_text().splitlines()]
    assert [(names["entity"][s], names["relation"][r], names["entity"][o]) for s, r, o in edges] == [
        ("Q1", "P31", "Q5")
    ]
    assert "Q5" not in read_again.vocab.entities, "models have rows for the entities of facts alone"
