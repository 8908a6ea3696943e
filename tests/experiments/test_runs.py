"""Runs from data to results: cut short and gone on with, side by side, compared with what is stored, averaged."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from itertools import chain, repeat
from multiprocessing import Process, current_process
from pathlib import Path
from typing import Any

import pytest

from experiments import runs
from experiments.__main__ import main
from experiments.experiment import experiments
from experiments.measure import MEASURES
from experiments.runs import (
    DONE,
    FAILED,
    LEFT,
    Job,
    OutOfTime,
    attempt,
    describe,
    make_run,
    measure_mean,
    run_all,
)
from experiments.store import RESULTS, Results
from experiments_small import HERE, a_job, made_up, small
from tangokg.errors import TrainingError
from tangokg.train import Interrupted
from tangokg.train.loop import Session

__all__ = ["small"]  # the fixture


def read(job: Job) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(job.result.read_text())
    return result


def broken(*_: Any) -> Any:
    raise RuntimeError("bad luck")


@pytest.mark.usefixtures("small")
def test_a_run_writes_its_result(tmp_path: Path) -> None:
    job = a_job(tmp_path, commit="abc")
    assert not job.is_done
    make_run(job)
    assert job.result == tmp_path / "out" / "paper-tucker" / "ICEWS05-15-0.json"
    assert job.is_done
    result = read(job)
    assert (result["preset"], result["dataset"], result["seed"], result["commit"]) == (*HERE.split("/"), 0, "abc")
    assert result["protocols"]["inductive"]["time-aware"]["mrr"] > 0
    assert len(result["log"]) == result["epochs"] == 3
    assert result["epoch_seconds"] > 0
    assert not list((tmp_path / "work").rglob("*.safetensors"))


@pytest.mark.usefixtures("small")
def test_a_run_that_is_cut_short_ends_where_one_that_is_not_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run(whole := a_job(tmp_path / "whole"))
    job = a_job(tmp_path / "parts")

    with monkeypatch.context() as patch:
        over = chain([False], repeat(True))
        patch.setattr(Job, "is_over", property(lambda _: next(over)))
        with pytest.raises(OutOfTime):
            make_run(job)  # after the first step
    assert job.checkpoint.exists()
    assert not job.result.exists()
    with monkeypatch.context() as patch:
        patch.setitem(MEASURES, "inductive", broken)
        assert attempt(job) == (FAILED, "RuntimeError: bad luck")  # trained, and not measured
    assert not job.is_done
    monkeypatch.setattr(Session, "_step", broken)  # nothing is trained any more
    make_run(job)
    for key in ("valid", "test", "protocols", "config", "epochs", "queries"):
        assert read(job)[key] == read(whole)[key]


@pytest.mark.usefixtures("small")
def test_what_was_measured_is_kept_and_other_settings_start_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = a_job(tmp_path)
    job = replace(job, experiment=replace(job.experiment, measure=("inductive", "state")))
    with monkeypatch.context() as patch:
        patch.setitem(MEASURES, "state", broken)
        assert attempt(job)[0] == FAILED
    with monkeypatch.context() as patch:
        patch.setitem(MEASURES, "inductive", broken)  # is not measured again
        assert attempt(job)[0] == DONE
    assert set(read(job)["protocols"]) == {"inductive", "state"}
    assert replace(job, assignments=("dropout=0.1",)).checkpoint != job.checkpoint


@pytest.mark.usefixtures("small")
def test_validation_alone_looks_at_no_test_part(tmp_path: Path) -> None:
    job = a_job(tmp_path, valid=True, horizons=True)
    make_run(job)
    result = read(job)
    assert "test" not in result
    assert set(result["strata"]) == {"valid"}
    assert list(result["valid_horizon"]) == [*"12345678"]


def test_a_budget_that_is_spent_leaves_runs_and_a_failure_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def make(job: Job) -> dict[str, Any]:
        if job.seed == 0:
            raise TrainingError("too hot")
        if job.seed == 1:
            raise OutOfTime
        return made_up(experiments()[HERE], seed=job.seed)

    monkeypatch.setattr(runs, "make_run", make)
    ended = run_all([a_job(tmp_path, seed=seed) for seed in range(3)], 1)
    assert {how: [job.seed for job in jobs] for how, jobs in ended.items()} == {DONE: [2], LEFT: [1], FAILED: [0]}
    assert f"{HERE} seed 0: failed: too hot" in capsys.readouterr().out


def test_nothing_begins_after_the_deadline_and_an_orphan_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert attempt(a_job(tmp_path, deadline=time.time() - 1))[0] == LEFT
    assert not a_job(tmp_path).is_over
    monkeypatch.setattr(runs, "parent_process", lambda: Process())  # which has not been started
    assert a_job(tmp_path).is_over


@pytest.mark.usefixtures("small")
def test_a_signal_ends_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> Any:
        raise Interrupted(2)

    monkeypatch.setattr(runs, "fit", interrupted)
    with pytest.raises(Interrupted):
        run_all([a_job(tmp_path)], 1)
    monkeypatch.setattr(runs, "parent_process", current_process)
    assert attempt(a_job(tmp_path))[0] == LEFT  # in a pool the parent raises


@pytest.mark.slow
def test_runs_side_by_side_are_processes_of_their_own(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """On a data set that is not here: each process says so, and the others go on."""
    jobs = [a_job(tmp_path, seed=seed) for seed in range(2)]
    jobs = [replace(job, experiment=replace(job.experiment, data="nowhere")) for job in jobs]
    ended = run_all(jobs, 2)
    assert [job.seed for job in sorted(ended[FAILED], key=lambda job: job.seed)] == [0, 1]
    assert capfd.readouterr().out.count("failed: ") == 2


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ((), "nothing is stored to compare it with"),
        ((0.0,), "stored 40.00 (1 seed): +0.00"),
        ((0.5,), "stored 40.50 (1 seed): -0.50"),
        ((-0.5, 0.5, 0.0), "stored 40.00 ± 0.50 (3 seeds): +0.00, within two standard deviations"),
        ((2.0, 3.0, 4.0), "stored 43.00 ± 1.00 (3 seeds): -3.00, beyond two standard deviations"),
    ],
)
def test_a_run_is_compared_with_what_is_stored(
    stored: tuple[float, ...], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``stored`` lies so far above 40, which the run shows."""
    experiment = experiments()[HERE]
    results = Results()
    for seed, above in enumerate(stored):
        results.runs.setdefault(HERE, {})[seed] = made_up(experiment, 40.0 + above, seed)
    monkeypatch.setattr(runs, "read_results", lambda name: results)
    line = describe(a_job(tmp_path), made_up(experiment))
    assert line == f"valid MRR 40.00, test MRR 40.00; {expected}"
    assert describe(replace(a_job(tmp_path), out=RESULTS), made_up(experiment)) == "valid MRR 40.00, test MRR 40.00"


@pytest.mark.usefixtures("small")
def test_the_mean_of_one_seed_is_that_seed_and_of_two_another(tmp_path: Path) -> None:
    jobs = [a_job(tmp_path, seed=seed, weights=True) for seed in range(2)]
    results = [make_run(job) for job in jobs]
    same = json.loads(measure_mean(jobs[:1]).read_text())
    assert same["test"]["raw"]["mrr"] == pytest.approx(results[0]["test"]["raw"]["mrr"], abs=1e-5)
    both = json.loads(measure_mean(jobs).read_text())
    assert both["seeds"] == [0, 1]
    assert set(both["strata"]) == {"valid", "test"}
    assert both["test"] != same["test"]


@pytest.mark.usefixtures("small")
def test_the_command_makes_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--device", "cpu", "--work", str(tmp_path / "work"), "--out", str(tmp_path / "out"), "--commit", "abc"]
    assert main(["run", "recurrency/ICEWS14s", *words]) == 0
    assert "1 of 1 runs to make" in capsys.readouterr().out
    assert (tmp_path / "out" / "recurrency" / "ICEWS14s-0.json").exists()
    assert main(["run", "recurrency/ICEWS14s", *words, "--budget", "8m"]) == 0
    assert "0 of 1 runs to make" in capsys.readouterr().out
    assert main(["run", "recurrency", *words, "--data", "elsewhere"]) == 0
    assert (tmp_path / "out" / "recurrency" / "elsewhere-0.json").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "flagship/WIKI", "--valid"], "give --out FOLDER"),
        (["run", "flagship/WIKI", "--set", "dim=3"], "give --out FOLDER"),
        (["run", "flagship", "--data", "YAGO"], "give --out FOLDER"),
        (["run", "flagshp"], "no config matches 'flagshp'. Did you mean flagship,"),
        (["run", "flagship/WIKI", "--budget", "soon"], "--budget 'soon': expected a time such as 90s"),
        (["run", "flagship/WIKI", "--out", "x", "--set", "dimm=3"], "unknown setting 'dimm'. Did you mean dim"),
    ],
)
def test_wrong_input_is_told(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert message in capsys.readouterr().err
