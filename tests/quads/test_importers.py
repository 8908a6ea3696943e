"""Every published format is read as its publisher documents it, packed or not, and refused where it does not fit."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tangokg as tk
from published import (
    ICEWS,
    PUBLISHED,
    Fact,
    acled,
    dump,
    gdelt,
    icews,
    item,
    labelled,
    named_property,
    polecat,
    statement,
    table,
    tgb,
    ucdp,
)
from tangokg.errors import DataError, UnknownName
from tangokg.quads import Quadruples, find, write_folder
from tangokg.quads.importers import FORMATS, packed
from tangokg.quads.importers.tables import WORDS


def named(facts: Quadruples) -> list[Fact]:
    """Facts by name and date, in order."""
    e, r = facts.vocab.entities, facts.vocab.relations
    return [
        (e[s], r[p], e[o], facts.clock.format(int(t)))
        for s, p, o, t in zip(facts.s, facts.r, facts.o, facts.t, strict=True)
    ]


def read(tmp_path: Path, format: str, data: bytes, name: str = "file", **options: Any) -> Quadruples:
    path = tmp_path / name
    path.write_bytes(data)
    return tk.read_events(path, format=format, **options)


def zipped(data: bytes, *more: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("__MACOSX/._file", "not data")
        for name in ("data.csv", *more):
            archive.writestr(name, data)
    return file.getvalue()


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "byte order mark": b"\xef\xbb\xbf".__add__,
    "Windows line ends": lambda data: data.replace(b"\n", b"\r\n"),
    "no last line end": lambda data: data.rstrip(b"\n"),
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "zip": zipped,
}


# Every format


def test_the_formats_are_those_with_a_file() -> None:
    assert FORMATS.keys() == PUBLISHED.keys()


@pytest.mark.parametrize("form", PACKED)
@pytest.mark.parametrize("format", FORMATS)
def test_a_published_file_gives_its_facts(tmp_path: Path, format: str, form: str) -> None:
    data, facts = PUBLISHED[format]
    if format in ("icews", "wikidata") and form == "byte order mark":
        pytest.skip("ISO-8859-1 and the dumps have none")
    assert named(read(tmp_path, format, PACKED[form](data))) == facts


@pytest.mark.parametrize("size", [1, 60, 400])
@pytest.mark.parametrize("format", FORMATS)
def test_blocks_of_any_size_give_the_same_facts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str, size: int
) -> None:
    data, facts = PUBLISHED[format]
    monkeypatch.setattr(packed, "BLOCK", size)
    monkeypatch.setattr("tangokg.quads.importers.wikidata.ROWS", 1)
    assert named(read(tmp_path, format, data)) == facts


@pytest.mark.parametrize("format", FORMATS)
def test_several_files_are_read_as_one(tmp_path: Path, format: str) -> None:
    data, facts = PUBLISHED[format]
    for name in ("a.gz", "b.gz", "other"):
        (tmp_path / name).write_bytes(gzip.compress(data))
    twice = sorted(facts * 2, key=lambda fact: fact[3])
    by_time = [sorted(found) for found in (twice, named(tk.read_events(str(tmp_path / "*.gz"), format=format)))]
    assert by_time[0] == by_time[1]
    several = tk.read_events([tmp_path / "a.gz", str(tmp_path / "*.gz")], format=format)
    assert sorted(named(several)) == by_time[0], "a file that is named twice is read once"


@pytest.mark.parametrize("format", FORMATS)
def test_what_is_imported_is_a_folder_with_the_same_facts(tmp_path: Path, format: str) -> None:
    data, facts = PUBLISHED[format]
    path = tmp_path / "file"
    path.write_bytes(data)
    dataset = find(path, format=format)
    write_folder(dataset, tmp_path / "made")
    assert named(find(tmp_path / "made").facts) == named(dataset.facts)
    assert sorted(named(dataset.facts)) == sorted(facts)


@pytest.mark.parametrize("other", [*PUBLISHED, "binary", "empty", "prose"])
@pytest.mark.parametrize("format", FORMATS)
def test_a_file_of_another_kind_is_refused_with_found_and_expected(tmp_path: Path, format: str, other: str) -> None:
    kinds = {"binary": b"PAR1\0\1\2", "empty": b"", "prose": b"This is a letter.\nIt has no columns.\n"}
    if other == format:
        return
    with pytest.raises(DataError, match=r"file(:\d+)?: .*expected"):
        read(tmp_path, format, PUBLISHED[other][0] if other in PUBLISHED else kinds[other])


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, zipped])
@pytest.mark.parametrize("format", FORMATS)
def test_a_packed_file_that_was_cut_off_is_said(tmp_path: Path, format: str, pack: Callable[[bytes], bytes]) -> None:
    with pytest.raises(DataError, match=r"cannot be read"):
        read(tmp_path, format, pack(PUBLISHED[format][0])[:-25])


def test_wrong_formats_sources_and_options_are_said(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(PUBLISHED["acled"][0])
    with pytest.raises(UnknownName, match=r"unknown format 'acleb'. Did you mean 'acled'"):
        tk.read_events(path, format="acleb")
    with pytest.raises(DataError, match="no such file, and no file matches it"):
        tk.read_events(tmp_path / "*.zip", format="acled")
    with pytest.raises(DataError, match="no file was given"):
        tk.read_events([], format="acled")
    with pytest.raises(DataError, match="a dict is no file: --format acled reads a path"):
        tk.read_events({}, format="acled")
    with pytest.raises(DataError, match="this is a folder; expected files"):
        tk.read_events(tmp_path, format="acled")
    with pytest.raises(DataError, match="no edge list found in the folder"):
        tk.read_events(tmp_path, format="tgb")
    with pytest.raises(DataError, match="--language is for the labels of Wikidata"):
        tk.read_events(path, format="acled", language="en")
    with pytest.raises(DataError, match=r"--language .* needs --format wikidata"):
        tk.read_events(path, language="en")
    with pytest.raises(DataError, match="--overlap is for the parts of a benchmark folder"):
        tk.read_events(path, format="acled", overlap="later")
    with pytest.raises(DataError, match="a Wikidata dump has no columns"):
        tk.read_events(path, format="wikidata", relation="knows")
    with pytest.raises(UnknownName, match="unknown column 'actor 3'"):
        tk.read_events(path, format="acled", columns={"object": "actor 3"})
    with pytest.raises(UnknownName, match="unknown column role 'start'"):
        tk.read_events(path, format="acled", columns={"start": "year"})


@pytest.mark.parametrize("format", ["gdelt", "wikidata"])
def test_a_file_is_never_held_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str) -> None:
    """40 MB of text with four facts take a few blocks of 1 MB."""
    padding = "x" * 40_000
    if format == "gdelt":
        row = gdelt(("A", "042", "B", "20240102")).decode().removesuffix("1\n")
        lines = [row + padding + "\n"] * 4 + [
            gdelt(("A", "042", "", "20240102")).decode().strip() + padding + "\n"
        ] * 1000
    else:
        entity = labelled(item("Q1", P39=[statement("Q2", P585="2010-01-01")]), en="a")
        lines = [json.dumps(entity) + "\n"] * 4 + [json.dumps(labelled(item("Q1"), en=padding)) + "\n"] * 1000
    path = tmp_path / "file.gz"
    path.write_bytes(gzip.compress("".join(lines).encode(), 1))
    monkeypatch.setattr(packed, "BLOCK", 1 << 20)
    tracemalloc.start()
    try:
        assert len(tk.read_events(path, format=format)) == 4
        assert tracemalloc.get_traced_memory()[1] < 12e6
    finally:
        tracemalloc.stop()


# Rows that name nobody, and rows that cannot be used


def test_rows_without_a_name_are_left_out_and_counted(tmp_path: Path) -> None:
    for format, note in {
        "icews": "rows without a subject, left out: 1",
        "gdelt": "rows without an object, left out: 1",
        "acled": "rows without an object, left out: 1",
    }.items():
        assert note in read(tmp_path, format, PUBLISHED[format][0]).notes
    notes = read(tmp_path, "polecat", PUBLISHED["polecat"][0]).notes
    assert {"rows without a subject, left out: 1", "rows without an object, left out: 1"} <= set(notes)
    with pytest.raises(DataError, match="file: no facts were found; rows without a subject, left out: 1"):
        read(tmp_path, "icews", icews(("", "Make a visit", "China", "2014-01-02")))


def test_a_row_that_cannot_be_used_is_shown_by_its_line_or_left_out_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [("a", "r", "b", "2014-01-02"), ("", "r", "b", "2014-01-02"), ("c", "r", "b", "soon")]
    good, late = icews(*rows[:2]), icews(*rows)
    (tmp_path / "good").write_bytes(good)
    (tmp_path / "late.gz").write_bytes(gzip.compress(late))
    sources = [tmp_path / "good", tmp_path / "late.gz"]
    for size in (1, 1 << 20):
        monkeypatch.setattr(packed, "BLOCK", size)
        with pytest.raises(DataError, match=r"^late.gz:4: time 'soon' found; expected an ISO date"):
            tk.read_events(sources, format="icews")
        facts = tk.read_events(sources, format="icews", skip_bad=True)
        assert named(facts) == [("a", "r", "b", "2014-01-02")] * 2
    with pytest.raises(DataError, match=r"file:4: 2 cells found; expected 20, as in the first line"):
        read(tmp_path, "icews", icews(rows[0]) + b"\nx\ty\n" + icews(rows[0]).split(b"\n")[1])
    facts = read(tmp_path, "icews", icews(rows[0]) + b"x\ty\n", skip_bad=True)
    assert any("1 of 2 rows was left out" in note for note in facts.notes)


def test_lines_are_counted_over_line_breaks_inside_quotes(tmp_path: Path) -> None:
    """Each row of this table takes two lines."""
    data = acled(("a", "r", "b", "2024-01-01"), ("c", "r", "d", "soon"), notes='"one\ntwo"')
    with pytest.raises(DataError, match=r"^file:4: time 'soon' found"):
        read(tmp_path, "acled", data)
    with pytest.raises(DataError, match=r"Is (a quote|one) left open"):
        read(tmp_path, "acled", acled(("a", "r", "b", "2024-01-01"), notes='"' + "open\n" * 200_000))


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


def static_edges(facts: Quadruples) -> set[tuple[str, str, str]]:
    graph = facts.static
    assert graph is not None
    e, r = graph.vocab.entities, graph.vocab.relations
    return {(e[s], r[p], e[o]) for s, p, o in zip(graph.s, graph.r, graph.o, strict=True)}


@pytest.mark.parametrize("head", ["ts", "timestamp", "date", "year"])
def test_edge_lists_of_tgb_with_each_of_their_headings(tmp_path: Path, head: str) -> None:
    facts = read(tmp_path, "tgb", tgb((7, "Q1", "Q2", "P3"), head=f"{head},head,tail,relation_type"), unit="step")
    assert named(facts) == [("Q1", "P3", "Q2", "7")]
    assert facts.static is None


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


# Wikidata


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


def test_lines_of_json_without_an_array_are_a_dump_too_and_a_broken_line_is_said(tmp_path: Path) -> None:
    entity = item("Q1", P39=[statement("Q2", P585="2010-01-01")])
    lines = json.dumps(entity) + "\n" + json.dumps(item("Q3")) + "\n"
    assert named(read(tmp_path, "wikidata", lines.encode())) == [("Q1", "P39", "Q2", "2010")]
    broken = (lines + '{"type": "item", "id"\n').encode()
    with pytest.raises(DataError, match=r"file:3: no JSON .* expected one entity"):
        read(tmp_path, "wikidata", broken)
    assert len(read(tmp_path, "wikidata", broken, skip_bad=True)) == 1
