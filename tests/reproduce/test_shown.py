"""What the command shows and writes: every table with what it lacks, each number where it belongs, page and figures."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from conftest import make_dataset
from reproduce_small import made_up
from tangokg import quads
from tangokg.cli import main
from tangokg.errors import DataError
from tangokg.quads import inspect, thin_dataset
from tangokg.reproduce import experiments, find_table, read_results, tables
from tangokg.reproduce.checks import FILTERS
from tangokg.reproduce.page import render
from tangokg.reproduce.plots import PLOTS
from tangokg.reproduce.presets import THIN_SEED, THINNED
from tangokg.reproduce.runs import chosen
from tangokg.reproduce.store import Results, write_result
from tangokg.reproduce.view import view

NAMES = [name for name, table in tables().items() if table.cells]


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a call prints, in one line."""
    assert main(["reproduce", *words]) == 0
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("words", [["--list"], []], ids=["list", "nothing"])
def test_every_table_is_listed_with_its_cells(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = shown(capsys, *words, "--results", str(tmp_path))
    for name, table in tables().items():
        count = f"0 of {len(table.cells)}" if table.cells else "always"
        assert f"{name} {table.kind} {table.title} {count}" in text
    found = json.loads(shown(capsys, *words, "--json", "--results", str(tmp_path)))
    assert [row["name"] for row in found] == list(tables())


@pytest.mark.parametrize("name", NAMES)
def test_each_missing_cell_is_shown_with_commands_that_fill_it(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, folder = find_table(name), ["--results", str(tmp_path)]
    found = json.loads(shown(capsys, name, "--json", *folder))
    cells = [cell for block in found["blocks"] for row in block["rows"] for cell in list(row.values())[2:]]
    assert cells.count("missing") == len(table.cells)
    text = shown(capsys, name, *folder)
    assert table.title in text
    assert text.count("missing") >= len(table.cells)
    whole = {cell.config for cell in table.cells}
    apart = {name for name in whole if name.endswith("/ICEWS14")}  # a set whose test part may not be there
    last = found["notes"][-1 - bool(apart) :]
    assert [note.split(",")[0].split(":")[0] for note in last] == ["Missing", *["Missing on ICEWS14"] * bool(apart)]
    for note in found["notes"]:
        assert " ".join(note.split()) in text
    commands = [shlex.split(line) for line in re.findall(r"`(tango reproduce --run [^`]*)`", text)]
    wanted = [chosen(words[words.index("--only") + 1 :]) for words in commands]
    assert wanted[0] == whole
    assert len(wanted[1]) == 1
    assert wanted[1] <= whole - apart
    assert not apart or apart <= wanted[2]


def test_numbers_of_the_paper_stand_in_their_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in NAMES:
        table = find_table(name)
        found = json.loads(shown(capsys, name, "--json", "--results", str(tmp_path)))
        rows = [[*row.values()] for block in found["blocks"] for row in block["rows"]]
        cells = [cell for row in rows if row[1].split(";")[0] == "paper" for cell in row[2:]]
        numbers = {float(m[0].replace(",", "")) for cell in cells if (m := re.match(r"[\d,]+(\.\d+)?", cell))}
        printed = [p.value for p in table.paper.values.values()] if table.paper else []
        assert {round(float(value), 2) for value in printed} <= numbers, name


@pytest.mark.parametrize(
    ("name", "part", "filter_name"),
    [
        ("main", "test", "time-aware"),
        ("raw", "test", "raw"),
        ("unaware", "test", "time-unaware"),
        ("validation", "valid", "time-aware"),
        ("irregular", "test", "time-aware"),
    ],
)
def test_each_table_shows_its_own_part_and_filter(name: str, part: str, filter_name: str) -> None:
    """Every figure of a result is another number, so that each cell tells where it was read."""
    config = "paper-tucker/ICEWS05-15"
    result = made_up(experiments()[config])
    places = [(p, f, m) for p in ("valid", "test") for f in FILTERS for m in ("mrr", "hits@1", "hits@3", "hits@10")]
    for number, (p, f, metric) in enumerate(places):
        result[p][f][metric] = float(number)
    results = Results()
    results.add(config, result, "here")
    cells = find_table(name).of(config=config)
    assert [results.value(cell).mean for cell in cells] == [  # type: ignore[union-attr]
        float(places.index((part, filter_name, metric))) for metric in ("mrr", "hits@1", "hits@3", "hits@10")
    ]


@pytest.mark.parametrize("variant", ["", "-without-transition"])
def test_inductive_figures_stand_under_their_filter_and_their_model(variant: str) -> None:
    config = f"paper-distmult{variant}/ICEWS05-15"
    result = made_up(experiments()[config])
    result["protocols"]["inductive"] = {f: dict.fromkeys(("mrr", "hits@1"), 1.0 + n) for n, f in enumerate(FILTERS)}
    results = Results()
    results.add(config, result, "here")
    row = f"TANGO-DistMult{variant.replace('-', ' ')}"
    for number, column in enumerate(FILTERS):
        cell = find_table("inductive").of(row=row, column=column, form="paper form", metric="mrr")[0]
        assert results.value(cell).mean == 1.0 + number  # type: ignore[union-attr]


def test_training_times_are_those_of_whole_runs() -> None:
    result = made_up(experiments()["paper-tucker/ICEWS05-15"]) | {"train_seconds": 12.0, "epoch_seconds": 4.0}
    results = Results()
    results.add("paper-tucker/ICEWS05-15", result, "here")
    for name in ("time", "time-cost"):
        rows = [row for block in view(name, results).blocks for row in block.rows]
        assert [row for row in rows if row[:2] == ("TANGO-TuckER", "paper form") and "12" in row], name


def test_settings_and_counts_stand_beside_those_of_the_paper() -> None:
    """The paper form has the paper's settings, and the known sets are the paper's."""
    rows = {row[:2]: row[2:] for row in view("settings", Results()).blocks[0].rows}
    for key in ("dim", "layers", "decoder", "transition", "dropout", "history"):
        paper, ours = rows[key, "paper"][:-1], rows[key, "paper form"][:-1]
        assert [a for a, b in zip(ours, paper, strict=True) if b != "–"] == [b for b in paper if b != "–"]
        assert (key, "ours") in rows
    rows = {row[:2]: row[2:] for row in view("statistics", Results()).blocks[0].rows}
    for data in ("ICEWS14", "ICEWS18", "ICEWS05-15", "WIKI", "YAGO"):
        assert rows[data, "paper"] == rows[data, "registry"]
    assert rows[THINNED, "paper"][-1] == rows[THINNED, "registry"][-1] == "1,589"
    assert ("ICEWS14s", "registry") in rows


def test_sets_that_are_here_are_counted(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    whole = make_dataset(3, snapshots=40)

    def find(name: str) -> Any:
        if name != "ICEWS05-15":
            raise DataError(f"{name} is not here")
        return whole

    monkeypatch.setattr(quads, "find", find)
    found = json.loads(shown(capsys, "statistics", "--json"))
    rows = {(row["data set"], row["from"]): row for row in found["blocks"][0]["rows"]}
    for name, data in (("ICEWS05-15", whole), (THINNED, thin_dataset(whole, THIN_SEED))):
        counted, counts = rows[name, "counted"], inspect(data)
        assert [counted[part] for part in ("train", "valid", "test")] == [str(len(p)) for p in data.parts.values()]
        assert counted["times"] == str(counts["timestamps"])
        assert (name, "paper") in rows
    assert ("WIKI", "registry") in rows


def test_page_and_figures_are_made_by_one_command_and_again_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results, page = tmp_path / "results", tmp_path / "docs" / "page.md"
    write_result(results, "paper-tucker/ICEWS14s", made_up(experiments()["paper-tucker/ICEWS14s"]) | {"seed": 0})
    written = []
    for _ in range(2):
        shown(capsys, "--page", "--out", str(page), "--results", str(results))
        written.append({path.name: path.read_bytes() for path in sorted(page.parent.rglob("*.*"))})
    text = page.read_text(encoding="utf-8")
    assert text == render(read_results(results))
    assert written[0] == written[1]
    drawn = {name for name in written[0] if name != page.name}
    assert drawn == {f"results-{name}.{kind}" for name in PLOTS for kind in ("png", "svg")}
    for name, content in written[0].items():
        assert name == page.name or content.startswith(b"\x89PNG" if name.endswith("png") else b"<?xml")
    assert {Path(place).name for place in re.findall(r"\]\((figures/[^)]*)\)", text)} <= drawn
    assert all((page.parent / place).is_file() for place in re.findall(r"\]\((figures/[^)]*)\)", text))
    assert all(f"## {table.title}\n" in text for table in tables().values())
    assert all(f"figures/results-{name}." in text for name in PLOTS)


def test_every_run_stands_on_the_page_with_seed_and_date() -> None:
    results = Results()
    for seed in range(2):
        result = made_up(experiments()["paper-tucker/YAGO"], seed=seed) | {"date": f"2026-01-0{seed + 1}T00:00:00"}
        results.add("paper-tucker/YAGO", result, "here")
    rows = [line for line in render(results).splitlines() if line.startswith("| paper-tucker/YAGO |")]
    assert [(row.split(" | ")[1], row.split(" | ")[-1]) for row in rows] == [
        ("0", "2026-01-01 |"),
        ("1", "2026-01-02 |"),
    ]
