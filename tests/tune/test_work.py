"""Trials through the training loop: a kill and what follows it, failures, the figure, the command."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cli_runs import printed
from conftest import make_dataset
from tangokg.cli import main
from tangokg.cli.options import parse_budget
from tangokg.errors import ConfigError
from tangokg.train import load_config
from tangokg.tune.figure import explained, marks, plot_study
from tangokg.tune.space import Choice, Range, make_plan
from tangokg.tune.study import Outcome
from tangokg.tune.work import Search, work

TINY = ["dim=[2, 3]", "layers=1", "history=[1, 2]", "batch_windows=8", "device=cpu"]
EPOCHS = ("epochs=2",)
LONGER = ("epochs=4", "checkpoint_seconds=0")
ROOT = Path(__file__).parents[2]
WORKER = """
import time
from pathlib import Path
from conftest import make_dataset
from tangokg.tune.space import make_plan
from tangokg.tune.work import Search, work

def hear(outcomes):  # after the second epoch of the first trial, wait to be killed
    if outcomes[0].epochs == 2:
        print("ready", flush=True)
        time.sleep(600)

dataset = make_dataset()
plan = make_plan(dataset, "search", assignments={given!r})
work(Search(dataset, plan, Path({path!r}), 2), hear=hear)
"""


def tiny(path: Path, trials: int = 2, *more: str, seed: int = 0, **options: Any) -> Search:
    dataset = make_dataset(seed)
    return Search(
        dataset, make_plan(dataset, "search", assignments=[*TINY, *(more or EPOCHS)]), path, trials, **options
    )


@pytest.fixture(scope="module", autouse=True)
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A worker in a process of its own; it is started first, since it takes a while to import torch."""
    path = tmp_path_factory.mktemp("killed") / "a.study"
    code = WORKER.format(given=[*TINY, *LONGER], path=str(path))
    places = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": places}
    process = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)
    yield process, path
    process.kill()
    process.communicate()


def test_the_outcome_does_not_depend_on_the_test_part(tmp_path: Path) -> None:
    search = tiny(tmp_path / "a")
    other = replace(search.dataset, test=search.dataset.test.select(slice(1)))
    found = [work(search), work(replace(search, dataset=other, path=tmp_path / "b"))]
    seen = [[(o.state, o.mrr, o.values, o.epochs) for o in outcomes] for outcomes in found]
    assert seen[0] == seen[1]
    assert [o.epochs for o in found[0]] == [2, 2]


def test_a_trial_that_cannot_be_trained_is_noted_and_the_next_one_goes_on(tmp_path: Path) -> None:
    search = tiny(tmp_path / "a", 3, *EPOCHS, "learning_rate=[1e30, 0.001]", "clip=0", seed=1)
    outcomes = work(search)
    failed = {o.values["learning_rate"]: o for o in outcomes if o.state == "failed"}
    assert set(failed) == {1e30}
    assert "not a number" in failed[1e30].note
    assert {o.state for o in outcomes} == {"failed", "done"}


def test_time_that_is_up_leaves_the_trial_to_be_taken_up(tmp_path: Path) -> None:
    search = tiny(tmp_path / "a", 1)
    calls = iter([False, *[True] * 99])
    stopped = work(search, stop=lambda: next(calls))
    assert [(o.state, o.epochs) for o in stopped] in ([("under way", 0)], [("under way", 1)])
    assert work(replace(search, deadline=0.0)) == stopped
    resumed, at_once = work(search), work(replace(search, path=tmp_path / "b"))
    assert [(o.state, o.mrr, o.values) for o in resumed] == [(o.state, o.mrr, o.values) for o in at_once]


def test_the_share_of_a_setting_is_one_where_it_decides_and_nothing_where_it_does_not(tmp_path: Path) -> None:
    rows = [{"a": i % 2, "b": float(i // 2 % 2), "mrr": 10.0 + 5 * (i % 2)} for i in range(12)]
    outcomes = [
        Outcome(i, ("done", "pruned")[i % 3 == 2], row["mrr"], {"a": row["a"], "b": row["b"]}, 3, 1.0)
        for i, row in enumerate(rows)
    ]
    space: dict[str, Choice | Range] = {"a": Choice((0, 1)), "b": Range(0.0, 1.0)}
    assert explained(outcomes, "a", space["a"]) == pytest.approx(1)
    assert explained(outcomes, "b", Choice((0.0, 1.0))) == pytest.approx(0)
    assert 0 <= explained(outcomes, "b", space["b"]) <= 1
    plot_study(tmp_path / "a.svg", outcomes, space, "a study")
    assert (tmp_path / "a.svg").read_text().count("<use") > 30  # the marks of 12 trials in three panels


def test_the_marks_of_a_range_by_factors_do_not_crowd() -> None:
    assert marks(Range(3e-4, 4e-3, log=True)) == [3e-4, 1e-3, 4e-3]
    assert marks(Range(1, 32, log=True, whole=True)) == [1, 10, 32]


def test_the_command_runs_through_some_of_the_papers_grid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    small = ["dim=[2, 3]", "history=[1, 2, 3]", "layers=[1, 2]", "epochs=1", "batch_windows=72"]
    words = ["tune", "world", "--preset", "paper-grid", "--device", "cpu"]
    words += [word for text in small for word in ("--set", text)]
    found = printed(capsys, *words, "--trials", "2", "--out", "best.toml", "--plot", "study.png")
    assert found["study"] == str(Path("runs/world-paper-grid.study"))
    assert [trial["state"] for trial in found["trials"]] == ["done", "done"]
    best = max(found["trials"], key=lambda trial: trial["mrr"])
    assert found["best"] == best
    config = load_config(Path("best.toml"))
    assert (config.model, config.settings.dim) == (best["values"]["model"], best["values"]["dim"])
    assert Path("study.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--budget", "soon"], "expected a time such as 90s, 8m or 1h"),
        (["--pruner", "medium"], "unknown pruner 'medium'. Did you mean median?"),
        (["--out", "no/such/best.toml"], "in a folder that is there"),
        (["--plot", "study.txt"], "no figure is written as '.txt'"),
    ],
)
def test_mistakes_are_told_before_anything_is_read(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tune", "nothing", *words]) == 2
    assert message in capsys.readouterr().err


def test_budgets() -> None:
    assert [parse_budget(text) for text in ("90", "1.5m", "2h", None)] == [90, 90, 7200, None]
    with pytest.raises(ConfigError):
        parse_budget("-3m")


def test_without_optuna_the_message_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert main(["tune", "world"]) == 2
    assert "pip install 'tangokg[tune]'" in capsys.readouterr().err


def test_a_killed_worker_loses_nothing(worker: tuple[subprocess.Popen[str], Path], tmp_path: Path) -> None:
    """While it lives its trial is its own; after kill -9 another goes on from its checkpoint to the same end."""
    process, path = worker
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    search = tiny(path, 2, *LONGER)
    beside = search.open().claim(2)
    assert beside is not None
    assert beside.number == 1
    process.kill()
    process.wait()
    assert (search.open().outcomes()[0].state, search.open().outcomes()[0].epochs) == ("under way", 2)
    assert (search.open().folder / "0" / "state.safetensors").exists()
    beside.let_go()
    resumed, undisturbed = work(search), work(replace(search, path=tmp_path / "b.study"))
    assert [(o.state, o.mrr, o.values) for o in resumed] == [(o.state, o.mrr, o.values) for o in undisturbed]
