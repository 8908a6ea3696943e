"""`tango train --devices 2`: two processes on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file
from torch.testing import assert_close

from cli_runs import SMALL, write_events

PLAIN = [*SMALL, "--set", "dropout=0", "--set", "precision=64-true", "--set", "batch_windows=4", "--json"]


def train(folder: Path, out: str, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tangokg.cli", "train", "events.csv", "--model", "tango-tucker", "--out", out]
    place = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run([*command, *more], cwd=folder, env=place, capture_output=True, text=True, timeout=300)


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
