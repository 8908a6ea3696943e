"""Runs one after the other in this process, or side by side in others, until all are made or the time is over."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tangokg.errors import DataError, TangoError
from tangokg.report import read_log
from tangokg.reproduce.measure import OutOfTime
from tangokg.reproduce.runs import Job, make_result
from tangokg.train import Interrupted, Reporter
from tangokg.train.checkpoint import write_atomically
from tangokg.train.signals import watching

OUT_OF_TIME = 75  # exit status of a worker whose time was over: a checkpoint is kept
OUT_OF_MEMORY = 76  # of one that did not find enough memory: beside fewer others it may; -9: a system had none left
LOOK = 0.2  # seconds between two looks at the workers
GRACE = 30.0  # seconds beyond the budget after which a worker that does not end by itself is told to
STOPPING = 60.0  # seconds that a worker gets to write its checkpoint
ROOM = 12 * 2**30  # bytes of a GPU for each run; they were seen to take 5 to 16 GiB
MOST = 4  # runs side by side, unless asked for more, which brings next to nothing
ALIKE = 3  # failures of one kind in a row, and no result, after which nothing more is begun


class Board(Protocol):
    """Who hears how the runs go."""

    def begin(self, job: Job) -> Reporter | None: ...
    def look(self, job: Job, log: list[dict[str, float]]) -> None: ...
    def end(self, job: Job, how: str) -> None: ...
    def fail(self, job: Job, why: str) -> None: ...


@dataclass(frozen=True)
class Budget:
    """When training has to stop, and when everything has to; times of :func:`time.monotonic`."""

    train: float = float("inf")
    last: float = float("inf")
    least: float = 0.0  # seconds left below which no run is begun

    @classmethod
    def of(cls, seconds: float | None) -> Budget:
        """What is left for measuring is a sixth, a minute at most."""
        if seconds is None:
            return cls()
        now = time.monotonic()
        return cls(now + seconds - min(60.0, seconds / 6), now + seconds, min(15.0, seconds / 5))

    @property
    def spent(self) -> bool:
        return time.monotonic() + self.least > self.train


@dataclass
class Outcome:
    """What came of the runs."""

    results: list[dict[str, Any]] = field(default_factory=list)
    waiting: list[Job] = field(default_factory=list)  # begun and not finished, or not begun
    failed: list[tuple[Job, str]] = field(default_factory=list)

    @property
    def hopeless(self) -> str:
        """The message of the last failures, where they are of one kind and nothing succeeded; else ""."""
        last = self.failed[-ALIKE:]
        kinds = {re.sub(r"\d[\d.]*", "#", why.replace(job.config, "")) for job, why in last}
        return last[-1][1] if len(last) == ALIKE and len(kinds) == 1 and not self.results else ""


def in_a_line(error: BaseException) -> str:
    """An error that nobody expected: its kind and the first line of its text."""
    return ": ".join([type(error).__name__, *str(error).strip().splitlines()[:1]])


Keep = Callable[[Job, dict[str, Any]], None]  # called with each result as soon as it is there


def one_by_one(jobs: Iterable[Job], work: Path, device: str, budget: Budget, board: Board, keep: Keep) -> Outcome:
    """All runs in this process, in their order."""
    outcome = Outcome()
    for job in jobs:
        if budget.spent or outcome.hopeless:
            outcome.waiting.append(job)
            continue
        heard = board.begin(job)
        try:
            result = make_result(job, work, device, budget.train, budget.last, heard)
            _keep(job, result, work, outcome, board, keep)
        except OutOfTime:
            outcome.waiting.append(job)
            board.end(job, "to be continued: the time is over")
        except Interrupted:
            board.end(job, "interrupted; a checkpoint is kept")
            raise
        except TangoError as error:
            _fail(job, str(error), outcome, board)
        except Exception as error:  # one run that goes wrong is not the end of the others
            messages = _place(job, work).with_suffix(".messages.txt")
            messages.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(messages, traceback.format_exc().encode())
            _fail(job, f"{in_a_line(error)} ({messages} has the whole of it)", outcome, board)
    return outcome


def _keep(job: Job, result: dict[str, Any], work: Path, outcome: Outcome, board: Board, keep: Keep) -> None:
    """A result in its place; only then what going on with the run needs is deleted."""
    keep(job, result)
    job.tidy(work)
    outcome.results.append(result)
    board.end(job, told(result))


def _fail(job: Job, why: str, outcome: Outcome, board: Board) -> None:
    outcome.failed.append((job, why))
    board.fail(job, why)


def told(result: dict[str, Any]) -> str:
    """A result in a line."""
    valid = f"validation MRR {result['valid']['time-aware']['mrr']:.2f}, " if "valid" in result else ""
    return f"{valid}test MRR {result['test']['time-aware']['mrr']:.2f}, {result['epochs']} epochs"


def room(device: str) -> int:
    """How many runs fit side by side: one on a CPU; on a GPU as many as its free memory and the cores can feed."""
    from tangokg.train.devices import choose_device

    if choose_device(device).type == "cpu":
        return 1
    import torch

    free, _ = torch.cuda.mem_get_info()
    return max(1, min(MOST, free // ROOM, cores() // 2))


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def worker_command(order: Path) -> list[str]:
    """How another process is told to make one run."""
    return [sys.executable, "-m", "tangokg.reproduce.worker", str(order)]


@dataclass(eq=False)
class _Worker:
    """A process that makes one run; its order, result and messages are files in the folder beside the run."""

    job: Job
    place: Path
    process: subprocess.Popen[bytes]

    @property
    def result(self) -> Path:
        return self.place.with_suffix(".result.json")

    def log(self, work: Path) -> list[dict[str, float]]:
        path = self.job.folder(work) / "log.csv"
        with suppress(DataError):
            return read_log(path) if path.exists() else []
        return []

    def message(self) -> str:
        """The last line that it complained with; one that was killed had no time to."""
        if (status := self.process.returncode) < 0:
            return f"killed by signal {-status}; is there enough memory?"
        messages = self.place.with_suffix(".messages.txt")
        lines = messages.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        more = f" ({messages} has the whole of it)" if len(lines) > 1 else ""
        return lines[-1].removeprefix("error: ") + more if lines else f"status {status}"


def side_by_side(
    jobs: Iterable[Job],
    workers: int,
    work: Path,
    device: str,
    budget: Budget,
    board: Board,
    keep: Keep,
    command: Callable[[Path], list[str]] = worker_command,
) -> Outcome:
    """``workers`` runs at a time, each in a process of its own; whatever ends this one stops them with checkpoints.

    Where a run finds too little memory beside the others, fewer go side by side from then on, and it is made again.
    """
    outcome, left = Outcome(), list(jobs)
    running: list[_Worker] = []
    try:
        with watching() as watch, watch.patiently():
            while running or (left and not budget.spent):
                if outcome.hopeless:
                    outcome.waiting += [worker.job for worker in running]
                    break
                while left and len(running) < workers and not budget.spent:
                    board.begin(left[0])
                    running.append(_start(left.pop(0), workers, work, device, budget, command))
                time.sleep(LOOK)
                if watch.received:
                    raise Interrupted(watch.received, work / "state")
                if time.monotonic() > budget.last + GRACE:
                    outcome.waiting += [worker.job for worker in running]
                    break
                for worker in running:
                    board.look(worker.job, worker.log(work))
                others = len(running) - 1
                for worker in [w for w in running if w.process.poll() is not None]:
                    running.remove(worker)
                    if worker.process.returncode in (OUT_OF_MEMORY, -9) and others:
                        left.insert(0, worker.job)
                        workers = min(others, workers)
                        board.end(worker.job, f"again later, {workers} side by side: memory was short")
                    else:
                        _settle(worker, work, outcome, board, keep)
    finally:
        _stop(running, board)
    outcome.waiting += left
    return outcome


def _place(job: Job, work: Path) -> Path:
    """The order of a worker, beside the run; its result and messages have the same name with other endings."""
    return job.folder(work).with_name(f"{job.seed}.order.json")


def _start(
    job: Job, workers: int, work: Path, device: str, budget: Budget, command: Callable[[Path], list[str]]
) -> _Worker:
    place = _place(job, work)
    place.parent.mkdir(parents=True, exist_ok=True)
    now = time.time() - time.monotonic()  # the other process counts from another start
    ends = {"train": budget.train + now, "last": budget.last + now} if budget.last < float("inf") else {}
    order = {"job": job.to_dict(), "work": str(work), "device": device, "parent": os.getpid(), **ends}
    write_atomically(place, json.dumps(order).encode())
    place.with_suffix(".result.json").unlink(missing_ok=True)
    source = Path(__file__).parents[2]
    paths = os.pathsep.join([str(source), *filter(None, [os.environ.get("PYTHONPATH")])])
    threads = {"OMP_NUM_THREADS": str(max(1, cores() // workers))}
    with place.with_suffix(".messages.txt").open("wb") as messages:
        process = subprocess.Popen(
            command(place),
            stdout=messages,
            stderr=subprocess.STDOUT,
            env=threads | os.environ | {"PYTHONPATH": paths},  # threads that were asked for stay
            start_new_session=True,  # Ctrl-C reaches this process alone, which stops the others once
        )
    return _Worker(job, place, process)


def _settle(worker: _Worker, work: Path, outcome: Outcome, board: Board, keep: Keep) -> None:
    """What a process that ended leaves."""
    job, status = worker.job, worker.process.returncode
    if status == 0 and worker.result.exists():
        try:
            _keep(job, json.loads(worker.result.read_text(encoding="utf-8")), work, outcome, board, keep)
            worker.result.unlink()
        except TangoError as error:
            _fail(job, str(error), outcome, board)
    elif status == OUT_OF_TIME:
        outcome.waiting.append(job)
        board.end(job, "to be continued: the time is over")
    else:
        _fail(job, worker.message(), outcome, board)


def _stop(running: list[_Worker], board: Board) -> None:
    """One signal for each, and time to write a checkpoint."""
    for worker in running:
        worker.process.terminate()
    for worker in running:
        with suppress(subprocess.TimeoutExpired):
            worker.process.wait(STOPPING)
        if worker.process.poll() is None:
            worker.process.kill()
        board.end(worker.job, "interrupted; a checkpoint is kept")


def without_data(jobs: list[Job]) -> Iterator[tuple[str, str]]:
    """(set, reason) for each set of the jobs that is not here."""
    from tangokg.quads import data_folders
    from tangokg.quads.folders import find_file

    for source in dict.fromkeys(job.source for job in jobs):
        if not any(find_file(place / source, "train.txt") for place in (Path(), *data_folders())):
            looked = " and ".join(str(place) for place in data_folders())
            yield source, f"the data set {source} is not here: looked in {looked}"
