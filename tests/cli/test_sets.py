"""Whole runs through ``main``: data, demo, doctor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from cli_runs import printed, run, write_events
from tangokg.cli import main
from tangokg.cli.app import app
from tangokg.cli.demo import run_demo
from tangokg.cli.output import Output
from tangokg.forecast.demo import demo_config
from tangokg.quads import KNOWN, find
from tangokg.quads.world import make_world
from tangokg.showing import bar, sparkline
from tangokg.train import make_config

__all__ = ["run"]  # a fixture


def test_known_sets_are_listed_with_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "YAGO").mkdir()
    (tmp_path / "YAGO" / "train.txt").write_text("")
    monkeypatch.setenv("TANGOKG_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = {row["name"]: row for row in printed(capsys, "data", "list")}
    assert set(found) == set(KNOWN)
    assert found["YAGO"]["found"] == str(tmp_path / "YAGO")
    assert found["WIKI"]["found"] is None
    assert main(["data", "list"]) == 0
    assert "tango data get WIKI" in capsys.readouterr().out


def test_get_says_where_the_set_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fetch(name: str, folder: Path, progress: Any) -> Path:
        progress("train.txt", 1, None)
        progress("train.txt", 2, 2)
        return folder / name

    monkeypatch.setattr("tangokg.quads.download", fetch)
    assert main(["data", "get", "YAGO", "--to", str(tmp_path / "[x]")]) == 0
    told = capsys.readouterr()
    assert told.out.strip() == str(tmp_path / "[x]" / "YAGO")
    assert "set TANGOKG_DATA" in told.err


def test_inspect_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = write_events(tmp_path / "events.csv")
    found = printed(capsys, "data", "inspect", str(events))
    assert sum(part["facts"] for part in found["parts"].values()) == 61
    assert {row["relation"]: row["facts"] for row in found["facts_by_relation"]} == {"calls": 40, "visits": 21}
    assert main(["data", "inspect", "world"]) == 0
    assert "trades with" in capsys.readouterr().out


def test_import_makes_a_folder_that_is_read_as_the_same_facts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    terms, folder = tmp_path / "terms.csv", tmp_path / "made" / "terms"
    terms.write_text("subject,relation,object,start,end\nA,rules,B,2000,2004\nB,rules,C,2003,\nC,meets,A,2009,2009\n")
    assert main(["data", "import", str(terms), str(folder), "--unit", "year", "--train-share", "0.6"]) == 0
    told = capsys.readouterr()
    assert "note: 3 rows with a start and an end became 13 facts, one for each year\n" in told.err
    again = find(folder)
    assert (again.vocab.entities, again.vocab.relations) == (("A", "B", "C"), ("rules", "meets"))
    times = again.facts.t[(again.facts.s == 0)]
    assert np.array_equal(np.diff(times), np.ones(4))
    assert len(again.facts) == 13
    assert [path.name for path in folder.parent.iterdir()] == ["terms"]
    assert main(["data", "inspect", str(terms), "--unit", "month"]) == 2, "numbers are not relabelled"
    capsys.readouterr()
    terms.write_text("subject,relation,object,start,end\nA,rules,B,2000-01,2004-01\nB,rules,C,2003-01,\n")
    assert main(["data", "inspect", str(terms), "--unit", "month"]) == 0
    assert "one for each month; a coarser unit makes fewer: --unit year" in capsys.readouterr().err
    assert main(["data", "import", str(terms), str(folder), "--unit", "year"]) == 2
    assert "exists and is not empty" in capsys.readouterr().err


def test_a_set_can_be_thinned_to_irregular_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole, folder, words = make_world().dataset, tmp_path / "thinned", ["data", "import", "world"]
    assert main([*words, str(folder), "--thin", "3"]) == 0
    again = find(folder)
    times = np.unique(whole.facts.t)
    kept = np.searchsorted(times, np.unique(again.facts.t))
    assert set(np.diff(kept)) == {1, 2, 3, 4}
    assert np.array_equal(times[kept], np.unique(again.facts.t))
    assert len(again.facts) == np.isin(whole.facts.t, times[kept]).sum()
    assert f"{len(kept)} times and {len(again.facts):,} facts of {len(times)} times" in capsys.readouterr().err
    assert main(["-q", *words, str(tmp_path / "whole")]) == 0
    assert len(find(tmp_path / "whole").facts) == len(whole.facts)
    assert main(["-q", "data", "import", str(tmp_path / "whole"), str(tmp_path / "same"), "--thin", "3"]) == 0
    assert (tmp_path / "same" / "train.txt").read_bytes() == (folder / "train.txt").read_bytes()


def test_demo_compares_tango_with_counters_and_the_oracle(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert demo_config(4).seed == 4
    config = make_config("tango-distmult", {"settings": {"dim": 4, "history": 2}, "train": {"epochs": 1}})
    world = make_world(num_actors=40, num_newcomers=8, num_days=80)
    run_demo(Output(), world, config, tmp_path / "run", overwrite=False, as_json=True)
    found = json.loads(capsys.readouterr().out)
    mrr = {row["model"]: row["mrr"] for row in found["compared"]}
    assert set(mrr) == {"tango-distmult", "copy-last", "frequency", "recurrence", "oracle"}
    assert list(mrr.values()) == sorted(mrr.values(), reverse=True)
    assert next(iter(mrr)) == "oracle"
    assert len(found["forecasts"]) == 2
    monkeypatch.chdir(tmp_path)
    run_demo(Output(), world, config, None, overwrite=False, as_json=False)
    text = capsys.readouterr()
    for shown in ("MRR, newcomers", "A newcomer, whom training never saw:", "One who was always there:", "happened"):
        assert shown in text.out
        assert shown not in text.err
    assert "tango train events.csv" in text.err
    assert "tango demo --serve" in text.err.splitlines()[-1]
    assert "trips" not in text.err
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "trips.py").touch()
    run_demo(Output(), world, config, tmp_path / "run", overwrite=True, as_json=False)
    text = capsys.readouterr()
    assert "python examples/trips.py" in text.err
    assert "tango train trips.csv --out runs/trips\n" in text.err
    assert f"tango forecast {tmp_path / 'run'} " in text.err
    assert f"tango serve {tmp_path / 'run'} " in text.err.splitlines()[-1]


def test_a_demo_says_how_to_replace_the_run_that_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.toml").touch()
    assert main(["demo", "--out", str(tmp_path / "run")]) == 2
    told = capsys.readouterr().err
    assert "exists; replace it with --overwrite" in told
    assert "--resume" not in told


def test_doctor_looks_at_everything(capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, "doctor")
    assert {"torch", "pyarrow", "lightning"} <= set(found["versions"])
    assert set(found["extras"]) >= {"serve", "tune", "dev"}
    assert set(found["known sets"]) == set(KNOWN)
    assert main(["doctor"]) == 0
    assert "torchdiffeq" in capsys.readouterr().out


def test_doctor_offers_only_packages_that_exist(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No index has tangokg: what is missing is installed by its own name, with the versions that are needed."""
    lines = ["torch>=2", "optuna<5,>=4; extra == 'tune'", "fastapi; extra == 'serve'"]
    monkeypatch.setattr("tangokg.cli.doctor.metadata.requires", lambda _: lines)
    monkeypatch.setattr("tangokg.cli.doctor._installed", lambda name: None)
    assert printed(capsys, "doctor")["extras"] == {
        "tune": "missing: pip install 'optuna<5,>=4'",
        "serve": "missing: pip install fastapi",
    }


def test_bars_and_sparklines() -> None:
    assert [len(bar(share, 8)) for share in (0, 0.5, 1, 2)] == [0, 4, 8, 8]
    assert bar(1 / 64, 8) == "▏"
    assert sparkline([0, 1, 8]) == " ▂█"
    assert sparkline([]) == ""


def test_the_app_needs_no_object_from_main() -> None:
    from typer.testing import CliRunner

    assert isinstance(app, typer.Typer)
    assert CliRunner().invoke(app, ["data", "list", "--json"]).exit_code == 0


@pytest.mark.parametrize("name", ["wrold", "worlds"])
def test_a_misspelt_world_is_offered(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", name]) != 0
    assert f"unknown data set '{name}'. Did you mean 'world'?" in capsys.readouterr().err
