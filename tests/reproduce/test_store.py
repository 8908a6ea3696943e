"""Results: what is damaged or of another form is told, means and spreads are over seeds, packing loses nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reproduce_small import made_up
from tangokg.errors import DataError
from tangokg.reproduce import experiments, find_table
from tangokg.reproduce.checks import FILTERS
from tangokg.reproduce.store import Results, merge, pack, read_result, read_results, write_result
from tangokg.reproduce.view import view


def a_result(seed: int = 0, mrr: float = 40.0, **other: Any) -> dict[str, Any]:
    return made_up(experiments()["tango-tucker/ICEWS14s"], mrr, seed) | other


FIGURES = {name: {"mrr": 40.0} for name in FILTERS}
WRONG: dict[str, dict[str, Any]] = {
    "seed is '../../../out', expected int": {"seed": "../../../out"},
    "seed is True, expected int": {"seed": True},
    "seed -1, expected 0 or more": {"seed": -1},
    "its config has seed 1": {"seed": 2, "config": {"seed": 1}},
    "config is 'dim', expected a table": {"config": "dim"},
    "config.settings is no table": {"config": {"settings": 3}},
    "epochs is 'many', expected int": {"epochs": "many"},
    "train_seconds is None": {"train_seconds": None},
    "protocols is .*, expected a table": {"protocols": []},
    "preset is .*, expected a text": {"preset": ["tango-tucker"]},
    "no MRR between 0 and 100": {"test": FIGURES | {"raw": {"mrr": 40.0, "hits@1": "30"}}},
    "0 queries of .test., expected an even number, at most 14,742": {"queries": {"valid": 10, "test": 0}},
    "11 queries of .valid.": {"queries": {"valid": 11, "test": 10}},
    "20000 queries of .test.": {"queries": {"valid": 10, "test": 20_000}},
    "None queries of .test.": {"queries": {"valid": 10}},
}


@pytest.mark.parametrize(("message", "wrong"), WRONG.items(), ids=WRONG)
def test_a_result_from_elsewhere_is_checked_before_anything_is_written(
    tmp_path: Path, message: str, wrong: dict[str, Any]
) -> None:
    packed, folder = tmp_path / "one.json", tmp_path / "deep" / "in" / "results"
    pack(packed, [a_result() | wrong])
    with pytest.raises(DataError, match=message):
        merge(packed, folder)
    assert sorted(path.name for path in tmp_path.rglob("*.json")) == ["one.json"]


@pytest.mark.parametrize("name", [("../../out", "ICEWS14s"), ("tango-tucker", "../../out"), ("WIKI", "tango-tucker")])
def test_a_result_of_no_preset_leads_nowhere(tmp_path: Path, name: tuple[str, str]) -> None:
    packed = tmp_path / "one.json"
    pack(packed, [a_result(preset=name[0], dataset=name[1])])
    with pytest.raises(DataError, match="is unknown"):
        merge(packed, tmp_path / "results")
    assert list(tmp_path.iterdir()) == [packed]


def test_a_seed_counts_once(tmp_path: Path) -> None:
    pack(tmp_path / "one.json", [a_result(0), a_result(1), a_result(0, 50.0)])
    with pytest.raises(DataError, match="result 3: seed 0 of tango-tucker/ICEWS14s stands there twice"):
        merge(tmp_path / "one.json", tmp_path / "results")


def test_results_of_a_set_that_answer_other_queries_are_set_aside() -> None:
    results = Results()
    for seed, queries in ((0, 10), (1, 10), (2, 8)):
        results.add("tango-tucker/ICEWS14s", a_result(seed, queries={"valid": 10, "test": queries}), f"{seed}")
    assert len(results.of("tango-tucker/ICEWS14s")) == 2
    assert results.stale == {"2": "8 test queries instead of 10"}


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
        ('{"model": "tango-tucker", "seed": 0}', "an older form, without dataset, files, config"),
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
