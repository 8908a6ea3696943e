"""Results: all that are stored belong to a config of today, what is damaged is an error, means are over seeds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from experiments.experiment import experiments
from experiments.store import RESULTS, read_results, write_result
from experiments_small import made_up
from tangokg.errors import DataError
from tangokg.rank import FILTERS
from tangokg.rank.strata import STRATA

NAME = "tango-tucker/ICEWS14s"
FIGURES = {name: {"mrr": 40.0} for name in FILTERS}
WRONG: dict[str, dict[str, Any]] = {
    "seed is '0', expected int": {"seed": "0"},
    "seed is True, expected int": {"seed": True},
    "expected seed 0, found 1": {"seed": 1},
    "expected dataset ICEWS14s, found WIKI": {"dataset": "WIKI"},
    "expected model tango-tucker, found tango": {"model": "tango"},
    "expected preset tango-tucker, found flagship": {"preset": "flagship"},
    "config is 'dim', expected dict": {"config": "dim"},
    "epochs is 'many', expected int": {"epochs": "many"},
    "train_seconds is None": {"train_seconds": None},
    "protocols is .*, expected dict": {"protocols": []},
    "no MRR between 0 and 100": {"test": FIGURES | {"raw": {"mrr": 40.0, "hits@1": "30"}}},
    r"\[test\] has no MRR": {"test": FIGURES | {"time-aware": {"mrr": 400.0}}},
    "0 queries of .test., expected an even number, at most 14,742": {"queries": {"valid": 10, "test": 0}},
    "11 queries of .valid.": {"queries": {"valid": 11, "test": 10}},
    "20000 queries of .test.": {"queries": {"valid": 10, "test": 20_000}},
    "None queries of .test.": {"queries": {"valid": 10}},
    "not comparable: it depends on later facts": {"not_comparable": "it depends on later facts"},
}


def keep(folder: Path, seed: int = 0, name: str = NAME, **other: Any) -> None:
    write_result(folder / f"{name}-{seed}.json", made_up(experiments()[name], seed=seed) | other)


def test_every_stored_result_belongs_to_a_config_of_today() -> None:
    results = read_results()
    assert sum(map(len, results.runs.values())) + len(results.means) == len(list(RESULTS.rglob("*.json")))
    for name, runs in results.runs.items():
        for result in runs.values():
            assert result.get("commit"), name


def test_strata_of_the_default_model_add_up_to_the_whole() -> None:
    results = read_results()
    for name in (name for name, e in experiments().items() if "strata" in e.measure):
        for result in results.of(name):
            for part, strata in result["strata"].items():
                assert sum(strata[s]["share"] for s in STRATA) == pytest.approx(100, abs=0.01)
                whole = sum(s["share"] * s["mrr"] for s in strata.values()) / 100
                assert whole == pytest.approx(result[part]["time-aware"]["mrr"], abs=0.01)


@pytest.mark.parametrize(("message", "wrong"), WRONG.items(), ids=WRONG)
def test_a_result_from_elsewhere_is_checked(tmp_path: Path, message: str, wrong: dict[str, Any]) -> None:
    write_result(tmp_path / f"{NAME}-0.json", made_up(experiments()[NAME]) | wrong)
    with pytest.raises(DataError, match=message):
        read_results(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "damaged, not JSON"), ("[]", "expected a result, found list"), ('{"seed": 0}', "has no 'model'")],
)
def test_another_file_is_no_result(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / f"{NAME}-0.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read_results(tmp_path)


def test_a_result_of_no_config_is_an_error(tmp_path: Path) -> None:
    write_result(tmp_path / "nothing" / "ICEWS14s-0.json", {})
    with pytest.raises(DataError, match="there is no config nothing/ICEWS14s"):
        read_results(tmp_path)


def test_results_of_a_set_answer_the_same_queries(tmp_path: Path) -> None:
    keep(tmp_path)
    keep(tmp_path, 1, queries={"valid": 10, "test": 8})
    with pytest.raises(DataError, match=r"ICEWS14s-1\.json: answers .* queries; other results of ICEWS14s"):
        read_results(tmp_path)


@pytest.mark.parametrize(
    ("table", "key", "value", "message"),
    [
        ("settings", "dim", 7, "dim 7 instead of 200"),
        ("train", "learning_rate", 0.5, "learning_rate 0.5 instead of 0.001"),
        ("train", "rate_decay", None, "rate_decay 1.0 instead of 0.5"),  # of before the setting
        ("train", "device", "abacus", ""),  # the machine's concern
        ("settings", "added since", 3, ""),
    ],
)
def test_results_of_other_settings_are_an_error(table: str, key: str, value: Any, message: str, tmp_path: Path) -> None:
    result = made_up(experiments()["paper-tucker/ICEWS14s"])
    result["config"][table][key] = value
    if value is None:
        del result["config"][table][key]
    write_result(tmp_path / "paper-tucker" / "ICEWS14s-0.json", result)
    if not message:
        assert read_results(tmp_path).runs
        return
    with pytest.raises(DataError, match=f"other settings than its config has now: {message}"):
        read_results(tmp_path)


def test_a_figure_is_the_mean_over_seeds_and_a_time_that_of_the_fastest(tmp_path: Path) -> None:
    for seed, mrr in enumerate((40.0, 41.0, 42.0)):
        result = made_up(experiments()[NAME], mrr, seed, train_seconds=20.0 - seed)
        write_result(tmp_path / f"{NAME}-{seed}.json", result)
    results = read_results(tmp_path)
    value, time = results.mrr(NAME), results.value(NAME, "train_seconds")
    assert value is not None
    assert time is not None
    assert (value.mean, value.spread, value.seeds) == (41.0, 1.0, 3)
    assert (time.mean, time.spread) == (18.0, None)
    assert results.value(NAME, "protocols", "horizon", "1") is None
    assert results.mrr("tango-tucker/WIKI") is None


def test_settings_are_kept_to_the_last_digit_and_figures_to_the_sixth(tmp_path: Path) -> None:
    name = "paper-tucker-time-of-paper/ICEWS14s"
    keep(tmp_path, name=name, train_seconds=1 / 3)
    path = tmp_path / f"{name}-0.json"
    stored = json.loads(path.read_text())
    assert stored["config"] == experiments()[name].config().to_tables()
    assert stored["train_seconds"] == 0.333333
    assert not list(tmp_path.rglob("*.tmp"))
