"""``make tgb``: from folders as py-tgb unpacks them to a table of figures, with several seeds."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tangokg as tk
from experiments import tgb
from experiments.__main__ import main
from experiments.store import read_json
from tangokg.quads import find
from tangokg.rank import read_candidates
from tgb_layout import draw_negatives, open_set, write_set

ROOT = Path(__file__).parents[2]
SMALL = """
model = "tango"
[settings]
dim = 4
width = 8
[train]
epochs = 1
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sets, one with negatives; settings of a small model."""
    root = tmp_path_factory.mktemp("datasets")
    for name in ("tkgl-smallpedia", "tkgl-wikidata"):
        place = write_set(root, name)
        draw_negatives(open_set(place, name), place, name)
    (root / "small.toml").write_text(SMALL)
    return root


def run(folder: Path, out: Path, *words: str) -> int:
    return main(["tgb", str(folder), "--out", str(out), "--device", "cpu", *words])


def test_from_the_folders_of_py_tgb_to_a_table(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    models = ["--models", str(folder / "small.toml"), "recurrency", "--seeds", "0", "1"]
    assert run(folder, tmp_path, *models) == 2, "the negatives are pickles still"
    assert "--negatives" in capsys.readouterr().err
    assert run(folder, tmp_path, "--negatives") == 0
    assert run(folder, tmp_path, *models) == 0
    results = {path.relative_to(tmp_path).as_posix(): read_json(path) for path in tmp_path.glob("*/*.json")}
    sets = ("tkgl-smallpedia", "tkgl-wikidata")
    of_small = {f"small/{name}-{seed}.json" for name in sets for seed in (0, 1)}
    assert set(results) == of_small | {f"recurrency/{name}-0.json" for name in sets}, "a counter has one seed"
    for name, result in results.items():
        assert 0 < result["test"]["tgb"]["mrr"] < 100
        assert name.endswith(f"{result['dataset']}-{result['seed']}.json")
        assert result["queries"]["test"] == 2 * 98
    assert not list(tmp_path.rglob("*.safetensors"))
    table = (tmp_path / "table.md").read_text()
    for row in ("| recurrency |", "| small |", "| EdgeBank (leaderboard) | 0.353 | 0.535 |"):
        assert row in table
    assert "(2 seeds)" in table

    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("trained again")

    monkeypatch.setattr(tgb, "fit", broken)
    assert run(folder, tmp_path, *models) == 0, "what is there is not made again"


def test_its_figures_are_those_of_the_library(folder: Path, tmp_path: Path) -> None:
    assert run(folder, tmp_path, "--sets", "tkgl-wikidata", "--negatives") == 0
    assert run(folder, tmp_path, "--sets", "tkgl-wikidata", "--models", "recurrency") == 0
    place = folder / "tkgl_wikidata"
    dataset = find(place, format="tgb")
    forecaster = tk.fit(dataset, "recurrency", device="cpu", verbose=False)
    stored = read_json(tmp_path / "recurrency" / "tkgl-wikidata-0.json")
    for part in ("valid", "test"):
        path = place / f"tkgl-wikidata_{part}_ns.parquet"
        assert stored[part]["tgb"]["mrr"] == pytest.approx(forecaster.evaluate(part, "tgb", candidates=path)["tgb"].mrr)
        among_all = forecaster.evaluate(part, "tgb")["tgb"].mrr
        assert stored[part]["tgb"]["mrr"] != pytest.approx(among_all), "the lists make a difference"
        assert len(read_candidates(path, dataset.vocab, dataset.clock).key) > 50


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--sets", "tkgl-polecat"],
            "no edge list of tkgl-polecat found; expected tkgl_polecat/tkgl-polecat_edgelist.csv",
        ),
        (["--models", "recurency"], "recurrency"),
    ],
)
def test_what_is_missing_is_said(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert run(folder, tmp_path, *words) == 2
    assert message in capsys.readouterr().err


def test_an_empty_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, tmp_path / "out") == 2
    assert "no edge list of tkgl-smallpedia, tkgl-polecat" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_tgb_runs_it(folder: Path, tmp_path: Path) -> None:
    names = {"DATA": folder, "SETS": "tkgl-smallpedia", "MODELS": "recurrency", "SEEDS": 0, "DEVICE": "cpu"}
    names |= {"OUT": tmp_path / "out", "BIN": Path(sys.executable).parent}
    words = ["make", "-o", ".venv/installed", "tgb", *(f"{key}={value}" for key, value in names.items())]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "out" / "recurrency" / "tkgl-smallpedia-0.json").read_text())["seed"] == 0
    nowhere = subprocess.run([*words[:4], *words[5:]], capture_output=True, text=True, cwd=ROOT, check=False)
    assert nowhere.returncode != 0
    assert "make tgb DATA=" in nowhere.stderr
