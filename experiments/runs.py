"""Runs: each experiment and seed trained, measured and written to a file, one after the other or in a small pool."""

from __future__ import annotations

import hashlib
import json
import os
import time
import traceback
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any

import torch

from experiments.bench.form import peak_memory
from experiments.experiment import Experiment, open_dataset
from experiments.measure import APART, MEASURES, epoch_seconds, figures_of, measure_horizons, measure_strata, strata_of
from experiments.show import number
from experiments.store import MEAN, RESULTS, place_of, read_json, read_results, write_result
from tangokg.errors import DataError, TangoError
from tangokg.forecast import Forecaster, results
from tangokg.models import Model
from tangokg.snapshots.timeline import Timeline, build_timeline
from tangokg.snapshots.windows import Queries, Windows
from tangokg.train import Interrupted, Progress, RunConfig, TrainSettings, build_model, choose_device, fit, resolve
from tangokg.train.checkpoint import load_tensors, save_tensors
from tangokg.train.memory import keep_freed_memory
from tangokg.train.settings import NO_LIMIT
from tangokg.train.stopping import STOPPED

DONE, LEFT, FAILED = "done", "left", "failed"


class OutOfTime(Exception):
    """The budget is spent; the training and measurements so far are saved."""


@dataclass(frozen=True)
class Job:
    """One run, with everything that another process needs to run it."""

    experiment: Experiment
    seed: int
    out: Path  # where its result goes, as PRESET/DATA-SEED.json
    work: Path  # where its checkpoint is kept until it is done
    device: str = "auto"
    deadline: float = float("inf")  # of time.time()
    assignments: tuple[str, ...] = ()  # settings on top of the config
    commit: str = ""  # of the source, where that is known better than by asking git
    valid: bool = False  # measure the validation part alone
    horizons: bool = False  # measure the validation part up to eight steps ahead as well
    weights: bool = False  # keep the weights, for the mean of several seeds

    @property
    def label(self) -> str:
        return f"{self.experiment.name} seed {self.seed}"

    @property
    def config(self) -> RunConfig:
        """The config of the run; without a budget of its own, only the overall deadline limits it."""
        config = self.experiment.config(self.seed, self.assignments)
        device, budget = choose_device(self.device).type, config.train.budget or NO_LIMIT
        return replace(config, train=replace(config.train, device=device, budget=budget))

    @property
    def result(self) -> Path:
        return place_of(self.out, self.experiment, self.seed)

    @property
    def checkpoint(self) -> Path:
        return checkpoint_beside(place_of(self.work, self.experiment, self.seed), self.config)

    @property
    def kept_weights(self) -> Path:
        return self.checkpoint.with_suffix(".weights.safetensors")

    @property
    def is_done(self) -> bool:
        """Whether the result exists; a checkpoint next to it means that measurements are missing."""
        weights = self.kept_weights.exists() or not self.weights
        return self.result.exists() and not self.checkpoint.exists() and weights

    @property
    def is_over(self) -> bool:
        """Whether the time is over, or the parent process is gone."""
        parent = parent_process()
        return time.time() > self.deadline or (parent is not None and not parent.is_alive())


def checkpoint_beside(result: Path, config: RunConfig) -> Path:
    """The checkpoint, named by the settings, so that a changed config starts again."""
    settings = json.dumps(config.to_tables(), sort_keys=True)
    return result.with_name(f"{result.stem}-{hashlib.sha256(settings.encode()).hexdigest()[:12]}.safetensors")


class Lines:
    """Prints a line for each epoch."""

    def __init__(self, label: str) -> None:
        self.label = label

    def step(self, progress: Progress, settings: TrainSettings, snapshots: int) -> None:
        """Ignore steps."""

    def epoch(self, progress: Progress, settings: TrainSettings) -> None:
        row = progress.log[-1]
        mrr = f", validation MRR {row['valid_mrr']:.2f}" if "valid_mrr" in row else ""
        print(f"{self.label}: epoch {progress.epoch}{mrr}, {row['seconds']:.0f} s", flush=True)


def make_run(job: Job) -> dict[str, Any]:
    """Train and measure one run; its result is written after each protocol, so that a stop loses little.

    Training goes on from a checkpoint; what an earlier call measured is kept.
    """
    if job.is_over:
        raise OutOfTime
    dataset = open_dataset(job.experiment.data)
    config, checkpoint = resolve(job.config, dataset), job.checkpoint
    checkpoint.parent.mkdir(parents=True, exist_ok=True)

    def stop(_: Progress) -> str:
        return STOPPED if job.is_over else ""

    try:
        with peak_memory(choose_device(job.device)) as peak:
            model, progress = fit(dataset, config, checkpoint, True, reporter=Lines(job.label), stop=stop)
    except Interrupted:
        if job.is_over:
            raise OutOfTime from None
        raise
    if job.weights:
        save_tensors(job.kept_weights, model.state_dict())
    forecaster = Forecaster(model, dataset, config, progress)
    result = {"preset": job.experiment.preset} | _measured_before(job, config)
    for measured in _measure(job, forecaster, result):
        result |= measured | {"peak_bytes": peak.bytes, "date": datetime.now(UTC).isoformat(timespec="seconds")}
        write_result(job.result, result | ({"commit": job.commit} if job.commit else {}))
        if job.is_over:
            raise OutOfTime
    checkpoint.unlink(missing_ok=True)
    return result


def _measured_before(job: Job, config: RunConfig) -> dict[str, Any]:
    """The measurements of an earlier, interrupted call for the same run."""
    before = read_json(job.result) if job.checkpoint.exists() and job.result.exists() else {}
    return before if before.get("config") == config.to_tables() else {"protocols": {}}


def _measure(job: Job, forecaster: Forecaster, result: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Measure the missing parts of a result, one after the other."""
    dataset, log = forecaster.dataset, forecaster.progress.log
    if job.horizons and "valid_horizon" not in result:
        yield {"valid_horizon": measure_horizons(forecaster, dataset.valid)}
    if job.valid:
        about = {"dataset": dataset.name, "seed": job.seed, "config": forecaster.config.to_tables(), "log": log}
        strata = {"valid": strata_of(forecaster, dataset.valid)}
        yield about | {"valid": figures_of(forecaster.evaluate(dataset.valid)), "strata": strata}
        return
    yield results(forecaster) | {"log": log, "epoch_seconds": epoch_seconds(log)}
    for name in job.experiment.measure:
        if name in APART and name not in result:
            yield {name: MEASURES[name](forecaster)}
        elif name not in APART and name not in result["protocols"]:
            yield {"protocols": result["protocols"] | {name: MEASURES[name](forecaster)}}


def attempt(job: Job) -> tuple[str, str]:
    """Execute a run; returns how it ended, and a summary line."""
    keep_freed_memory()
    try:
        return DONE, describe(job, make_run(job))
    except OutOfTime:
        return LEFT, "the time is over; the same command goes on"
    except Interrupted:
        if parent_process() is not None:  # which got the signal too
            return LEFT, "interrupted; the same command goes on"
        raise
    except TangoError as error:
        return FAILED, str(error)
    except Exception as error:  # one run that goes wrong is not the end of the others
        traceback.print_exc()
        return FAILED, f"{type(error).__name__}: {error}"


def run_all(jobs: Iterable[Job], workers: int) -> dict[str, list[Job]]:
    """Execute all runs, ``workers`` at a time in separate processes; returns the jobs by how they ended."""
    ended: dict[str, list[Job]] = {DONE: [], LEFT: [], FAILED: []}

    def report(job: Job, status: str, line: str) -> None:
        ended[status].append(job)
        print(f"{job.label}: {status}: {line}", flush=True)

    if workers == 1:
        for job in jobs:
            report(job, *attempt(job))
        return ended
    spawn, threads = get_context("spawn"), max(1, (os.cpu_count() or 1) // workers)
    with ProcessPoolExecutor(workers, spawn, torch.set_num_threads, (threads,), max_tasks_per_child=1) as pool:
        futures = {pool.submit(attempt, job): job for job in jobs}
        try:
            for future in as_completed(futures):
                killed = future.exception()  # most often for memory; it ends the pool
                outcome = (FAILED, f"{killed} Use fewer --workers.") if killed else future.result()
                report(futures[future], *outcome)
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)  # the processes got the signal too, and keep checkpoints
            raise
    return ended


def describe(job: Job, result: dict[str, Any]) -> str:
    """A result on one line, compared with the stored results of its experiment."""
    parts = [part for part in ("valid", "test") if part in result]
    line = ", ".join(f"{part} MRR {result[part]['time-aware']['mrr']:.2f}" for part in parts)
    if job.valid or job.assignments or job.out.resolve() == RESULTS.resolve():
        return line
    stored = None
    with suppress(DataError):  # it was made with an earlier config
        stored = read_results(name=job.experiment.name).mrr(job.experiment.name)
    if stored is None:
        return f"{line}; nothing is stored to compare it with"
    difference = round(result["test"]["time-aware"]["mrr"] - stored.mean, 2) + 0.0  # no -0.00
    line += f"; stored {number(stored)} ({stored.seeds} seed{'s' * (stored.seeds > 1)}): {difference:+.2f}"
    if stored.spread is None:
        return line
    return f"{line}, {'within' if abs(difference) <= 2 * stored.spread else 'beyond'} two standard deviations"


class Mean(Model):
    """Several trained models: the logarithm of the mean of their shares."""

    def __init__(self, members: list[Model]) -> None:
        super().__init__()
        self.members = members
        self.module_list = torch.nn.ModuleList(members)  # which knows their weights and devices

    def encode(self, timeline: Timeline, windows: Windows) -> list[Any]:
        return [member.encode(timeline, windows) for member in self.members]

    def score(self, encoded: list[Any], queries: Queries) -> torch.Tensor:
        of_each = zip(self.members, encoded, strict=True)
        shares = [member.probabilities(member.score(states, queries)) for member, states in of_each]
        return torch.stack(shares).mean(0).log()


def measure_mean(jobs: list[Job]) -> Path:
    """Measure the mean of the trained seeds of an experiment."""
    first = jobs[0]
    dataset = open_dataset(first.experiment.data)
    members = []
    for job in jobs:
        model = build_model(resolve(job.config, dataset), build_timeline(dataset.train))
        model.load_state_dict(load_tensors(job.kept_weights)[0])
        members.append(model.to(choose_device(job.device)))
    mean = Forecaster(Mean(members), dataset, resolve(first.config, dataset), Progress())
    result: dict[str, Any] = {"preset": first.experiment.preset, "dataset": dataset.name}
    result |= {"seeds": [job.seed for job in jobs], "strata": measure_strata(mean)}
    result |= {part: figures_of(mean.evaluate(part)) for part in ("valid", "test")}
    path = place_of(first.out, first.experiment, MEAN)
    write_result(path, result | {"commit": first.commit or None})
    return path
