"""The batch scripts of ``deploy/slurm/`` on a real Slurm of one node: a search, a training, forecasts in parts."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from cli_runs import printed, write_events
from postgres_server import PASSWORD, USER, postgres
from slurm_server import slurm
from tangokg.cli import main

__all__ = ["postgres", "slurm"]

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "deploy" / "slurm"
SMALL = ["--set", "dim=4", "--set", "history=2", "--set", "epochs=2", "--device", "cpu"]


@pytest.mark.parametrize("script", sorted(SCRIPTS.iterdir()), ids=lambda path: path.stem)
def test_a_script_is_valid_and_says_how_it_is_called(script: Path) -> None:
    if bash := shutil.which("bash"):
        subprocess.run([bash, "-n", str(script)], check=True)
    lines = script.read_text().splitlines()
    assert lines[0] == "#!/bin/bash"
    assert f"sbatch {'' if script.stem != 'forecast' else '--array=1-N '}{script.name}" in lines[1]


def of_jobs(environment: dict[str, str]) -> dict[str, str]:
    """Where a job finds this package and the command."""
    places = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    return {**environment, "PYTHONPATH": places, "PATH": f"{Path(sys.executable).parent}:{environment['PATH']}"}


def submit(environment: dict[str, str], folder: Path, options: list[str], script: str, *words: str) -> str:
    """Wait for a job; what its tasks printed."""
    command = [
        "sbatch",
        "--wait",
        "--time=10",
        "--cpus-per-task=1",
        *options,
        str(SCRIPTS / f"{script}.sbatch"),
        *words,
    ]
    done = subprocess.run(
        command, cwd=folder, env=of_jobs(environment), capture_output=True, text=True, check=False, timeout=500
    )
    told = "\n".join(path.read_text() for path in sorted(folder.glob(f"{script}-*.out")))
    assert done.returncode == 0, f"{done.stdout}{done.stderr}{told}"
    return told


@pytest.mark.slow
def test_array_tasks_share_a_search(
    slurm: dict[str, str],
    postgres: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"alter schema public owner to {USER}".encode())
    storage = postgres.replace("postgres@", f"{USER}@")
    words = ["world", storage, "--study", "slurm", "--trials", "4", "--model", "tango-distmult", "--set", "dim=[2, 3]"]
    words += ["--set", "epochs=1", "--set", "batch_windows=72", "--device", "cpu"]
    told = submit(slurm | {"PGPASSWORD": PASSWORD}, tmp_path, ["--array=1-2"], "tune", *words)
    assert PASSWORD not in told
    assert told.count("further workers can join") == 2
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    found = printed(capsys, "tune", words[0], "--storage", *words[1:], "--out", "best.toml")
    assert [trial["state"] for trial in found["trials"]] == ["done"] * 4
    assert (tmp_path / "best.toml").exists()


@pytest.mark.slow
def test_tasks_of_srun_are_one_group(slurm: dict[str, str]) -> None:
    code = "from tangokg.train.processes import joined\nwith joined() as g: print(g.rank, g.size, g.largest(g.rank))"
    command = ["srun", "--ntasks=2", "--time=10", "python", "-c", code]
    done = subprocess.run(command, env=of_jobs(slurm), capture_output=True, text=True, check=True, timeout=300)
    assert sorted(done.stdout.split("\n")) == ["", "0 2 1", "1 2 1"]


@pytest.mark.slow
def test_tasks_of_srun_train_one_model(
    slurm: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The weights are those of one process; a second submission finds the training done."""
    events = write_events(tmp_path / "events.csv")
    words = [*SMALL, "--set", "precision=64-true", "--set", "batch_windows=4", "--set", "dropout=0", "--model"]
    words.append("tango-distmult")
    shape = ["--nodes=1", "--ntasks-per-node=2"]
    for _ in range(2):
        told = submit(slurm, tmp_path, shape, "train", str(events), "run", *words)
    assert main(["train", str(events), "--out", str(tmp_path / "alone"), *words]) == 0
    assert told.count("epoch   1/2") == 1
    together, alone = (load_file(tmp_path / name / "weights.safetensors") for name in ("run", "alone"))
    for name, weights in alone.items():
        torch.testing.assert_close(together[name], weights, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_array_tasks_answer_all_questions(
    slurm: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = write_events(tmp_path / "events.csv")
    assert main(["train", str(events), "--out", str(tmp_path / "run"), "--model", "frequency"]) == 0
    (tmp_path / "q").mkdir()
    for name in ("a", "b"):
        rows = "Bob,calls,2024-02-01\nFay,visits,2024-02-02\n" * 5
        (tmp_path / "q" / f"{name}.csv").write_text("subject,relation,time\n" + rows)
    submit(slurm, tmp_path, ["--array=1-3"], "forecast", "3", "run", "q/*.csv", "answers.csv", "--top", "2")
    parts = [list(csv.reader(path.open())) for path in sorted(tmp_path.glob("answers-*-of-3.csv"))]
    asked = ["--queries", str(tmp_path / "q" / "*.csv"), "--top", "2", "--out", str(tmp_path / "whole.csv")]
    assert main(["forecast", str(tmp_path / "run"), *asked]) == 0
    whole = list(csv.reader((tmp_path / "whole.csv").open()))
    assert [parts[0][0], *(row for part in parts for row in part[1:])] == whole
    assert len(whole) > 20
