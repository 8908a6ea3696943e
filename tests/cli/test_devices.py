"""`tango train --devices 2`: two processes on this machine; `--nodes 2`: two commands that find one another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from safetensors.torch import load_file
from torch.testing import assert_close

from cli_runs import SMALL, write_events
from processes_run import free_port
from tangokg.cli import main

PLAIN = [*SMALL, "--set", "dropout=0", "--set", "precision=64-true", "--set", "batch_windows=4", "--json"]


def begin(folder: Path, out: str, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tangokg.cli", "train", "events.csv", "--model", "tango-tucker", "--out", out]
    place, pipe = os.environ | {"OMP_NUM_THREADS": "1"}, subprocess.PIPE
    return subprocess.Popen([*command, *more], cwd=folder, env=place, text=True, stdout=pipe, stderr=pipe)


def train(folder: Path, out: str, *more: str) -> subprocess.CompletedProcess[str]:
    process = begin(folder, out, *more)
    stdout, stderr = process.communicate(timeout=600)
    return subprocess.CompletedProcess([], process.returncode, stdout, stderr)


@pytest.mark.slow
def test_two_processes_make_the_run_of_one_and_speak_once(tmp_path: Path) -> None:
    write_events(tmp_path / "events.csv")
    one, two = train(tmp_path, "one", *PLAIN, "--refit"), train(tmp_path, "two", *PLAIN, "--refit", "--devices", "2")
    assert (one.returncode, two.returncode) == (0, 0), two.stderr
    assert json.loads(two.stdout)["test"] == json.loads(one.stdout)["test"]
    assert two.stderr.count("epoch   1/2") == one.stderr.count("epoch   1/2") == 2  # training and refit
    weights = [load_file(tmp_path / out / "weights.safetensors") for out in ("one", "two")]
    for name, tensor in weights[0].items():
        assert_close(weights[1][name], tensor, rtol=1e-6, atol=1e-6, msg=name)
    again = train(tmp_path, "two", *PLAIN, "--devices", "2")
    assert again.returncode == 2
    assert "error: two exists" in again.stderr


@pytest.mark.slow
def test_two_nodes_find_one_another_and_make_the_run_of_one(tmp_path: Path) -> None:
    write_events(tmp_path / "events.csv")
    one, meeting = train(tmp_path, "one", *PLAIN), f"127.0.0.1:{free_port()}"
    words = [*PLAIN, "--devices", "1", "--nodes", "2", "--rendezvous", meeting, "--shard-entities"]
    both = [begin(tmp_path, "two", *words) for _ in range(2)]
    said = [process.communicate(timeout=600) for process in both]
    assert [one.returncode, *(process.returncode for process in both)] == [0, 0, 0], said
    figures = [json.loads(stdout) for stdout, _ in said if stdout]
    assert len(figures) == 1
    assert figures[0]["test"] == json.loads(one.stdout)["test"]
    weights = [load_file(tmp_path / out / "weights.safetensors") for out in ("one", "two")]
    for name, tensor in weights[0].items():
        assert_close(weights[1][name], tensor, rtol=1e-6, atol=1e-6, msg=name)


@pytest.mark.parametrize(
    ("words", "started", "message"),
    [
        (["--nodes", "2"], None, "--nodes 2: give the same command on each machine, with --rendezvous HOST:PORT"),
        (["--rendezvous", "node1:29400"], None, "give --nodes N with it"),
        (["--nodes", "2", "--rendezvous", "node1"], None, "expected HOST:PORT"),
        (["--devices", "3", "--nodes", "2"], 4, "torchrun or Slurm started 4 processes"),
        (["--devices", "3"], 4, "torchrun or Slurm started 4 processes"),
    ],
)
def test_options_that_do_not_go_together_say_so(
    words: list[str],
    started: int | None,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
        if started:
            monkeypatch.setenv(name, str(started if name == "WORLD_SIZE" else 0))
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    assert main(["train", "world", *words]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
