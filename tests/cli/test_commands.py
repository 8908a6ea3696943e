"""Whole runs through ``main``: train, evaluate, forecast, data, demo, doctor."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
import typer
from typer.main import get_command

from tangokg.cli import main
from tangokg.cli.app import app
from tangokg.cli.demo import demo_config, run_demo
from tangokg.cli.hints import SMALL as SMALLER
from tangokg.cli.options import ABOUT_MODEL, DEVICES, Filter, parse_device
from tangokg.cli.output import Output, bar, sparkline
from tangokg.models import MODELS
from tangokg.quads import KNOWN, find
from tangokg.quads.world import make_world
from tangokg.rank import FILTERS
from tangokg.train import make_config

NAMES = ("Ann [red]", "Bob", "Čarles", "Dan O'Neil", "Eve", "Fay")
SMALL = ["--set", "dim=4", "--set", "history=2", "--set", "layers=1", "--set", "epochs=2", "--device", "cpu"]


def write_events(path: Path, days: int = 20) -> Path:
    """Each person calls the next one every other day; Gus comes in the last days alone."""
    rows = ["subject,relation,object,date"]
    for day in range(days):
        names = (*NAMES, "Gus") if day >= days - 2 else NAMES
        for i in range(day % 2, len(names), 2):
            rows.append(
                f"{names[i]},{'calls' if i % 3 else 'visits'},{names[i - 1]},{date(2024, 1, 1) + timedelta(day)}"
            )
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small TANGO, trained once."""
    folder = tmp_path_factory.mktemp("run")
    out = folder / "made" / "run"
    events = write_events(folder / "events.csv")
    assert main(["-q", "train", str(events), "--model", "tango-distmult", "--out", str(out), *SMALL]) == 0
    return out


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    """The JSON that a command prints, alone, on standard output."""
    capsys.readouterr()
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def commands() -> Iterator[list[str]]:
    def below(command: Any, words: list[str]) -> Iterator[list[str]]:
        yield words
        for name, child in getattr(command, "commands", {}).items():
            yield from below(child, [*words, name])

    yield from below(get_command(app), [])


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_help_of_every_command_ends_with_examples(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--help"]) == 0
    text = capsys.readouterr().out
    assert "Examples:" in text
    assert f"tango {' '.join(words)}".strip() in text.partition("Examples:")[2]


def test_help_names_every_model_and_filter() -> None:
    assert all(name in ABOUT_MODEL for name in MODELS)
    assert {f.value for f in Filter} == set(FILTERS)


def test_devices_are_those_of_the_settings() -> None:
    for device in DEVICES:
        assert make_config("tango", {"train": {"device": parse_device(device)}}).train.device == device
    assert parse_device(None) == "auto"


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    from tangokg import __version__

    assert main(["--version"]) == 0
    assert __version__ in capsys.readouterr().out


def test_training_tells_what_it_read_and_what_to_do_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events, out = write_events(tmp_path / "events.csv"), tmp_path / "out"
    assert main(["train", str(events), "--model", "frequency", "--out", str(out), "-v"]) == 0
    told = capsys.readouterr()
    assert "61 facts, 7 entities, 2 relations, 20 times, counted in days" in told.err
    assert "2024-01-01 to" in told.err
    assert f"tango forecast {out} " in told.err
    assert all(name in told.out for name in FILTERS)
    assert main(["-q", "train", str(events), "--model", "frequency", "--out", str(out), "--overwrite"]) == 0
    told = capsys.readouterr()
    assert told.err == ""
    assert "time-aware" in told.out
    assert "raw" not in told.out


def test_json_of_training_is_the_metrics_of_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events, out = write_events(tmp_path / "events.csv"), tmp_path / "out"
    words = ["train", str(events), "--model", "recurrence", "--seed", "3", "--out", str(out)]
    found = printed(capsys, *words, "--train-share", "0.5", "--valid-share", "0.2")
    assert found == json.loads((out / "metrics.json").read_text())
    assert (found["model"], found["seed"], found["dataset"]) == ("recurrence", 3, "events")
    assert found["valid"]["time-aware"]["mrr"] > 0


def test_parts_by_date(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = write_events(tmp_path / "events.csv")
    dates = ["--valid-from", "2024-01-11", "--test-from", "2024-01-15"]
    words = ["train", str(events), "--model", "copy-last", "--out", str(tmp_path / "out"), *dates]
    assert printed(capsys, *words)["queries"] == {"valid": 2 * 4 * 3, "test": 2 * (6 * 3 + 1)}


def test_a_config_file_is_overruled_by_what_is_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events, config = write_events(tmp_path / "events.csv"), tmp_path / "config.toml"
    config.write_text('model = "tango-distmult"\nseed = 5\n[settings]\ndim = 6\nlayers = 1\n[train]\nepochs = 1\n')
    words = [
        "train",
        str(events),
        "--config",
        str(config),
        "--set",
        "dim=4",
        "--seed",
        "7",
        "--out",
        str(tmp_path / "r"),
    ]
    found = printed(capsys, *words)
    assert (found["seed"], found["config"]["settings"]["dim"], found["config"]["settings"]["layers"]) == (7, 4, 1)


def test_evaluation_has_a_row_for_each_horizon(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = printed(capsys, "evaluate", str(run))
    stored = json.loads((run / "metrics.json").read_text())
    assert whole["results"][0]["time-aware"] == pytest.approx(stored["test"]["time-aware"])
    rows = printed(capsys, "evaluate", str(run), "--horizon", "1-2,5", "--filter", "raw")["results"]
    assert [row["horizon"] for row in rows] == [1, 2, 5]
    assert {row["queries"] for row in rows} == {whole["results"][0]["queries"]}
    assert all("time-aware" not in row and "raw" in row for row in rows)
    assert main(["evaluate", str(run), "--horizon", "3"]) == 0
    assert "horizon (days)" in capsys.readouterr().out


@pytest.mark.parametrize("by", ["relation", "time"])
def test_a_breakdown_adds_up_to_the_whole(by: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, "evaluate", str(run), "--by", by, "--filter", "time-aware", "--split", "valid")
    whole, rows = found["results"][0], found["rows"]
    assert sum(row["queries"] for row in rows) == whole["queries"]
    mean = sum(row["queries"] * row["mrr"] for row in rows) / whole["queries"]
    assert mean == pytest.approx(whole["time-aware"]["mrr"])
    assert main(["evaluate", str(run), "--by", by]) == 0
    label = {"relation": "calls", "time": "2024-01-20"}[by]
    assert label in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "file"), [(["--by", "time"], "time.png"), (["--horizon", "5,1-2", "--json"], "horizons.svg")]
)
def test_evaluation_can_be_drawn(words: list[str], file: str, run: Path, tmp_path: Path) -> None:
    assert main(["-q", "evaluate", str(run), *words, "--plot", str(tmp_path / file), "--device", "cpu"]) == 0
    start = (tmp_path / file).read_bytes()[:60]
    assert start.startswith(b"\x89PNG") if file.endswith("png") else b"<?xml" in start


def test_training_can_be_drawn(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figure = tmp_path / "training.pdf"
    assert main(["train", "--out", str(run), "--resume", "--plot", str(figure)]) == 0
    assert f"The figure is in {figure}" in capsys.readouterr().err
    assert figure.read_bytes().startswith(b"%PDF")
    events, other = write_events(tmp_path / "events.csv"), tmp_path / "none.png"
    words = ["train", str(events), "--model", "frequency", "--out", str(tmp_path / "out"), "--plot", str(other)]
    assert main(words) == 0
    assert "frequency has nothing to train" in capsys.readouterr().err
    assert not other.exists()


@pytest.mark.parametrize(("more", "hinted"), [([], True), (SMALL[:2], False), (["--model", "frequency"], False)])
def test_smaller_settings_are_hinted_at_where_nothing_was_set(
    more: list[str], hinted: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tangokg.cli.training.fit_shown", lambda *_, **__: sys.exit(3))
    events = write_events(tmp_path / "events.csv")
    assert main(["train", str(events), "--out", str(tmp_path / "out"), *more]) == 3
    told = [line.strip() for line in capsys.readouterr().err.splitlines()]
    command = ["tango", "train", str(events), "--out", f"{tmp_path / 'out'}-small"]
    whole = shlex.join([*command, *(word for setting in SMALLER for word in ("--set", setting))])
    assert (whole in told) == hinted
    assert make_config("tango", assignments=SMALLER).settings != make_config("tango").settings
    for facts, entities, small in ((10, 7, False), (10, 8, True), (61, 7, True)):
        monkeypatch.setattr("tangokg.cli.hints.FEW_FACTS", facts)
        monkeypatch.setattr("tangokg.cli.hints.FEW_ENTITIES", entities)
        assert main(["train", str(events), "--out", str(tmp_path / "out"), *more]) == 3
        assert ("faster and usually better" in capsys.readouterr().err) == (hinted and small)


def test_inductive_queries_are_those_with_a_newcomer(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, "evaluate", str(run), "--inductive")
    assert found["results"][0]["queries"] == 2 * 2  # (Gus, visits, Fay) and (Ann, visits, Gus), both ways


def test_forecast_by_name(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, "forecast", str(run), "Ann [red]", "visits", "--at", "2024-02-01", "--top", "20")
    assert found["at"] == "2024-02-01"
    assert sum(answer["probability"] for answer in found["answers"]) == pytest.approx(1, abs=1e-4)
    assert main(["forecast", str(run), "?", "visits", "Fay", "--top", "7"]) == 0
    text = capsys.readouterr().out
    assert "(?, visits, Fay)" in text
    assert "Ann [red]" in text  # no markup
    assert "seen 9 times, last 2024-01-17" in text
    asked = printed(capsys, "forecast", str(run), "Bob", "?", "Ann [red]")
    assert {answer["name"] for answer in asked["answers"]} == {"calls", "visits"}


def test_observed_facts_are_known_and_the_run_stays(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = tmp_path / "more.csv"
    more.write_text("who,relation,object,date\nZed,calls,Bob,2024-01-25\nZed,calls,Bob,2024-01-25\n")
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    words = ["forecast", str(run), "Zed", "calls", "--top", "20"]
    assert main(words) == 2
    found = printed(capsys, *words, "--observe", str(more), "--column", "subject=who")
    assert next(answer["seen"] for answer in found["answers"] if answer["name"] == "Bob") == 1
    assert before == {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}


def test_what_observed_facts_bring_is_told(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, more = tmp_path / "one.csv", tmp_path / "more.csv"
    one.write_text("who,relation,object,date\nZed,calls,Bob,2024-01-25\n")
    more.write_text("who,relation,object,date\nZed,greets,Yan,2024-01-26\nYan,greets,Zed,2024-01-26\n")
    words = ["forecast", str(run), "Zed", "calls", "--column", "subject=who", "--observe", str(one)]
    assert main(words) == 0
    told = capsys.readouterr().err
    assert f"1 new fact of {one} is known now, with 1 new name and 0 new relations" in told
    assert "training never saw" not in told
    assert main([*words, "--observe", str(more)]) == 0
    told = capsys.readouterr().err
    assert f"2 new facts of {more} are known now, with 1 new name and 1 new relation;" in told
    assert told.count("training never saw 'greets'") == 1


def test_questions_have_the_headings_of_facts(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more, plain, other = tmp_path / "more.csv", tmp_path / "plain.csv", tmp_path / "other.csv"
    more.write_text("who,relation,object,date\nZed,calls,Bob,2024-01-25\n")
    plain.write_text("subject,relation,time\nBob,calls,2024-02-01\n")
    other.write_text("Source,did,date\nBob,calls,2024-02-01\n")
    words = ["forecast", str(run), "--top", "3", "--queries"]
    expected = printed(capsys, *words, str(plain))
    assert printed(capsys, *words, str(other), "--column", "relation=did") == expected
    shared = ["--observe", str(more), "--column", "subject=who", "--column", "relation=did"]
    assert [row["relation"] for row in printed(capsys, *words, str(other), *shared)] == ["calls"] * 3
    assert main([*words, str(other), "--column", "relation=done"]) == 2
    assert "unknown column 'done'" in capsys.readouterr().err
    assert main([*words, str(other), *shared, "--column", "time=dates"]) == 2
    assert "unknown column 'dates'. Did you mean 'date'?" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_a_table_of_questions(suffix: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    questions, out = tmp_path / "questions.csv", tmp_path / f"answers{suffix}"
    questions.write_text("subject,relation,object,time\nBob,calls,,2024-02-01\n,visits,Fay,\n")
    words = ["forecast", str(run), "--queries", str(questions), "--top", "3"]
    assert main([*words, "--out", str(out)]) == 0
    if suffix == ".parquet":
        table = pa.parquet.read_table(out)
    else:
        options = pa.csv.ParseOptions(delimiter="\t" if suffix == ".tsv" else ",")
        table = pa.csv.read_csv(out, parse_options=options)
    assert table.column("query").to_pylist() == [0, 0, 0, 1, 1, 1]
    rows = printed(capsys, *words)
    assert [row["answer"] for row in rows] == table.column("answer").to_pylist()
    assert main(words) == 0
    assert len(capsys.readouterr().out.splitlines()) == 7
    assert set(tmp_path.iterdir()) == {questions, out}


def test_going_on_from_a_run_keeps_its_settings(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    newer = write_events(tmp_path / "newer.csv", days=24)
    words = ["train", str(newer), "--from", str(run), "--set", "epochs=1", "--out", str(tmp_path / "next")]
    capsys.readouterr()
    assert main([*words, "--json"]) == 0
    told = capsys.readouterr()
    assert f"taken over from {run}: 7 of 7 names, 2 of 2 relations" in told.err
    found = json.loads(told.out)
    assert found["config"]["settings"]["dim"] == 4
    assert found["model"] == "tango-distmult"


def test_a_finished_run_can_be_resumed_without_its_data(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, "train", "--out", str(run), "--resume")
    counted = found.pop("frequency")
    assert found == json.loads((run / "metrics.json").read_text())
    assert set(counted) == {"valid", "test"}


@pytest.mark.parametrize("more", [[], ["--inductive"], ["--horizon", "2,3", "--split", "valid"]], ids=" ".join)
def test_a_counter_stands_beside_what_was_trained(
    more: list[str], run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events, other = write_events(tmp_path / "events.csv"), tmp_path / "counted"
    own = printed(capsys, "train", str(events), "--model", "frequency", "--out", str(other))
    assert "frequency" not in own
    trained = printed(capsys, "train", "--out", str(run), "--resume")["frequency"]
    assert trained == {"valid": own["valid"], "test": own["test"]}
    whole = printed(capsys, "evaluate", str(other), *more)
    assert "frequency" not in whole
    assert printed(capsys, "evaluate", str(run), *more)["frequency"] == whole["results"]
    assert main(["evaluate", str(run), *more]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum("frequency" in line for line in lines) == len(whole["results"])
    assert main(["train", "--out", str(run), "--resume"]) == 0
    assert sum("frequency" in line for line in capsys.readouterr().out.splitlines()) == 2


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
    assert "trips" not in text.err
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "trips.py").touch()
    run_demo(Output(), world, config, tmp_path / "run", overwrite=True, as_json=False)
    text = capsys.readouterr()
    assert "python examples/trips.py" in text.err
    settings = " ".join(f"--set {setting}" for setting in SMALLER)
    assert f"tango train trips.csv --out runs/trips {settings}\n" in text.err
    assert f"tango forecast {tmp_path / 'run'} " in text.err


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
    assert set(found["extras"]) == {"serve", "tune", "dev"}
    assert set(found["known sets"]) == set(KNOWN)
    assert main(["doctor"]) == 0
    assert "torchdiffeq" in capsys.readouterr().out


def test_bars_and_sparklines() -> None:
    assert [len(bar(share, 8)) for share in (0, 0.5, 1, 2)] == [0, 4, 8, 8]
    assert bar(1 / 64, 8) == "▏"
    assert sparkline([0, 1, 8]) == " ▂█"
    assert sparkline([]) == ""


def test_the_app_needs_no_object_from_main() -> None:
    from typer.testing import CliRunner

    assert isinstance(app, typer.Typer)
    assert CliRunner().invoke(app, ["data", "list", "--json"]).exit_code == 0
