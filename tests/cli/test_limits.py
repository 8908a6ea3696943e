"""``tango train`` within a time, stopped, gone on with, started from another run, and refitted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cli_runs import NAMES, SMALL, printed, write_events
from tangokg.cli import main
from tangokg.train import RunFolder, loop

MODEL = ["--model", "tango-distmult", "--set", "dim=4", "--set", "layers=1", "--set", "history=2", "--device", "cpu"]
ENV = {**os.environ, "OMP_NUM_THREADS": "1"}
posix = pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")


@pytest.fixture
def events(tmp_path: Path) -> Path:
    return write_events(tmp_path / "events.csv")


def train(events: Path, out: Path, *more: str) -> int:
    return main(["train", str(events), "--out", str(out), *MODEL, *more])


def test_a_budget_ends_training_and_says_so(events: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    assert train(events, out, "--budget", "0.001s") == 0
    told = capsys.readouterr().err
    assert "at most 100 epochs or 0.001 s" in told
    assert "training ended: the time budget of 0.001 s is spent" in told
    found = json.loads((out / "metrics.json").read_text())
    assert (found["ended"], found["config"]["train"]["budget"], found["epochs"]) == ("budget", 0.001, 1)
    assert train(events, out, "--resume", "--epochs", "2") == 0
    assert "training ended: all 2 epochs are done" in capsys.readouterr().err
    assert json.loads((out / "metrics.json").read_text())["epochs"] == 2
    assert train(events, out, "--budget", "soon", "--resume") == 2
    assert "--budget 'soon': expected a time such as" in capsys.readouterr().err


def test_ctrl_c_leaves_a_run_that_answers(
    events: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out, step, calls = tmp_path / "run", loop.Session._step, []

    def interrupted(self: Any, *given: Any) -> None:
        calls.append(1)
        if len(calls) == 12:
            os.kill(os.getpid(), signal.SIGINT)
        step(self, *given)

    with monkeypatch.context() as patched:
        patched.setattr(loop.Session, "_step", interrupted)
        assert train(events, out, "--epochs", "5") == 130
    told = capsys.readouterr().err
    assert "the best weights are those of epoch" in told
    assert "usable" in told
    assert told.rstrip().endswith("--resume")
    assert main(["forecast", str(out), NAMES[1], "calls"]) == 0
    assert printed(capsys, "evaluate", str(out))["ended"] == "stopped"
    assert main(["evaluate", str(out)]) == 0
    assert "stopped early" in capsys.readouterr().err
    assert train(events, out, "--epochs", "5", "--resume") == 0
    assert "ended" not in printed(capsys, "evaluate", str(out))
    assert RunFolder(out).finished


@posix
@pytest.mark.parametrize("delay", [0.0, 0.3, 0.8, 1.5])
def test_ctrl_c_in_the_first_seconds_is_not_lost(delay: float, events: Path, tmp_path: Path) -> None:
    """While Python loads modules, too: it ends, and not by the end of training."""
    words = ["train", str(events), "--out", str(tmp_path / "run"), *MODEL, "--epochs", "100000"]
    code = "import sys; from tangokg.cli import main; print('up', flush=True); sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, *words, "--set", "patience=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENV) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        try:
            _, told = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode in (130, -signal.SIGINT), told  # the latter before the command has begun
    if process.returncode == 130:
        assert sum(line.startswith("error: interrupted") for line in told.splitlines()) == 1


@posix
def test_a_ctrl_c_that_a_destructor_swallows_comes_again(capsys: pytest.CaptureFixture[str]) -> None:
    code = (
        "import os, signal, sys, time\n"
        "from tangokg import cli\n"
        "class Swallows:\n"
        "    def __del__(self):\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        for _ in range(1000): pass\n"
        "def slow(words, output):\n"
        "    Swallows()\n"
        "    time.sleep(20)\n"
        "cli._dispatch = slow\n"
        "sys.exit(cli.main(['doctor']))\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=ENV, timeout=15)
    assert ended.returncode == 130, ended.stderr
    assert "error: interrupted." in ended.stderr


def test_a_start_that_would_look_ahead_is_refused_and_marked_where_allowed(
    events: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The old run has trained and validated on what the new one is to be judged by."""
    assert train(events, tmp_path / "old", "--epochs", "1", "--train-share", "0.9") == 0
    new = [*MODEL, "--epochs", "1", "--valid-from", "2024-01-10", "--test-from", "2024-01-14"]
    command = ["train", str(events), *new, "--from", str(tmp_path / "old"), "--out", str(tmp_path / "new")]
    capsys.readouterr()
    assert main(command) == 2
    assert "depends on facts up to 2024-01-" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
    assert main([*command, "--allow-seen"]) == 0
    assert "NOT COMPARABLE" in capsys.readouterr().out
    assert printed(capsys, "evaluate", str(tmp_path / "new"))["not_comparable"]
    assert main(["evaluate", str(tmp_path / "new")]) == 0
    assert "NOT COMPARABLE" in capsys.readouterr().out
    both = ["compare", str(events), "--valid-from", "2024-01-10", "--test-from", "2024-01-14", "--model", "frequency"]
    both += ["--run", str(tmp_path / "new"), "--out", str(tmp_path / "compared")]
    assert main(both) == 2
    assert "is not comparable" in capsys.readouterr().err
    found = printed(capsys, *both, "--allow-seen")
    assert found["paired"] is None
    assert [row.get("not_comparable", False) for row in found["models"]].count(True) == 1
    assert main([*both, "--allow-seen"]) == 0
    assert "tango-distmult (not comparable)" in capsys.readouterr().out


def test_a_refitted_run_answers_and_is_not_measured(
    events: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert train(events, out, "--epochs", "2", "--refit") == 0
    assert "valid" in capsys.readouterr().out, "figures of before the refit are shown"
    assert main(["forecast", str(out), NAMES[1], "calls"]) == 0
    for words in (["evaluate", str(out)], ["compare", str(events), "--run", str(out), "--out", str(tmp_path / "c")]):
        capsys.readouterr()
        assert main(words) == 2
        assert "refit" in capsys.readouterr().err
    command = ["compare", str(events), "--model", "tango-distmult", *SMALL, "--set", "refit=true"]
    assert main([*command, "--out", str(tmp_path / "c")]) == 2
    assert "cannot be compared" in capsys.readouterr().err


def test_a_small_table_needs_no_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The rule says what it chose, and no hint asks for more."""
    events = write_events(tmp_path / "events.csv")
    assert main(["train", str(events), "--out", str(tmp_path / "run"), "--device", "cpu", "--budget", "1s"]) == 0
    told = capsys.readouterr().err
    assert "hint:" not in told
    chosen = RunFolder(tmp_path / "run").config()
    assert 0 < chosen.settings.dim < 200
    sizes = f"dim {chosen.settings.dim}, width {chosen.settings.width}, hops {chosen.settings.hops}"
    assert f"learning rate {chosen.train.learning_rate:g}, {sizes}; at most" in told
