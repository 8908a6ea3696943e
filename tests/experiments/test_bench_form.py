"""Results keep what they hold, measurements take turns, and memory is seen."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from experiments.bench.form import (
    KEYS,
    Measured,
    Stopwatch,
    Times,
    alone,
    interleaved,
    make_result,
    peak_memory,
    read,
    write,
)
from experiments.bench.shown import cell, duration, markdown, table
from tangokg.errors import DataError

CPU = torch.device("cpu")


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    measured = Measured({"ratio": 1.23456789}, [{"a": 1, "b": None}], {"entities": 7})
    made = make_result("step", {"data": "x"}, measured, CPU)
    assert made["asked"] == {"data": "x", "entities": 7}
    write(made, tmp_path / "new" / "step.json")
    result = read(tmp_path / "new" / "step.json")
    assert tuple(result) == KEYS
    assert result == made | {"figures": {"ratio": 1.23457}}
    assert set(made["versions"]) == {"python", "torch", "tangokg"}


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"schema": 0}', '{"schema": 1, "benchmark": "step"}'])
def test_another_file_is_no_result(content: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(DataError, match=r"x\.json: (damaged, not JSON|expected a result)"):
        read(tmp_path / "x.json")


def test_tasks_take_turns_and_the_first_round_does_not_count() -> None:
    called: list[str] = []
    found = interleaved({name: lambda name=name: called.append(name) for name in "ab"}, 3, CPU)  # type: ignore[misc]
    assert "".join(called) == "abababab"
    assert [times.count for times in found.values()] == [3, 3]


def test_median_and_quartiles() -> None:
    assert Times.of([5.0, 1.0, 3.0, 2.0, 4.0]) == Times(3.0, 2.0, 4.0, 5)
    assert Times.of([7.0]) == Times(7.0, 7.0, 7.0, 1)


def test_a_look_without_a_name_is_left_out() -> None:
    watch = Stopwatch(CPU)
    for name in ("a", None, "a", "b"):
        watch.look(name)
    assert {name: len(times) for name, times in watch.times.items()} == {"a": 2, "b": 1}


def test_peak_memory_sees_what_was_freed_again() -> None:
    with peak_memory(CPU) as large:
        del_me = torch.ones(30_000_000)
        del del_me
    with peak_memory(CPU) as small:
        torch.ones(1000)
    if large.bytes is None or small.bytes is None:
        pytest.skip("this system does not tell")
    assert large.bytes > 100e6 > small.bytes


def test_a_function_called_alone_returns_its_value_and_its_peak() -> None:
    value, peak = alone(duration, seconds=0.25)
    assert value == "250 ms"
    assert peak > 10e6


def test_a_process_that_is_killed_is_an_error() -> None:
    with pytest.raises(DataError, match="_exit: its process was killed"):
        alone(os._exit, status=1)


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("step_seconds", 0.01234, "12.3 ms"),
        ("seconds", 2.5e-6, "2.50 µs"),
        ("seconds", 5090.4, "5,090 s"),
        ("peak_bytes", 6e9, "6.00 GB"),
        ("peak_bytes", 12_300_000, "12.3 MB"),
        ("ratio", 1.234, "1.23 ×"),
        ("error", 0.00001234, "1.2e-05"),
        ("queries_a_second", 12345.6, "12,346"),
        ("value", 1_000_000, "1,000,000"),
        ("step_seconds", None, "-"),
        ("settings", ["dim=4"], "dim=4"),
    ],
)
def test_cells_have_the_unit_of_their_name(name: str, value: object, shown: str) -> None:
    assert cell(name, value) == shown


def test_tables_leave_quartiles_out() -> None:
    headings, cells = table([{"part": "a"} | Times(0.2, 0.1, 0.3, 4).to_dict("fast_seconds")])
    assert (headings, cells) == (["part", "fast"], [["a", "200 ms"]])
    assert markdown(headings, cells) == "| part | fast |\n| --- | ---: |\n| a | 200 ms |"
