"""Results: what is damaged or of another form is told, means and spreads are over seeds, packing loses nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reproduce_small import made_up
from tangokg.errors import DataError
from tangokg.reproduce import experiments, find_table
from tangokg.reproduce.store import Results, merge, pack, read_result, read_results, write_result
from tangokg.reproduce.view import view


def a_result(seed: int = 0, mrr: float = 40.0, **other: Any) -> dict[str, Any]:
    return made_up(experiments()["tango-tucker/ICEWS14s"], mrr) | {"seed": seed} | other


def test_a_cell_is_the_mean_over_seeds_with_their_standard_deviation() -> None:
    results = Results()
    for seed, mrr in enumerate((40.0, 41.0, 42.0)):
        results.add("tango-tucker/ICEWS14s", a_result(seed, mrr), "here")
    cell = next(c for c in find_table("main").cells if c.config == "tango-tucker/ICEWS14s" and c.metric == "mrr")
    value = results.value(cell)
    assert value is not None
    assert (value.mean, value.spread, value.seeds) == (41.0, 1.0, 3)
    rows = {row[:2]: row for block in view("main", results).blocks if block.title == "ICEWS14s" for row in block.rows}
    assert rows["TANGO-TuckER", "ours"][2::4] == ("41.00 ± 1.00", "3")
    assert rows["TANGO-TuckER", "paper form"][2] == "missing"
    assert "`tango reproduce --run --only main`" in view("main", results).notes[-2]


def test_results_of_other_settings_are_set_aside() -> None:
    results = Results()
    other = a_result()
    other["config"]["settings"]["dim"] = 7
    results.add("tango-tucker/ICEWS14s", other, "this file")
    faster = made_up(experiments()["paper-tucker/ICEWS14s"])
    faster["config"]["train"] |= {"learning_rate": 0.5, "device": "abacus"}
    results.add("paper-tucker/ICEWS14s", faster, "a third")
    older = made_up(experiments()["paper-tucker/ICEWS14s"])
    del older["config"]["train"]["rate_decay"]
    results.add("paper-tucker/ICEWS14s", older, "an old one")
    results.add("paper-tucker/NOWHERE", a_result(), "that file")
    assert not results.found
    assert "dim 7 instead of 200" in results.stale["this file"]
    assert results.stale["a third"] == "learning_rate 0.5 instead of 0.001"
    assert results.stale["an old one"] == "rate_decay 1.0 instead of 0.5"
    assert "no preset" in results.stale["that file"]


def test_settings_are_kept_to_the_last_digit(tmp_path: Path) -> None:
    name = "paper-tucker-time-of-paper/ICEWS14s"
    result = made_up(experiments()[name])
    path = write_result(tmp_path, name, result)
    assert read_result(path)["config"] == result["config"]
    assert not read_results(tmp_path).stale


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "damaged, not JSON"),
        ("[]", "expected a result with model"),
        ('{"schema": 7}', "a result of form 7; this version reads form 1"),
        ('{"model": "tango-tucker", "seed": 0}', "an older form, without dataset, config"),
    ],
)
def test_a_damaged_result_or_one_of_another_form_is_told(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "tango-tucker" / "ICEWS14s" / "0.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read_results(tmp_path)


def test_figures_and_seeds_are_checked(tmp_path: Path) -> None:
    write_result(tmp_path, "tango-tucker/ICEWS14s", a_result(mrr=400.0))
    with pytest.raises(DataError, match="no MRR between 0 and 100"):
        read_results(tmp_path)
    write_result(tmp_path, "tango-tucker/ICEWS14s", a_result())
    (tmp_path / "tango-tucker" / "ICEWS14s" / "0.json").rename(tmp_path / "tango-tucker" / "ICEWS14s" / "3.json")
    with pytest.raises(DataError, match="expected the result of seed 3, found seed 0"):
        read_results(tmp_path)
    with pytest.raises(DataError, match="expected a folder"):
        read_results(tmp_path / "tango-tucker" / "ICEWS14s" / "3.json")


def test_a_result_that_is_not_comparable_is_not_taken(tmp_path: Path) -> None:
    """Its run started from one that had seen what it is judged by."""
    path = write_result(tmp_path, "tango-tucker/ICEWS14s", a_result(not_comparable="it depends on later facts"))
    with pytest.raises(DataError, match="not comparable, so not kept: it depends on later facts"):
        read_result(path)


def test_what_is_packed_comes_apart_again_and_the_newer_stays(tmp_path: Path) -> None:
    packed, folder = tmp_path / "one.json", tmp_path / "results"
    pack(packed, [a_result(0), a_result(1, 41.0)])
    written, left = merge(packed, folder)
    assert [path.name for path in written] == ["0.json", "1.json"]
    assert not left
    assert read_result(folder / "tango-tucker/ICEWS14s/1.json")["test"]["time-aware"]["mrr"] == 41.0
    pack(packed, [a_result(0, 1.0, date="2025-01-01"), a_result(1, 43.0, date="2027-01-01")])
    written, left = merge(packed, folder)
    assert ([p.name for p in written], [p.name for p in left]) == (["1.json"], ["0.json"])
    pack(packed, [a_result(preset="nothing")])
    with pytest.raises(DataError, match="preset 'nothing' on 'ICEWS14s' is unknown"):
        merge(packed, folder)
    packed.write_text("{}")
    with pytest.raises(DataError, match="with a list of results"):
        merge(packed, folder)
