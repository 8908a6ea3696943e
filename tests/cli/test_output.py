"""What is printed: names do no harm to a terminal or a spreadsheet, and tables fit 80 columns."""

from __future__ import annotations

import io
import json
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest

from cli_runs import run as run  # a fixture
from tangokg.cli import main
from tangokg.cli.output import Output
from tangokg.forecast.writing import without_formulas
from tangokg.showing import Fitted, make_table, widths

EVIL = "\x1b[2J\x1b]0;owned\x07 \x9b31m \u202egnp.exe [bold]x[/bold] [link=http://x]y[/link]"
STEERING = ("\x1b", "\x07", "\x9b", "\u202e")


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that knows a name and a relation which steer a terminal."""
    folder = tmp_path_factory.mktemp("evil")
    rows = [f"{EVIL},{EVIL},=cmd|' /C calc'!A0,2024-01-{day:02}" for day in range(1, 21)]
    (folder / "evil.csv").write_text("\n".join(["subject,relation,object,time", *rows]), encoding="utf-8")
    assert main(["-q", "train", str(folder / "evil.csv"), "--model", "recurrence", "--out", str(folder / "run")]) == 0
    return folder


@pytest.mark.parametrize(
    "words",
    [
        ("forecast", "RUN", "?", EVIL, "=cmd|' /C calc'!A0"),
        ("forecast", "RUN", EVIL, EVIL, "--json"),
        ("forecast", "RUN", f"{EVIL}x", EVIL),
        ("evaluate", "RUN", "--by", "relation"),
        ("data", "inspect", "TABLE"),
        ("train", "TABLE", "--model", "recurrence", "--out", "AGAIN", "--overwrite"),
    ],
    ids=lambda words: words[0] if isinstance(words, tuple) else words,
)
def test_a_name_cannot_steer_the_terminal(
    evil: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    places = {"RUN": str(evil / "run"), "TABLE": str(evil / "evil.csv"), "AGAIN": str(evil / "again")}
    capsys.readouterr()
    main([places.get(word, word) for word in words])
    captured = capsys.readouterr()
    text = captured.out + captured.err
    assert not [sign for sign in STEERING if sign in text]
    assert "[bold]x[/bold]" in text


def test_json_says_the_names_as_they_are(evil: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["forecast", str(evil / "run"), "?", EVIL, "=cmd|' /C calc'!A0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["answers"][0]["name"] == EVIL


@pytest.mark.parametrize("suffix", ["csv", "tsv", "", "parquet"])
def test_no_cell_of_an_answer_begins_like_a_formula(
    evil: Path, suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import pyarrow.csv
    import pyarrow.parquet

    (tmp_path / "ask.csv").write_text(f'subject,relation\n"{EVIL}","{EVIL}"\n', encoding="utf-8")
    out = tmp_path / f"answers.{suffix}"
    capsys.readouterr()
    words = ["forecast", str(evil / "run"), "--queries", str(tmp_path / "ask.csv")]
    assert main([*words, *(["--out", str(out)] if suffix else [])]) == 0
    if suffix == "parquet":
        assert "=cmd|' /C calc'!A0" in str(pyarrow.parquet.read_table(out).to_pylist())
        return
    text = out.read_text(encoding="utf-8") if suffix else capsys.readouterr().out
    delimiter = "\t" if suffix == "tsv" else ","
    parsed = pyarrow.csv.read_csv(
        io.BytesIO(text.encode()), parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter)
    ).to_pylist()
    cells = [cell for row in parsed for cell in row.values() if isinstance(cell, str)]
    assert "'=cmd|' /C calc'!A0" in cells
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))]


def test_formulas_become_text_and_numbers_stay() -> None:
    texts = ["=1+1", "+cmd", "-cmd", "@SUM(A1)", "\t=1", "a=b", "-44", "", "O'Neil", "'=1"]
    found = without_formulas(pa.table({"name": texts, "share": [-0.5] * len(texts)})).to_pydict()
    assert found["name"] == ["'=1+1", "'+cmd", "'-cmd", "'@SUM(A1)", "'\t=1", "a=b", "-44", "", "O'Neil", "'=1"]
    assert found["share"] == [-0.5] * len(texts)


HEADINGS = ("model", "from", "MRR", "Hits@1", "Hits@3", "Hits@10", "train s", "queries/s")
ROWS = [
    (
        "TANGO-TuckER without transition",
        "our own run",
        "44.30 ± 0.09",
        "34.05 ± 0.09",
        "49.53",
        "64.22",
        "1,234",
        "98,765",
    ),
    ("Citizen_(Federated_States_of_Micronesia)", "paper", "1.00", "2.00", "3.00", "4.00", "5,678,901", "1"),
]


def shown(width: int) -> list[str]:
    from rich.console import Console

    console = Console(width=width, file=io.StringIO(), highlight=False)
    console.print(make_table("title", HEADINGS, ROWS, left=2))
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_a_table_breaks_no_word_and_no_number(width: int) -> None:
    lines = shown(width)
    assert max(map(len, lines)) <= width
    text = " ".join(lines).split()
    words = {word for row in (HEADINGS, *ROWS) for cell in row for word in cell.split()}
    assert words <= set(text)


def test_columns_without_room_stand_in_a_second_table_with_the_first_column() -> None:
    table = Fitted(HEADINGS, tuple(ROWS), 2)
    (whole, _), *none = table.layout(120)
    assert (whole, none) == ([*range(8)], [])
    groups = [places for places, _ in table.layout(60)]
    assert len(groups) > 1
    assert all(places[0] == 0 for places in groups)
    assert sorted(place for places in groups for place in places if place) == [*range(1, 8)]


def test_the_widest_columns_give_way_first_and_none_below_its_longest_word() -> None:
    assert widths([3, 4, 5], [10, 4, 30], 44) == [10, 4, 30]
    assert widths([3, 4, 5], [10, 4, 30], 24) == [10, 4, 10]
    assert widths([3, 4, 5], [10, 4, 30], 5) == [3, 4, 5]
    for room, natural in product(range(8, 60), ([10, 4, 30], [3, 4, 5], [9, 9, 9])):
        assert sum(widths([3, 4, 5], natural, room)) <= max(room, 12)


@pytest.mark.parametrize(
    "words",
    [
        ("forecast", "RUN", "Bob", "calls"),
        ("evaluate", "RUN"),
        ("evaluate", "RUN", "--horizon", "1-3"),
        ("evaluate", "RUN", "--by", "relation"),
        ("data", "list"),
        ("doctor",),
        ("models",),
    ],
    ids=" ".join,
)
def test_tables_fit_80_columns(
    run: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And hold every word that they hold where there is room."""
    texts = []
    for columns in ("80", "400"):
        monkeypatch.setenv("COLUMNS", columns)
        capsys.readouterr()
        assert main([str(run) if word == "RUN" else word for word in words]) == 0
        texts.append([line for line in capsys.readouterr().out.splitlines() if "─" not in line])
    narrow, wide = texts
    paragraphs = set(narrow) & set(wide)  # which a terminal folds
    assert max((len(line) for line in narrow if line not in paragraphs), default=0) <= 80
    in_wide, in_narrow = ({word for line in lines for word in line.split()} for lines in (wide, narrow))
    assert {word for word in in_wide - in_narrow if not word[:1].isdigit()} == set()  # free memory changes


def test_a_quiet_output_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output()
    output.quiet = True
    output.say("nothing")
    assert capsys.readouterr().err == ""
