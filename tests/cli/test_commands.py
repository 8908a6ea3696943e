"""Whole runs through ``main``: help, train, evaluate."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.main import get_command

from cli_runs import SMALL, printed, run, write_events
from tangokg.cli import main
from tangokg.cli.app import app
from tangokg.cli.evaluate import Filter, ProtocolName
from tangokg.cli.options import ABOUT_MODEL, DEVICES, parse_device
from tangokg.cli.train import SMALL as SMALLER
from tangokg.forecast import load
from tangokg.models import MODELS
from tangokg.rank import FILTERS, multi_step
from tangokg.rank.protocols import PLAIN
from tangokg.train import make_config

__all__ = ["run"]  # a fixture


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
    assert {p.value for p in ProtocolName} == set(PLAIN)


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


PAPER = ["--model", "tango-tucker"]  # of one size, whatever the data


@pytest.mark.parametrize(
    ("more", "hinted"),
    [(PAPER, True), ([], False), ([*PAPER, *SMALL[:2]], False), (["--model", "frequency"], False)],
)
def test_smaller_settings_are_hinted_at_where_nothing_was_set(
    more: list[str], hinted: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tangokg.cli.train.fit_shown", lambda *_, **__: sys.exit(3))
    events = write_events(tmp_path / "events.csv")
    assert main(["train", str(events), "--out", str(tmp_path / "out"), *more]) == 3
    told = [line.strip() for line in capsys.readouterr().err.splitlines()]
    command = ["tango", "train", str(events), *more, "--out", f"{tmp_path / 'out'}-small"]
    whole = shlex.join([*command, *(word for setting in SMALLER for word in ("--set", setting))])
    assert (whole in told) == hinted
    assert make_config("tango", assignments=SMALLER).settings != make_config("tango").settings
    for facts, entities, small in ((10, 7, False), (10, 8, True), (61, 7, True)):
        monkeypatch.setattr("tangokg.cli.train.FEW_FACTS", facts)
        monkeypatch.setattr("tangokg.cli.train.FEW_ENTITIES", entities)
        assert main(["train", str(events), "--out", str(tmp_path / "out"), *more]) == 3
        assert ("faster and usually better" in capsys.readouterr().err) == (hinted and small)


def test_multi_step_knows_nothing_of_the_part_and_states_travel(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["evaluate", str(run), "--by", "time"]
    single, far = printed(capsys, *words), printed(capsys, *words, "--multi-step")
    assert (single["multi_step"], far["multi_step"]) == (False, True)
    assert far["results"][0]["queries"] == single["results"][0]["queries"]
    assert far["rows"][0] == single["rows"][0], "the first time of the part knows the same"
    first = load(run).dataset.test.t.min()
    assert far["results"][0]["raw"] == load(run).evaluate(protocol=multi_step(float(first)))["raw"].to_dict()
    assert far["results"][0]["distance"] > single["results"][0]["distance"] > 0
    assert main(["evaluate", str(run), "--multi-step"]) == 0
    assert "multi-step" in capsys.readouterr().out


@pytest.mark.parametrize(
    "more", [["--multi-step"], ["--inductive"], ["--horizon", "2,3", "--split", "valid"]], ids=" ".join
)
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


def test_the_protocol_of_tgb_and_lists_of_candidates(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without lists it is the time-aware rank; lists are read once and hold for the counter beside, too."""
    whole = printed(capsys, "evaluate", str(run))
    as_tgb = printed(capsys, "evaluate", str(run), "--protocol", "tgb")
    assert list(as_tgb["results"][0]) == ["horizon", "queries", "tgb", "raw", "time-aware", "time-unaware", "distance"]
    assert as_tgb["protocol"] == "tgb"
    for of in ("results", "frequency"):
        assert as_tgb[of][0]["tgb"] == whole[of][0]["time-aware"]
    vocab, test = load(run).facts.vocab, load(run).dataset.test
    rows: dict[tuple[int, int, int], dict[str, Any]] = {}
    for s, r, o, t in zip(test.s.tolist(), test.r.tolist(), test.o.tolist(), test.t.tolist(), strict=True):
        for side, own, label in (("subject", s, r), ("object", o, r + vocab.num_relations)):
            rows[own, label, t] = {
                side: vocab.entities[own],
                "relation": vocab.relations[r],
                "time": t,
                "candidates": [0],
            }
    path = tmp_path / "lists.parquet"
    pq.write_table(pa.Table.from_pylist([{"subject": None, "object": None} | row for row in rows.values()]), path)
    words = ["evaluate", str(run), "--candidates", str(path)]
    among = printed(capsys, *words, "--protocol", "tgb")
    for of in ("results", "frequency"):
        assert among[of][0]["raw"]["hits@3"] == 100, "there are two candidates at most"
        assert among[of][0]["tgb"]["mrr"] <= among[of][0]["raw"]["mrr"], "an answer in its own list ties with itself"
    assert main([*words, "--protocol", "tgb"]) == 0
    assert "protocol of TGB, among listed candidates" in " ".join(capsys.readouterr().out.split())
    assert printed(capsys, *words)["results"][0]["raw"] == among["results"][0]["raw"]


@pytest.mark.parametrize("more", [["--horizon", "3"], ["--multi-step"], ["--inductive"]], ids=" ".join)
def test_the_protocol_of_tgb_goes_with_no_other(more: list[str], run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(run), "--protocol", "tgb", *more]) == 2
    assert "leave out the other protocols" in capsys.readouterr().err
