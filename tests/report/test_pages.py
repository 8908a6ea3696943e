"""The parts of a report: markup that escapes, tables with headings, lines where their points are."""

from __future__ import annotations

import re

import pytest
import torch

from conftest import make_forecaster
from report_pages import SCRIPT, Tables
from tangokg.rank import Metrics
from tangokg.report.charts import HEIGHT, WIDTH, Axis, Line, chart
from tangokg.report.findings import directions, narrowed, over_time
from tangokg.report.markup import Html, safe, table, tag


def test_text_is_escaped_and_markup_stays() -> None:
    assert safe(SCRIPT) == "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;"
    assert tag("p", SCRIPT, tag("b", "a & b"), title='"', class_="x", tabindex=None) == (
        f'<p title="&quot;" class="x">{safe(SCRIPT)}<b>a &amp; b</b></p>'
    )
    assert safe("a\nb\u202e\x1b") == "a\\nb\\u202e\\x1b"
    assert isinstance(safe("plain"), Html)


def test_a_table_names_itself_its_columns_and_its_rows() -> None:
    rows = [["x", "a", "1"], ["x", "b", "2"], ["y", "a", "3"]]
    plain, grouped = (
        table("id", SCRIPT, ("k", "m", "n"), rows, (0, 1)),
        table("id", "c", ("k", "m", "n"), rows, (0, 1), True),
    )
    assert Tables(plain).found == {SCRIPT: [["k", "m", "n"], *rows]}
    assert Tables(grouped).found == {"c": [["k", "m", "n"], *rows]}
    assert re.findall(r'scope="(\w+)"', plain) == ["col"] * 3 + ["row"] * 3
    assert re.findall(r'scope="(\w+)"', grouped) == ["col"] * 3 + ["rowgroup", "row", "row", "rowgroup", "row"]
    assert re.findall(r'rowspan="(\d)"', grouped) == ["2", "1"]
    assert 'tabindex="0" aria-labelledby="table-id"' in plain


def test_lines_are_drawn_where_their_points_are() -> None:
    x, y = Axis("x", 0, 10), Axis("y", 0, 100)
    drawn = chart(
        "c", "Title", "What it shows", [Line("<a>", [(0, 0), (5, 50), (10, 100)], "s0"), Line("b", [], "s1")], x, y
    )
    first, middle, last = ((float(a), float(b)) for a, b in re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', drawn))
    assert first[0] < middle[0] < last[0] < WIDTH
    assert HEIGHT > first[1] > middle[1] > last[1] > 0
    assert middle == pytest.approx(((first[0] + last[0]) / 2, (first[1] + last[1]) / 2))
    assert 'role="img" aria-labelledby="c-title c-about"' in drawn
    assert '<title id="c-title">Title</title><desc id="c-about">What it shows</desc>' in drawn
    assert "<title>&lt;a&gt;: 5, 50</title>" in drawn


def test_ticks_lie_on_the_axis() -> None:
    for axis in (Axis("", 0, 100), Axis("", 1, 3, integer=True), Axis("", 7, 7), Axis("", 0.021, 0.024)):
        places = axis.places()
        assert places
        assert all(axis.low <= value <= axis.high for value in places)
    assert Axis("", 1, 8, at=[1, 2, 8]).places() == [1, 2, 8]


@pytest.fixture(scope="module")
def metrics() -> Metrics:
    return make_forecaster("frequency").evaluate()


def test_groups_of_questions_make_up_the_whole(metrics: Metrics) -> None:
    parts = [narrowed(metrics, rows) for rows in directions(metrics).values()]
    for name in metrics.ranks:
        total = sum(part[name].mrr * part.queries for part in parts)
        assert total / metrics.queries == pytest.approx(metrics[name].mrr)
    only = narrowed(metrics, metrics.r == 0).by_relation("raw")
    assert only == {name: one for name, one in metrics.by_relation("raw", "object").items() if name == "r0"}


def test_many_times_are_taken_together(metrics: Metrics) -> None:
    times = torch.unique(metrics.t)
    assert over_time(metrics, "raw") == metrics.by_time("raw")
    assert len(times) > 1
    (alone,) = over_time(metrics, "raw", 1).items()
    assert alone == (float(times[0]), metrics["raw"])
