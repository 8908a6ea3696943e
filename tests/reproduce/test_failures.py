"""What goes wrong in a run: nothing that was trained is lost, it is told at once, and what is hopeless is stopped."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from reproduce_small import Quiet, a_job, small
from tangokg.cli import main
from tangokg.errors import RunError, TrainingError
from tangokg.forecast import training
from tangokg.reproduce import measure, pool, runs
from tangokg.reproduce.measure import OutOfTime
from tangokg.reproduce.pool import OUT_OF_TIME, Budget, Outcome, one_by_one, room, side_by_side
from tangokg.reproduce.runs import Job, make_result
from tangokg.reproduce.worker import main as work_off
from tangokg.train.locks import FileLock
from tangokg.train.loop import Session

__all__ = ["small"]  # the fixture

INF = float("inf")
FAILS = "import sys; sys.exit('error: {}: out of memory, 12.5 GiB')"


def broken(*_: Any) -> Any:
    raise RuntimeError("bad luck\nfor a reason")


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("place", ["metrics", "protocols"])
@pytest.mark.parametrize("again", [False, True])
def test_a_trained_run_whose_measuring_failed_is_only_measured_by_the_next_call(
    place: str, again: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = a_job(needs=("inductive",), again=again)
    board, kept = Quiet(), []
    with monkeypatch.context() as patch:
        if place == "metrics":
            patch.setattr(training, "results", broken)
        else:
            patch.setitem(measure.STEPS, "inductive", broken)
        outcome = one_by_one([job], tmp_path, "cpu", Budget(), board, lambda *_: None)
    assert outcome.failed[0][1].startswith("RuntimeError: bad luck (")
    assert "for a reason" in job.folder(tmp_path).with_name("0.order.messages.txt").read_text()
    assert board.heard[-1].startswith(f"fail {job.label}")
    with monkeypatch.context() as patch:
        patch.setattr(Session, "_step", broken)  # nothing is trained
        outcome = one_by_one([job], tmp_path, "cpu", Budget(), board, lambda _, result: kept.append(result))
    assert not outcome.failed
    assert kept[0]["protocols"]["inductive"]["time-aware"]["mrr"] > 0
    if again:  # its result is kept now, so that a further call is a run of its own
        monkeypatch.setattr(Session, "_step", broken)
        with pytest.raises(RuntimeError, match="bad luck"):
            make_result(job, tmp_path, "cpu", INF, INF)


@pytest.mark.usefixtures("small")
def test_a_result_that_cannot_be_kept_is_there_at_the_next_call(tmp_path: Path) -> None:
    def full(*_: Any) -> None:
        raise RunError("no space left")

    job = a_job()
    assert one_by_one([job], tmp_path, "cpu", Budget(), Quiet(), full).failed == [(job, "no space left")]
    assert job.folder(tmp_path).joinpath("checkpoint").exists()
    assert len(one_by_one([job], tmp_path, "cpu", Budget(), Quiet(), lambda *_: None).results) == 1


@pytest.mark.parametrize("side", [False, True])
def test_failures_of_one_kind_and_no_success_end_the_pool(
    side: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [a_job(seed) for seed in range(6)]
    if side:
        monkeypatch.setattr(pool, "LOOK", 0.02)

        def command(order: Path) -> list[str]:
            return [sys.executable, "-S", "-c", FAILS.format(json.loads(order.read_text())["job"]["seed"])]

        outcome = side_by_side(jobs, 1, tmp_path, "cpu", Budget(), Quiet(), lambda *_: None, command)
    else:

        def make(job: Job, *_: Any) -> dict[str, Any]:
            raise TrainingError(f"{job.config}: {job.seed} apples")

        monkeypatch.setattr(pool, "make_result", make)
        outcome = one_by_one(jobs, tmp_path, "cpu", Budget(), Quiet(), lambda *_: None)
    assert [job.seed for job, _ in outcome.failed] == [0, 1, 2]
    assert [job.seed for job in outcome.waiting] == [3, 4, 5]
    assert outcome.hopeless == outcome.failed[-1][1]


def test_other_failures_and_a_success_leave_hope() -> None:
    failed = [(a_job(seed), why) for seed, why in enumerate(["a 1", "b", "a 2"])]
    assert not Outcome(failed=failed).hopeless
    alike = [(a_job(seed), f"a {seed}") for seed in range(3)]
    assert Outcome(failed=alike).hopeless == "a 2"
    assert not Outcome(failed=alike[:2]).hopeless
    assert not Outcome(failed=alike, results=[{}]).hopeless


@pytest.mark.usefixtures("small")
def test_the_command_tells_failures_at_once_and_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["-q", "reproduce", "--run", "--only", "main", "--seeds", "1", "--device", "cpu"]
    words += ["--work", str(tmp_path / "work"), "--results", str(tmp_path / "results")]
    monkeypatch.setattr(pool, "make_result", broken)
    assert main(words) == 2
    told = capsys.readouterr().err
    assert told.index("paper-tucker/ICEWS05-15 seed 0 failed: RuntimeError: bad luck") < told.index("stopped: 3 runs")
    assert "none succeeded" in told
    assert f"What was trained is in {tmp_path / 'work'}, and is not trained again" in told
    assert "tango -q reproduce --run --only main" in told


@pytest.mark.usefixtures("small")
def test_a_worker_tells_what_nobody_expected_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tangokg.reproduce.worker.make_result", broken)
    order = tmp_path / "0.order.json"
    order.write_text(json.dumps({"job": a_job().to_dict(), "work": str(tmp_path), "device": "cpu"}))
    assert work_off(order) == 1
    assert capsys.readouterr().err.splitlines()[-1] == "error: RuntimeError: bad luck"


@pytest.mark.usefixtures("small")
@pytest.mark.skipif(sys.platform == "win32", reason="a process keeps the number of its parent there")
def test_a_worker_whose_parent_is_gone_stops_with_a_checkpoint(tmp_path: Path) -> None:
    order, job = tmp_path / "0.order.json", a_job()
    found = {"job": job.to_dict(), "work": str(tmp_path), "device": "cpu"}
    order.write_text(json.dumps(found | {"parent": os.getppid() + 1}))
    assert work_off(order) == OUT_OF_TIME
    assert job.folder(tmp_path).joinpath("checkpoint", "state.safetensors").exists()
    order.write_text(json.dumps(found | {"parent": os.getppid()}))
    assert work_off(order) == 0


@pytest.mark.usefixtures("small")
def test_a_run_that_another_process_holds_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = a_job()
    lock = FileLock(job.folder(tmp_path).with_name("0.lock"))
    assert lock.try_acquire()
    with pytest.raises(OutOfTime):
        make_result(job, tmp_path, "cpu", time.monotonic(), INF)
    monkeypatch.setattr(runs, "WAIT", 0.01)
    threading.Timer(0.05, lock.release).start()
    assert make_result(job, tmp_path, "cpu", INF, INF)["seed"] == 0


def test_a_gpu_has_room_for_as_many_runs_as_its_memory_and_the_cores_feed(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    assert room("cpu") == 1
    monkeypatch.setattr("tangokg.train.devices.choose_device", lambda _: torch.device("cuda"))
    monkeypatch.setattr(pool, "cores", lambda: 16)
    for gigabytes, runs_there in ((139, 4), (40, 3), (8, 1)):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda free=gigabytes: (free * 2**30, 0))
        assert room("cuda") == runs_there
