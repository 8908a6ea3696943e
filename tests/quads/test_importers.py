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

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tangokg as tk
from published import (
    PUBLISHED,
    acled,
    gdelt,
    icews,
    item,
    labelled,
    named,
    read,
    statement,
)
from tangokg.errors import DataError, TangoError, UnknownName
from tangokg.quads import find, write_folder
from tangokg.quads.importers import FORMATS, packed


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


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
@pytest.mark.parametrize("format", FORMATS)
def test_damaged_files_end_in_facts_or_in_our_error(tmp_path: Path, format: str, data: st.DataObject) -> None:
    content = PUBLISHED[format][0]
    junk = st.sampled_from(
        [b"", b"\0", b"\xff", b'"', b"\t", b",", b"\r", b"\n", b"[", b"{", b"null", b"-"]
    ) | st.binary(max_size=3)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content)))
        content = content[:at] + data.draw(junk) + content[at + data.draw(st.integers(0, 30)) :]
    try:
        facts = read(tmp_path, format, content, skip_bad=data.draw(st.booleans()))
    except TangoError:
        return
    assert len(facts) > 0
    assert all([*facts.vocab.entities, *facts.vocab.relations])


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
