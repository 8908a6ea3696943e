"""Trials through the training loop: a kill and what follows it, failures, the figure, the command."""

from __future__ import annotations

import multiprocessing
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from cli_runs import printed
from conftest import make_dataset
from tangokg.cli import main
from tangokg.config import parse_duration
from tangokg.errors import ConfigError
from tangokg.quads import Dataset
from tangokg.train import Progress, TrainSettings, fit, load_config
from tangokg.tune import figure
from tangokg.tune.display import Display
from tangokg.tune.figure import explained, marks, plot_study
from tangokg.tune.outcomes import Outcome
from tangokg.tune.sampling import PRUNERS, load_optuna
from tangokg.tune.space import Choice, Range, make_plan
from tangokg.tune.work import Judge, Search, work, work_together

TINY = ["dim=[2, 3]", "layers=1", "history=[1, 2]", "batch_windows=8", "device=cpu"]
EPOCHS = ("epochs=2",)
LONGER = ("epochs=4", "checkpoint_seconds=0")
ROOT = Path(__file__).parents[2]
tune_work: Any = sys.modules["tangokg.tune.work"]  # the module: the package has a function of this name
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
    search = tiny(tmp_path / "a", 3, *EPOCHS, "learning_rate=[1e30, 0.01]", "clip=0", seed=1)
    outcomes = work(search)
    failed = {o.values["learning_rate"]: o for o in outcomes if o.state == "failed"}
    assert set(failed) == {1e30}
    assert "not a number" in failed[1e30].note
    assert {o.state for o in outcomes} == {"failed", "done"}


def test_a_trial_that_its_pruner_gives_up_ends_there_and_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Strict(load_optuna().pruners.BasePruner):  # type: ignore[misc]
        def prune(self, study: Any, trial: Any) -> bool:
            return bool(trial.number > 0)

    monkeypatch.setitem(PRUNERS, "strict", lambda epochs: Strict())
    outcomes = work(tiny(tmp_path / "a", 3, "epochs=3", pruner="strict"))
    assert [(o.state, o.epochs) for o in outcomes] == [("done", 3), ("pruned", 1), ("pruned", 1)]
    assert all(o.mrr is not None for o in outcomes)


@pytest.mark.slow
def test_workers_side_by_side_end_a_study_together(tmp_path: Path) -> None:
    heard: list[int] = []
    search = tiny(tmp_path / "a", 4, "epochs=1")
    outcomes = work_together(search, 2, lambda found: heard.append(len(found)))
    assert [o.state for o in outcomes] == ["done"] * 4
    assert len({tuple(o.values.items()) for o in outcomes}) == 4
    assert heard[-1] == 4
    assert work(search) == outcomes  # nothing is left to do


def test_as_many_workers_are_started_as_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []

    class Process:
        exitcode = 0

        def __init__(self, target: Any, args: Any) -> None:
            started.append(args[0])

        def start(self) -> None: ...
        def join(self) -> None: ...
        def is_alive(self) -> bool:
            return False

    here = SimpleNamespace(Process=Process, Event=threading.Event, SimpleQueue=queue.SimpleQueue)
    monkeypatch.setattr(multiprocessing, "get_context", lambda _: here)
    search = tiny(tmp_path / "a", 4)
    work_together(search, 3)
    assert started == [search] * 3


def test_the_display_has_a_line_for_each_trial_that_ends_however_often_it_hears(tmp_path: Path) -> None:
    def trial(number: int, state: str, mrr: float | None, note: str = "") -> Outcome:
        return Outcome(number, state, mrr, {"dim": 10 + number}, 3, 1.0, note)

    told = StringIO()
    with Display(Console(file=told, width=200), 5) as display:
        before = [trial(0, "done", 30.0), trial(1, "under way", 20.0)]
        after = [before[0], trial(1, "pruned", 20.0), trial(2, "failed", None, "no room"), trial(3, "done", 35.0)]
        for outcomes in (before, before, after, after):
            display.update_trials(outcomes)
        (task,) = display.tasks
        assert (task.completed, task.total) == (4, 5)
        assert "best 35.00 (trial 3" in task.description
    lines = told.getvalue().splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [["trial", "1"], ["trial", "2"], ["trial", "3"]]
    assert "1 of 5 trials have ended before; best 30.00" in lines[0]
    assert all(text in line for text, line in zip(("given up after 3", "no room", "MRR 35.00"), lines[1:], strict=True))
    assert ["best so far" in line for line in lines] == [False, False, False, True]
    assert all(f"dim={10 + number}" in line for number, line in enumerate(lines))


@pytest.mark.parametrize("workers", [1, 3])
def test_the_command_hands_on_pruner_budget_and_workers(
    workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    got: list[tuple[Search, int]] = []

    def together(search: Search, many: int = 1, hear: Any = None) -> list[Outcome]:
        got.append((search, many))
        return []

    monkeypatch.setattr("tangokg.tune.python.work", together)
    monkeypatch.setattr("tangokg.tune.python.work_together", together)
    words = ["-q", "tune", "world", "--pruner", "halving", "--budget", "8m", "--workers", str(workers)]
    for preset, trials in (("search", 24), ("paper-grid", 432)):
        assert main([*words, "--preset", preset]) == 0
        search, many = got.pop()
        assert (search.plan.preset, search.trials, search.pruner, many) == (preset, trials, "halving", workers)
        assert search.deadline is not None
        assert search.deadline - time.time() == pytest.approx(480, abs=30)


def test_trials_do_not_get_to_see_the_test_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Dataset] = []

    def look(dataset: Dataset, *rest: Any, **more: Any) -> Any:
        seen.append(dataset)
        return fit(dataset, *rest, **more)

    monkeypatch.setattr(tune_work, "fit", look)
    search = tiny(tmp_path / "a", 2, "epochs=1")
    work(search)
    assert [len(dataset.test) for dataset in seen] == [0, 0]
    assert all(len(dataset.valid) == len(search.dataset.valid) > 0 for dataset in seen)
    assert len(search.dataset.test) > 0


def test_a_trial_that_is_taken_up_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[int] = []

    class Heard(Judge):
        def epoch(self, progress: Progress, settings: TrainSettings) -> None:
            trained.append(progress.epoch)
            super().epoch(progress, settings)

    monkeypatch.setattr(tune_work, "Judge", Heard)
    search = tiny(tmp_path / "a", 1, *LONGER)
    work(search, stop=lambda: bool(trained) and trained[-1] == 2)
    assert trained == [1, 2]
    assert [o.state for o in work(search)] == ["done"]
    assert trained == [1, 2, 3, 4]


def test_the_best_so_far_is_drawn_as_it_rises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(figure, "write_figure", lambda made, path: drawn.append(made))
    mrr = [3.0, 1.0, 4.0, 1.0, 5.0, 2.0]
    outcomes = [Outcome(n, ("done", "pruned")[n % 2], y, {"a": n % 3}, 3, 1.0) for n, y in enumerate(mrr)]
    plot_study(tmp_path / "a.svg", outcomes, {"a": Choice((0, 1, 2))}, "a study")
    history, by_setting = drawn[0].axes
    (best,) = history.lines
    assert list(best.get_ydata()) == [max(mrr[: n + 1]) for n in range(len(mrr))]
    for axes, x in ((history, range(6)), (by_setting, [0, 1, 2, 0, 1, 2])):
        assert axes.collections[0].get_offsets().tolist() == [[a, b] for a, b in zip(x, mrr, strict=True)]


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
        (["--out", "no/such/best.toml"], "in an existing folder"),
        (["--plot", "study.txt"], "a figure cannot be written as '.txt'"),
    ],
)
def test_mistakes_are_told_before_anything_is_read(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tune", "nothing", *words]) == 2
    assert message in capsys.readouterr().err


def test_budgets() -> None:
    assert [parse_duration(text, "--budget") for text in ("90", "1.5m", "2h")] == [90, 90, 7200]
    with pytest.raises(ConfigError, match="--budget '-3m'"):
        parse_duration("-3m", "--budget")


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
