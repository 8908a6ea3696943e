"""What stands in experiments/ can be run, and the figures of the documentation are those of the stored results."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tangokg.rank.strata import STRATA
from tangokg.train.settings import load_config

ROOT = Path(__file__).parent.parent
FLAGSHIP = ROOT / "experiments" / "flagship"
RESULTS = sorted(FLAGSHIP.glob("results/*/*.json"))


def read(path: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return result


@pytest.mark.parametrize("path", sorted(FLAGSHIP.glob("*.toml")), ids=lambda path: path.stem)
def test_a_config_can_be_loaded(path: Path) -> None:
    assert load_config(path).model == "tango"


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_result_has_the_config_of_its_set_and_all_its_parts(path: Path) -> None:
    result = read(path)
    assert (result["dataset"], str(result["seed"])) == (path.parent.name, path.stem)
    config = load_config(FLAGSHIP / f"{path.parent.name}.toml").to_tables()
    assert result["config"]["settings"] == config["settings"]
    assert result["commit"]
    for part in ("valid", "test"):
        shares = [result["strata"][part][name]["share"] for name in STRATA]
        assert sum(shares) == pytest.approx(100, abs=0.01)
        whole = sum(s["share"] * s["mrr"] for s in result["strata"][part].values()) / 100
        assert whole == pytest.approx(result[part]["time-aware"]["mrr"], abs=0.01)


def test_the_page_shows_the_stored_results() -> None:
    page = (ROOT / "docs" / "flagship.md").read_text(encoding="utf-8")
    row = re.search(r"^\| `tango` \|(.*)\|$", page, re.MULTILINE)
    assert row is not None
    shown = re.findall(r"\d+\.\d+", row[1])
    for path in RESULTS:
        result = read(path)
        assert f"{result['test']['time-aware']['mrr']:.2f}" in shown
        figures = [result["strata"]["test"][name]["mrr"] for name in STRATA]
        figures += [result["protocols"][name]["time-aware"]["mrr"] for name in ("multi-step", "inductive")]
        assert f"| {path.parent.name} | " + " | ".join(f"{x:.2f}" for x in figures) in page
