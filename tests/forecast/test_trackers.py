"""Trackers: what they receive, that a resumed run goes on in them, and that none of them ends a training."""

from __future__ import annotations

import csv
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.fabric.loggers.logger import Logger

from cli_runs import write_events
from conftest import make_dataset
from tangokg.cli import main
from tangokg.errors import ConfigError, RunError, TangoError
from tangokg.forecast import Forecaster, fit
from tangokg.train import Interrupted, Progress, loggers
from tangokg.train.loggers import FILE, LOGGERS, choose_loggers

SMALL: dict[str, Any] = {"dim": 4, "history": 2, "epochs": 3, "device": "cpu", "verbose": False}
FIGURES = ("mrr", "hits@1", "hits@3", "hits@10")
VALID = {f"valid/{name.replace('@', '_at_')}": f"valid_{name}" for name in FIGURES}
TRAIN = {f"train/{name}": name for name in ("loss", "learning_rate", "seconds")}
COLUMNS = VALID | TRAIN  # name in a tracker -> column of log.csv


def train(**options: Any) -> Forecaster:
    return fit(make_dataset(1), "tango-distmult", **(SMALL | options))


def train_in_two(out: Path, names: str) -> list[dict[str, float]]:
    """Stopped after the first epoch, and resumed; returns the rows of the log."""
    with pytest.raises(Interrupted):
        train(out=out, loggers=names, stop=lambda progress: "stopped" if progress.epoch else "")
    return train(out=out, loggers=names, resume=True).progress.log or rows_of(out)


def rows_of(run: Path) -> list[dict[str, float]]:
    with (run / "log.csv").open() as file:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


def measured_mrr(run: Path) -> float:
    return float(json.loads((run / "metrics.json").read_text())["test"]["time-aware"]["mrr"])


class Recorder(Logger):
    """A Lightning logger that remembers, and fails when told to."""

    def __init__(self, fails_at: int = -1) -> None:
        self.settings: list[dict[str, Any]] = []
        self.rows: list[tuple[int | None, dict[str, float]]] = []
        self.ended: list[str] = []
        self.calls, self.fails_at = 0, fails_at

    @property
    def name(self) -> str:
        return "recorder"

    @property
    def version(self) -> int:
        return 0

    def log_hyperparams(self, params: Any, *args: Any, **kwargs: Any) -> None:
        self.settings.append(params)

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        self.calls += 1
        if self.calls == self.fails_at:
            raise OSError(28, "No space left on https://ann:secret@tracker/path")
        self.rows.append((step, metrics))

    def finalize(self, status: str) -> None:
        self.ended.append(status)


def test_a_logger_receives_settings_once_then_epochs_then_test_metrics() -> None:
    recorder = Recorder()
    forecaster = train(loggers=[recorder])
    (settings,) = recorder.settings
    assert (settings["model"], settings["settings"]["dim"], settings["train"]["epochs"]) == ("tango-distmult", 4, 3)
    assert settings["data"]["train_facts"] == len(forecaster.dataset.train)
    log = forecaster.progress.log
    expected = [(int(row["epoch"]), {name: row[column] for name, column in COLUMNS.items()}) for row in log]
    assert recorder.rows[:-1] == expected
    step, final = recorder.rows[-1]
    assert step == 3
    assert final["test/mrr"] == forecaster.evaluate()["time-aware"].mrr
    assert final["best_epoch"] == forecaster.progress.best_epoch
    assert recorder.ended == ["success"]


def test_a_refit_is_not_logged_and_a_counter_has_test_metrics_alone() -> None:
    recorder, counting = Recorder(), Recorder()
    train(loggers=[recorder], refit=True)
    assert [step for step, _ in recorder.rows] == [1, 2, 3, 3]
    fit(make_dataset(1), "frequency", verbose=False, loggers=[counting])
    ((step, final),) = counting.rows
    assert step == 0
    assert final["test/mrr"] > 0


def test_an_interrupted_or_failed_training_ends_its_loggers() -> None:
    recorder, other = Recorder(), Recorder()
    with pytest.raises(Interrupted):
        train(loggers=[recorder], stop=lambda progress: "stopped")
    with pytest.raises(TangoError):
        train(loggers=[other], learning_rate=1e30, clip=0.0)
    assert (recorder.ended, other.ended) == (["aborted"], ["failed"])


@pytest.mark.parametrize("moment", [1, 2, 4], ids=["the first epoch", "the second", "test metrics"])
def test_a_logger_that_fails_is_left_out_with_one_warning(moment: int, caplog: pytest.LogCaptureFixture) -> None:
    failing, other = Recorder(fails_at=moment), Recorder()
    with caplog.at_level(logging.WARNING, "tangokg"):
        forecaster = train(loggers=[failing, other])
    assert failing.calls == moment, "it is not called again"
    assert len(other.rows) == 4
    (told,) = [record.getMessage() for record in caplog.records if "Recorder" in record.getMessage()]
    assert "No space left" in told
    assert "secret" not in told
    undisturbed = train()
    for name, tensor in undisturbed.model.state_dict().items():
        assert torch.equal(forecaster.model.state_dict()[name], tensor)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # of TensorBoard's own thread
@pytest.mark.parametrize("name", ["csv", "tensorboard"])
def test_a_folder_that_cannot_be_written_does_not_end_the_training(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is gone after the first epoch, and a file has its place."""
    run = tmp_path / "run"

    def spoil(progress: Progress) -> str:
        if progress.epoch == 1 and (run / "logs").is_dir():
            shutil.rmtree(run / "logs")
            (run / "logs").write_text("in the way")
        return ""

    with caplog.at_level(logging.WARNING, "tangokg"):
        assert train(out=run, loggers=name, stop=spoil).progress.epoch == 3
    assert len([record for record in caplog.records if "The tracker" in record.getMessage()]) == 1


def test_csv_has_all_epochs_of_a_resumed_run(tmp_path: Path) -> None:
    rows = train_in_two(tmp_path / "run", "csv")
    with (tmp_path / "run" / "logs" / "csv" / "metrics.csv").open() as file:
        *epochs, final = csv.DictReader(file)
    assert [int(row["step"]) for row in epochs] == [1, 2, 3]
    for name, column in COLUMNS.items():
        assert [float(row[name]) for row in epochs] == [row[column] for row in rows]
    assert float(final["test/mrr"]) == measured_mrr(tmp_path / "run")


def test_tensorboard_reads_back_what_was_logged_also_of_a_resumed_run(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    rows = train_in_two(tmp_path / "run", "tensorboard")
    events = EventAccumulator(str(tmp_path / "run" / "logs" / "tensorboard")).Reload()
    for name, column in COLUMNS.items():
        scalars = events.Scalars(name)
        assert [scalar.step for scalar in scalars] == [1, 2, 3]
        assert [scalar.value for scalar in scalars] == pytest.approx([row[column] for row in rows])
    assert [s.value for s in events.Scalars("test/mrr")] == pytest.approx([measured_mrr(tmp_path / "run")])
    assert [s.value for s in events.Scalars("hp_metric")][-1] == pytest.approx(max(r["valid_mrr"] for r in rows))
    plugin = events.PluginTagToContent("hparams")
    assert b"settings/dim" in plugin["_hparams_/session_start_info"]


def test_a_tracker_that_is_asked_for_later_gets_the_earlier_epochs_too(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        train(out=tmp_path / "run", stop=lambda progress: "stopped" if progress.epoch == 2 else "")
    train(out=tmp_path / "run", loggers="csv", resume=True)
    with (tmp_path / "run" / "logs" / "csv" / "metrics.csv").open() as file:
        assert [row["step"] for row in csv.DictReader(file)] == ["1", "2", "3", "3"]


def test_a_damaged_note_of_the_trackers_is_told(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        train(out=tmp_path / "run", loggers="csv", stop=lambda progress: "stopped" if progress.epoch else "")
    for content in ("{", "[]", '{"csv": {"run": 1, "epochs": 2}}'):
        (tmp_path / "run" / FILE).write_text(content)
        with pytest.raises(RunError, match=rf"{FILE}: damaged; delete it"):
            train(out=tmp_path / "run", loggers="csv", resume=True)


# Refused before training


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("tensorbord", r"unknown tracker 'tensorbord'. Did you mean tensorboard\? Known: csv, tensorboard"),
        ("csv,", "unknown tracker ''"),
        ([3], "3 is neither one of csv, tensorboard, wandb, mlflow nor a Lightning logger"),
    ],
)
def test_what_is_no_tracker_is_refused_before_anything_is_read(given: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        fit("no such file", loggers=given, out="nowhere")


@pytest.mark.parametrize("name", [name for name in LOGGERS if name != "csv"])
def test_a_missing_package_names_its_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loggers, "find_spec", lambda package: None)
    with pytest.raises(ConfigError, match=rf"needs the extra '{name}' .*pip install 'tangokg\[{name}\]'"):
        fit("no such file", loggers=name, out="nowhere")
    assert choose_loggers("csv") == ["csv"]


def test_without_a_run_folder_files_have_no_place() -> None:
    with pytest.raises(ConfigError, match="give out="):
        train(loggers="csv")


def test_a_tracker_that_cannot_be_started_is_an_error_without_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing is left of the run."""

    def refuse(run: Path, version: str) -> Any:
        raise RuntimeError("API request to http://ann:secret@127.0.0.1:9/api failed")

    monkeypatch.setitem(LOGGERS, "csv", refuse)
    with pytest.raises(ConfigError, match=r"'csv' cannot be started: API request to http://127\.0") as raised:
        train(out=tmp_path / "run", loggers="csv")
    assert "secret" not in str(raised.value)
    assert not (tmp_path / "run").exists()


def test_the_command_takes_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events, run = write_events(tmp_path / "events.csv"), tmp_path / "run"
    words = ["train", str(events), "--model", "tango-distmult", "--set", "dim=4", "--epochs", "1", "--out", str(run)]
    assert main([*words, "--log", "nothing"]) == 2
    assert "unknown tracker 'nothing'" in capsys.readouterr().err
    assert main(["-q", *words, "--log", "csv,tensorboard"]) == 0
    assert (run / "logs" / "csv" / "metrics.csv").exists()
    assert list((run / "logs" / "tensorboard").glob("events.out.*"))


# MLflow and W&B


def use_mlflow(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """As in a fresh process: MLflow keeps the address that it was last given, whatever the environment says."""
    import mlflow

    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    mlflow.set_tracking_uri(address)


def check_mlflow(address: str, run: Path) -> None:
    """One run, with the epochs of both sessions, settings and test metrics."""
    from mlflow.tracking import MlflowClient

    client, note = MlflowClient(address), json.loads((run / FILE).read_text())["mlflow"]
    experiment = client.get_experiment_by_name("tangokg")
    assert experiment is not None
    (found,) = client.search_runs([experiment.experiment_id])
    assert (found.info.run_id, found.info.status, found.info.run_name) == (note["run"], "FINISHED", "run")
    assert found.data.params["settings/dim"] == "4"
    rows = rows_of(run)
    for name, column in COLUMNS.items():
        history = sorted((metric.step, metric.value) for metric in client.get_metric_history(note["run"], name))
        assert [step for step, _ in history] == [1, 2, 3]
        assert [value for _, value in history] == pytest.approx([row[column] for row in rows])
    assert found.data.metrics["test/mrr"] == pytest.approx(measured_mrr(run))


@pytest.mark.slow
def test_mlflow_keeps_a_resumed_run_in_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"sqlite:///{tmp_path / 'mlflow.db'}"
    use_mlflow(monkeypatch, address)
    train_in_two(tmp_path / "run", "mlflow")
    check_mlflow(address, tmp_path / "run")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """MLflow on loopback, with its port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    place = ["--backend-store-uri", f"sqlite:///{tmp_path / 'server.db'}", "--workers", "1"]
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), *place]
    with (tmp_path / "server.log").open("wb") as log:
        started = subprocess.Popen(command, stdout=log, stderr=log, cwd=tmp_path, start_new_session=True)
        try:
            end = time.monotonic() + 180
            while True:
                with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                    break
                assert started.poll() is None, (tmp_path / "server.log").read_text()
                assert time.monotonic() < end, "the server does not start"
                time.sleep(0.3)
            yield started, port
        finally:
            stop(started)


def stop(started: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(started.pid, signal.SIGKILL)
    started.wait()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="process groups")
def test_a_real_mlflow_server(
    server: tuple[subprocess.Popen[bytes], int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A run in two sessions; no password in its folder; then a run whose server goes away; then one without it."""
    started, port = server
    use_mlflow(monkeypatch, f"http://ann:secret-word@127.0.0.1:{port}")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    train_in_two(tmp_path / "run", "mlflow")
    check_mlflow(f"http://127.0.0.1:{port}", tmp_path / "run")
    assert not [
        file for file in (tmp_path / "run").rglob("*") if file.is_file() and b"secret-word" in file.read_bytes()
    ]

    def go_away(progress: Progress) -> str:
        if progress.epoch == 1:
            stop(started)
        return ""

    with caplog.at_level(logging.WARNING, "tangokg"):
        assert train(out=tmp_path / "other", loggers="mlflow", stop=go_away).progress.epoch == 3
    (told,) = [r.getMessage() for r in caplog.records if r.name == "tangokg" and "tracker" in r.getMessage()]
    assert "secret-word" not in told
    with pytest.raises(ConfigError, match="'mlflow' cannot be started") as raised:
        train(out=tmp_path / "third", loggers="mlflow")
    assert "secret-word" not in str(raised.value)
    assert not (tmp_path / "third").exists()


def wandb_records(file: Path) -> list[Any]:
    """The records of an offline run of W&B: blocks of 32 KiB in LevelDB's form of logs, behind seven bytes."""
    wandb_internal_pb2 = import_module("wandb.proto.wandb_internal_pb2")
    content, place, whole, records = file.read_bytes(), 7, b"", []
    while place + 7 <= len(content):
        if 32768 - place % 32768 < 7:
            place += 32768 - place % 32768
            continue
        length, kind = int.from_bytes(content[place + 4 : place + 6], "little"), content[place + 6]
        whole += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # a whole record, or the end of one
            records.append(wandb_internal_pb2.Record.FromString(whole))
            whole = b""
    return records


@pytest.mark.slow
def test_wandb_offline_holds_both_sessions_and_no_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["tango", "train", "postgresql://ann:secret-word@host/db"])
    train_in_two(tmp_path / "run", "wandb")
    files = sorted((tmp_path / "wandb").glob("offline-run-*/*.wandb"))
    assert len(files) == 2
    assert {file.stem for file in files} == {f"run-{json.loads((tmp_path / 'run' / FILE).read_text())['wandb']['run']}"}
    records = [record for file in files for record in wandb_records(file)]
    history = [
        {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
        for record in records
        if record.WhichOneof("record_type") == "history"
    ]
    epochs = [row for row in history if "train/loss" in row]
    assert [row["trainer/global_step"] for row in epochs] == [1, 2, 3]
    for name, column in COLUMNS.items():
        assert [row[name] for row in epochs] == pytest.approx([row[column] for row in rows_of(tmp_path / "run")])
    assert [row["test/mrr"] for row in history if "test/mrr" in row] == pytest.approx([measured_mrr(tmp_path / "run")])
    config = {item.key: item.value_json for record in records for item in record.run.config.update}
    config |= {item.key: item.value_json for record in records for item in record.config.update}
    assert json.loads(config["settings"])["dim"] == 4
    assert not [file for file in tmp_path.rglob("*") if file.is_file() and b"secret-word" in file.read_bytes()]
