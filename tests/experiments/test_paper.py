"""The paper's numbers are those of its source, each where it stands, and what cannot be right is marked."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from experiments.published import make_table, published, systems
from tangokg.errors import DataError

SOURCE = os.environ.get("TANGOKG_PAPER")  # the paper's tango.tex
NAMES = list(published())


@pytest.mark.parametrize(
    ("table", "row", "column", "metric", "value", "spread"),
    [
        ("main", "TANGO-TuckER", "ICEWS05-15", "mrr", 42.86, 0.2),
        ("main", "TANGO-DistMult", "YAGO", "hits@10", 68.79, 0.2),
        ("main", "TTransE", "ICEWS18", "hits@1", 1.84, None),
        ("raw", "TANGO-TuckER", "ICEWS14", "hits@3", 27.15, None),
        ("unaware", "TANGO-DistMult", "ICEWS14", "mrr", 46.68, None),
        ("validation", "TANGO-TuckER", "WIKI", "mrr", 62.29, None),
        ("inductive", "TANGO-TuckER", "time-aware", "mrr", 5.81, None),
        ("inductive", "TANGO-DistMult without transition", "time-unaware", "hits@10", 6.99, None),
        ("irregular", "TANGO-DistMult", "ICEWS05-15-thinned", "hits@10", 54.34, None),
        ("horizon", "RE-Net", "8", "mrr", 38.48, None),
        ("history", "TANGO-TuckER", "7", "epoch_seconds", 2265, None),
        ("time", "TANGO-DistMult", "WIKI", "seconds", 15086, None),
        ("settings", "layers", "YAGO", "value", 3, None),
        ("statistics", "ICEWS05-15-thinned", "times", "count", 1589, None),
    ],
)
def test_values_stand_where_the_paper_has_them(
    table: str, row: str, column: str, metric: str, value: float, spread: float | None
) -> None:
    found = published()[table].get(row, column, metric)
    assert found is not None
    assert (found.value, found.spread) == (value, spread)


def test_known_misprints_are_marked() -> None:
    marked = {(n, *key[:2]) for n in NAMES for key, found in published()[n].values.items() if found.misprint}
    assert marked == {
        ("raw", "TTransE", "ICEWS05-15"),
        ("raw", "CompGCN", "YAGO"),
        ("unaware", "TANGO-DistMult", "WIKI"),
    }


@pytest.mark.skipif(SOURCE is None, reason="TANGOKG_PAPER does not name the source of the paper")
def test_every_value_is_printed_in_the_source() -> None:
    assert SOURCE is not None
    text = Path(SOURCE).read_text(encoding="utf-8")
    text = re.sub(r"(?<=\d)(?<!\(\d),(?=\d{3})", "", text)  # 4,017 and not the coordinates (2,708)
    printed = {float(number) for number in re.findall(r"\d+(?:\.\d+)?", text)}
    for name in NAMES:
        table = published()[name]
        assert f"{{{table.label}}}" in text
        for key, found in table.values.items():
            assert isinstance(found.value, str) or float(found.value) in printed, (name, key)


ELSEWHERE = {"embedding size": "dim", "mgcn layer": "layers", "w": "transition", "history length": "history"}


def rows_of_source(text: str, label: str) -> set[tuple[str, ...]]:
    """Name and numbers of each row of the table with this label."""
    found = next(part for part in re.findall(r"\\begin{table.*?\\end{table", text, re.DOTALL) if label in part)
    found = re.sub(r"\\includegraphics\[.*?]{(\w+)\.png}", r"\1", re.sub(r"\\(cite|multicolumn){.*?}", "", found))
    found = re.sub(r"\\[a-z#]+|[{}$]|(?<=\d),(?=\d{3})", "", found.replace("w.o.trans", "without transition"))
    rows = [[cell.strip() for cell in row.split("&")] for row in found.split(r"\\")]
    return {(row[0].rpartition("\n")[2].strip().casefold(), *filter(re.compile(r"\w").search, row[1:])) for row in rows}


@pytest.mark.skipif(SOURCE is None, reason="TANGOKG_PAPER does not name the source of the paper")
@pytest.mark.parametrize("name", [name for name in NAMES if published()[name].kind == "table"])
def test_rows_are_those_of_the_source_in_the_order_of_the_source(name: str) -> None:
    """A number in another row, column or table is not the paper's, though it is printed somewhere."""
    table, text = published()[name], Path(str(SOURCE)).read_text(encoding="utf-8")
    there = rows_of_source(text, f"{{{table.label}}}")
    there |= rows_of_source(text, "{tab: continuous data}") if name == "statistics" else set()
    plain = {(ELSEWHERE.get(row[0], row[0]).replace(" continuous", "-thinned"), *map(number, row[1:])) for row in there}
    for row in table.rows:
        values = [table.get(row, column, metric) for column in table.columns for metric in table.metrics]
        assert (row.casefold(), *(number(str(found.value)) for found in values if found)) in plain, row


def number(text: str) -> float | str:
    return float(text) if re.fullmatch(r"[\d.]+", text) else text.casefold()


@pytest.mark.skipif(SOURCE is None, reason="TANGOKG_PAPER does not name the source of the paper")
@pytest.mark.parametrize(("name", "metric"), [("horizon", "mrr"), ("history", "mrr"), ("history", "epoch_seconds")])
def test_curves_are_those_of_the_source(name: str, metric: str) -> None:
    drawn = re.findall(r"coordinates\s*{(.*?)}", Path(str(SOURCE)).read_text(encoding="utf-8"), re.DOTALL)
    curves = [[(int(x), float(y)) for x, y in re.findall(r"\((\d+),\s*([\d.]+)\)", curve)] for curve in drawn]
    table = published()[name]
    for row in table.rows:
        assert [(int(c), float(table.values[row, c, metric].value)) for c in table.columns] in curves


def test_a_wrong_file_is_refused() -> None:
    head = {"label": "x", "columns": ["A"], "metrics": ["hits@1", "hits@3"]}
    for wrong, message in (
        ({"values": {"M": {"A": [1.0]}}}, "expected 2 values in a known column"),
        ({"values": {"M": {"B": [1.0, 2.0]}}}, "expected 2 values in a known column"),
        ({"values": {"M": {"A": [2.0, 1.0]}}}, "Hits@k fall"),
        ({"values": {}, "misprints": {"M / A / hits@1": "why"}}, "where no value stands"),
    ):
        with pytest.raises(DataError, match=message):
            make_table("x", head | wrong)


def test_systems_beside_the_default_model_have_figures_of_known_sets() -> None:
    for system in systems():
        assert set(system) == {"name", "note", "clean", "mrr"}
        assert system["mrr"]
        assert set(system["mrr"]) <= {"ICEWS14s", "ICEWS18", "ICEWS05-15-REGCN", "WIKI", "YAGO"}
