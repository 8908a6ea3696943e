"""Workers, which run trials of a study one after the other in the one training loop."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from tangokg.errors import TangoError, TrainingError
from tangokg.quads.values import Dataset
from tangokg.train import Interrupted, Progress, TrainSettings, choose_device, fit
from tangokg.train.memory import keep_freed_memory
from tangokg.train.signals import watching
from tangokg.train.stopping import STOPPED
from tangokg.tune.outcomes import OVER, Outcome
from tangokg.tune.shared import SharedStudy
from tangokg.tune.space import Plan
from tangokg.tune.storage import Shared, TrialLost
from tangokg.tune.study import Claim, Study

POLL_SECONDS = 0.5
Hear = Callable[[list[Outcome]], None]  # receives all trials whenever one of them has changed


class _Pruned(Exception):
    """The trial is given up."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress


@dataclass(frozen=True)
class Search:
    """Everything that a worker needs; it is sent to other processes."""

    dataset: Dataset
    plan: Plan
    path: Path  # of the study; of a shared one only the folder counts, for checkpoints
    trials: int  # in all
    pruner: str = "median"
    deadline: float | None = None  # in the seconds of time.time()
    shared: Shared | None = None  # a study for workers on many machines

    @property
    def where(self) -> str:
        """The readable name of the study."""
        return str(self.path if self.shared is None else self.shared)

    def open(self) -> Study | SharedStudy:
        if self.shared is not None:
            return SharedStudy(self.shared, self.path.parent, self.plan, self.dataset, self.pruner)
        return Study(self.path, self.plan, self.dataset, self.pruner)


class Judge:
    """Callbacks of the training loop: report each epoch to the study, give up bad trials, and keep the time."""

    def __init__(self, claim: Claim, stop: Callable[[], bool], moved: Callable[[], None]) -> None:
        self.claim, self.stop, self.moved = claim, stop, moved
        self.stopped = False

    def step(self, progress: Progress, settings: TrainSettings, snapshots: int) -> None: ...

    def epoch(self, progress: Progress, settings: TrainSettings) -> None:
        behind = self.claim.report(progress)
        self.moved()
        if behind and progress.epoch < settings.epochs:
            raise _Pruned(progress)

    def asked(self, progress: Progress) -> str:
        """Whether to stop with a checkpoint because the time is over."""
        self.stopped = self.stopped or self.stop()
        return STOPPED if self.stopped else ""


def work(search: Search, stop: Callable[[], bool] | None = None, hear: Hear = lambda _: None) -> list[Outcome]:
    """Run trials until the study has enough, the time is over, or ``stop`` returns true; returns all of its trials.

    The test part is taken away first, so that neither training nor choice can depend on it.
    """
    dataset = replace(search.dataset, test=search.dataset.test.select(slice(0)), after=None)
    choose_device(search.plan.config(search.plan.usual(dataset)).train.device)  # an error now, not one for each trial
    study = search.open()

    def over() -> bool:
        return (search.deadline is not None and time.time() > search.deadline) or (stop is not None and stop())

    while not over():
        claim = study.claim(search.trials)
        hear(study.outcomes())
        if claim is None and study.is_over(search.trials):
            break
        if claim is None:  # others are at work: the trial of one that dies is taken up here
            time.sleep(study.pause)
            continue
        judge = Judge(claim, over, lambda: hear(study.outcomes()))
        try:
            _run(dataset, search.plan, claim, judge)
        except TrialLost:
            pass  # another worker goes on with it
        finally:
            claim.hold.release()
        hear(study.outcomes())
    return study.outcomes()


def _run(dataset: Dataset, plan: Plan, claim: Claim, judge: Judge) -> None:
    """Train one trial; an interrupted one is resumed from its checkpoint."""
    try:
        _, progress = fit(
            dataset, plan.config(claim.values), claim.checkpoint, resume=True, reporter=judge, stop=judge.asked
        )
    except Interrupted:
        claim.let_go()
        if not judge.stopped:
            raise
    except _Pruned as given_up:
        claim.pruned(given_up.progress)
    except (TrainingError, MemoryError, torch.OutOfMemoryError) as error:
        claim.failed(str(error) or type(error).__name__)
    else:
        claim.done(progress)


def work_together(search: Search, workers: int, hear: Hear = lambda _: None) -> list[Outcome]:
    """Several workers, each in its own process; an interruption is passed on, and waited for.

    The trial of a killed worker is resumed by the others; it is an error if none of them is left.
    """
    study = search.open()  # made, or refused, before any worker starts
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    reports: Any = context.SimpleQueue()
    threads = max(1, torch.get_num_threads() // workers)
    processes = [context.Process(target=_worker, args=(search, threads, stop, reports)) for _ in range(workers)]
    with watching() as watch, watch.patiently():
        for process in processes:
            process.start()
        while any(process.is_alive() for process in processes):
            everybody = sys.platform == "win32" and watch.received == signal.SIGINT  # Windows sends Ctrl-C to all
            if watch.received and not everybody:
                stop.set()
            hear(study.outcomes())
            time.sleep(POLL_SECONDS)
        for process in processes:
            process.join()
        if watch.received:
            raise Interrupted(watch.received, study.folder / "state")
    hear(study.outcomes())
    errors = []
    while not reports.empty():
        errors.append(reports.get())
    killed = sum(process.exitcode not in (0, 2) for process in processes)
    if killed:
        errors.append(f"{killed} of {workers} killed, perhaps because memory ran out.")
    outcomes = study.outcomes()
    if errors and sum(outcome.state in OVER for outcome in outcomes) < search.trials:
        raise TrainingError(
            f"workers ended before their time: {' '.join(dict.fromkeys(errors))} "
            f"The study is {search.where}, and goes on with the same command."
        )
    return outcomes


def _worker(search: Search, threads: int, stop: Any, reports: Any) -> None:
    """The main function of a worker process of :func:`work_together`; it ends with its parent."""
    if sys.platform != "win32":
        os.setpgrp()  # Ctrl-C is for the parent, which passes it on
    torch.set_num_threads(threads)
    keep_freed_memory()
    parent = multiprocessing.parent_process()
    try:
        work(search, lambda: stop.is_set() or (parent is not None and not parent.is_alive()))
    except (TangoError, Interrupted) as error:
        reports.put(str(error))
        sys.exit(2)
