"""``tango data import --format``: published files become a folder that the other commands take."""

from __future__ import annotations

from pathlib import Path

import pytest

from published import PUBLISHED, icews
from tangokg.cli import main
from tangokg.quads import find
from tangokg.quads.importers import FORMATS


@pytest.mark.parametrize("format", FORMATS)
def test_a_published_file_becomes_a_folder(format: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, facts = PUBLISHED[format]
    (tmp_path / "file").write_bytes(data)
    made = tmp_path / "made"
    assert main(["data", "import", str(tmp_path / "file"), str(made), "--format", format]) == 0
    assert capsys.readouterr().out.strip() == str(made)
    assert len(find(made).facts) == len(facts)


def test_several_files_become_one_folder_that_forecasts_by_plain_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for month in (1, 2):
        days = [("Iran", "Make a visit", ("China", "Oman")[d % 2], f"2014-{month:02}-{d:02}") for d in range(1, 29)]
        (tmp_path / f"{month}.tab").write_bytes(icews(*days, ("", "Consult", "Oman", f"2014-{month:02}-01")))
    made, run = str(tmp_path / "made"), str(tmp_path / "run")
    several = [str(tmp_path / "1.tab"), str(tmp_path / "*.tab")]
    assert main(["data", "import", *several, made, "--format", "icews"]) == 0
    told = capsys.readouterr().err
    assert "icews: 56 facts" in told
    assert "rows without a subject, left out: 2" in told
    assert main(["-q", "train", made, "--model", "recurrence", "--out", run]) == 0
    assert main(["forecast", run, "Iran", "make a visit"]) == 0
    assert "Oman" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("sources", "options", "message"),
    [
        (["a", "b"], [], "2 sources were given; expected one. For several files give the --format"),
        (["a"], ["--format", "icewz"], "unknown format 'icewz'. Did you mean 'icews'"),
        (
            ["a"],
            ["--format", "polecat"],
            "a: this is not a table of POLECAT: the first line has 20 columns ('Event ID'",
        ),
        (["missing"], ["--format", "icews"], "no such file, and no file matches it"),
        (["a"], ["--format", "icews", "--language", "en"], "--language is for the labels of Wikidata"),
        (["a"], ["--language", "en"], "it needs --format wikidata"),
    ],
)
def test_what_cannot_be_imported_is_said_and_nothing_is_made(
    sources: list[str],
    options: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        Path(name).write_bytes(PUBLISHED["icews"][0])
    assert main(["data", "import", *sources, "made", *options]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not Path("made").exists()
