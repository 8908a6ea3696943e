"""What stands in experiments/ can be run, and the figures of the documentation are those of the stored results."""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from tangokg.models.flagship import FlagshipSettings
from tangokg.rank.strata import STRATA
from tangokg.train.settings import load_config

ROOT = Path(__file__).parent.parent
FLAGSHIP = ROOT / "experiments" / "flagship"
RESULTS = sorted(FLAGSHIP.glob("results/*/[0-9]*.json"))
MEANS = sorted(FLAGSHIP.glob("results/*/mean.json"))  # of several seeds' shares


def read(path: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return result


@pytest.mark.parametrize("path", sorted(FLAGSHIP.glob("*.toml")), ids=lambda path: path.stem)
def test_a_config_can_be_loaded(path: Path) -> None:
    assert load_config(path).model in ("tango", "recurrency")


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_result_has_the_config_of_its_set_and_all_its_parts(path: Path) -> None:
    result = read(path)
    assert (result["dataset"], str(result["seed"])) == (path.parent.name.removesuffix("-ahead"), path.stem)
    config = load_config(FLAGSHIP / f"{path.parent.name}.toml").to_tables()["settings"]
    stored = result["config"]["settings"]
    ruled = {name for name in FlagshipSettings.ruled if not config[name]}
    assert all(stored[name] == config[name] for name in stored if name in config and name not in ruled)
    assert result["commit"]
    for part in ("valid", "test"):
        shares = [result["strata"][part][name]["share"] for name in STRATA]
        assert sum(shares) == pytest.approx(100, abs=0.01)
        whole = sum(s["share"] * s["mrr"] for s in result["strata"][part].values()) / 100
        assert whole == pytest.approx(result[part]["time-aware"]["mrr"], abs=0.01)


@pytest.mark.parametrize("path", sorted(FLAGSHIP.glob("results/recurrency/*.json")), ids=lambda path: path.stem)
def test_the_page_shows_counting_beside_it(path: Path) -> None:
    page = (ROOT / "docs" / "flagship.md").read_text(encoding="utf-8")
    result = read(path)
    protocols = result["protocols"]
    figures = [result["strata"]["test"][name]["mrr"] for name in STRATA]
    figures += [protocols[name]["time-aware"]["mrr"] for name in ("multi-step", "inductive")]
    curve = [protocols["horizon"][str(h)]["time-aware"]["mrr"] for h in (1, 2, 4, 8)]
    for start, row in ((f"| `recurrency`, {path.stem} | – | ", figures), (f"| `recurrency`, {path.stem} | ", curve)):
        assert start + " | ".join(f"{x:.2f}" for x in row) in page


def by_set() -> dict[str, list[dict[str, Any]]]:
    """The stored seeds of each set."""
    return {path.parent.name: [read(seed) for seed in RESULTS if seed.parent == path.parent] for path in RESULTS}


def test_the_readme_shows_the_stored_results() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for dataset, seeds in by_set().items():
        if dataset.endswith("-ahead"):
            continue
        assert f"| {dataset} | {mean([seed['test']['time-aware']['mrr'] for seed in seeds]):.2f} |" in readme


def test_the_page_shows_the_stored_results() -> None:
    page = (ROOT / "docs" / "flagship.md").read_text(encoding="utf-8")
    row, means = (
        re.search(rf"^\| {name} \|(.*)\|$", page, re.MULTILINE) for name in ("`tango`", "mean of three seeds")
    )
    assert row is not None
    assert means is not None
    for dataset, seeds in by_set().items():
        if not dataset.endswith("-ahead"):
            assert f"{mean([seed['test']['time-aware']['mrr'] for seed in seeds]):.2f}" in row[1]
        figures = [mean([seed["strata"]["test"][name]["mrr"] for seed in seeds]) for name in STRATA]
        for name in ("multi-step", "inductive"):
            figures.append(mean([seed["protocols"][name]["time-aware"]["mrr"] for seed in seeds]))
        assert f"| {dataset} | {len(seeds)} | " + " | ".join(f"{x:.2f}" for x in figures) in page
        ahead = [seed["protocols"]["horizon"] for seed in seeds if "horizon" in seed["protocols"]]
        curve = [mean([seed[str(h)]["time-aware"]["mrr"] for seed in ahead]) for h in (1, 2, 4, 8)]
        assert f"| {dataset} | " + " | ".join(f"{x:.2f}" for x in curve) in page
    for path in MEANS:
        assert f"{read(path)['test']['time-aware']['mrr']:.2f}" in means[1]
