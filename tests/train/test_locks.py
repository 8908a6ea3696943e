"""One process at a time writes a run folder, and who it is can be read."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from cli_runs import SMALL, write_events
from conftest import make_dataset, make_forecaster
from tangokg.cli import main
from tangokg.errors import RunError
from tangokg.forecast import fit
from tangokg.train import Progress, TrainSettings
from tangokg.train.locks import FileLock, owning

HOLDER = """
import sys
from pathlib import Path
from tangokg.train.locks import owning
with owning(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


class Silent:
    def step(self, progress: Progress, settings: TrainSettings, snapshots: int) -> None: ...

    def epoch(self, progress: Progress, settings: TrainSettings) -> None: ...


@pytest.fixture
def holder(tmp_path: Path) -> Any:
    """Another process that owns ``run``."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "run")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_folder_that_another_process_writes_is_refused_by_everybody(holder: Any, tmp_path: Path) -> None:
    out = tmp_path / "run"
    told = rf"{re.escape(str(out))} is in use by process {holder.pid} on .* since 20.*\(-c.*choose another --out"
    each: list[dict[str, Any]] = [{}, {"overwrite": True}, {"resume": True}]
    for options in each:
        with pytest.raises(RunError, match=told):
            fit(make_dataset(1), "frequency", out=out, reporter=Silent(), **options)
    with pytest.raises(RunError, match="is in use by process"):
        make_forecaster().save(out)
    assert not out.exists()


@pytest.mark.parametrize("option", ["--overwrite", "--resume"])
def test_two_processes_cannot_mix_their_runs(option: str, holder: Any, tmp_path: Path) -> None:
    """The run that is there stays as it is, whatever the second process wants."""
    events = write_events(tmp_path / "events.csv")
    run = ["-q", "train", str(events), "--model", "frequency", "--device", "cpu", "--out"]
    assert main([*run, str(tmp_path / "other")]) == 0
    (tmp_path / "other").rename(tmp_path / "run")
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert main([*run, str(tmp_path / "run"), option]) == 2
    assert {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()} == before


def test_who_waits_for_a_folder_says_for_whom(holder: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(RunError, match="is in use by"), owning(tmp_path / "run", wait=0.1):
        pass
    assert f"in use by process {holder.pid}" in caplog.text
    assert "waiting" in caplog.text


def test_a_lock_goes_with_its_holder_and_leaves_nothing(holder: Any, tmp_path: Path) -> None:
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    with owning(tmp_path / "run"), owning(tmp_path / "run"):  # one holder may take it again
        assert [path.name for path in tmp_path.iterdir()] == [".run.lock"]
    assert not list(tmp_path.iterdir())


def test_another_thread_is_another_holder(tmp_path: Path) -> None:
    found: list[str] = []

    def take() -> None:
        try:
            with owning(tmp_path / "run"):
                found.append("taken")
        except RunError as error:
            found.append(str(error))

    with owning(tmp_path / "run"):
        thread = threading.Thread(target=take)
        thread.start()
        thread.join()
    take()
    assert "is in use by process" in found[0]
    assert found[1] == "taken"


def test_training_leaves_no_lock_behind(tmp_path: Path) -> None:
    events = write_events(tmp_path / "events.csv")
    words = ["-q", "train", str(events), "--model", "tango-distmult", *SMALL, "--out", str(tmp_path / "runs" / "a")]
    assert main(words) == 0
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["a"]


def test_a_plain_lock_has_one_holder(tmp_path: Path) -> None:
    first, second = FileLock(tmp_path / "deep" / "lock"), FileLock(tmp_path / "deep" / "lock")
    assert first.try_acquire()
    assert not second.try_acquire()
    assert not first.try_acquire(), "not for one holder to take twice"
    first.release()
    with second:
        assert not first.try_acquire()
    assert first.acquire()
    first.release()
