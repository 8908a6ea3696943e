"""Which runs are missing, in which order they are made, and one of them from data to its result."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from tangokg.errors import ConfigError, nearest, offer
from tangokg.forecast import fit
from tangokg.quads import Dataset, find, thin_dataset
from tangokg.reproduce.cells import needs_of, tables
from tangokg.reproduce.measure import OutOfTime, check_test_part, measure
from tangokg.reproduce.presets import (
    ABLATIONS,
    COUNTERS,
    MEASURED,
    SETS,
    THINNED,
    Experiment,
    best_decoder,
    experiments,
)
from tangokg.reproduce.store import Results
from tangokg.train import Interrupted, Progress, Reporter, RunConfig, RunFolder, TrainSettings, make_config, resolve
from tangokg.train.devices import choose_device
from tangokg.train.locks import FileLock
from tangokg.train.settings import NO_LIMIT
from tangokg.train.stopping import STOPPED

WAIT = 0.5  # seconds between two looks at whether a run is free


@dataclass(frozen=True)
class Job:
    """One run: everything that another process needs to know of it."""

    preset: str
    data: str
    source: str  # a known set or a folder
    thin: int | None
    seed: int
    tables: Mapping[str, Any]  # of the config
    needs: tuple[str, ...]  # protocols beside the single step
    again: bool = False  # a finished run does not count

    @classmethod
    def of(cls, experiment: Experiment, seed: int) -> Job:
        tables = {
            "model": experiment.model,
            "settings": dict(experiment.settings),
            "train": dict(experiment.train),
        }
        needs = needs_of(experiment.name) if seed == 0 else ()
        return cls(experiment.preset, experiment.data, experiment.source, experiment.thin, seed, tables, needs)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Job:
        return cls(**{**found, "needs": tuple(found["needs"])})

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def config(self) -> str:
        return f"{self.preset}/{self.data}"

    @property
    def label(self) -> str:
        return f"{self.config} seed {self.seed}"

    def folder(self, work: Path) -> Path:
        """Where the run is kept."""
        return work / self.preset / self.data / str(self.seed)

    def lock(self, work: Path) -> FileLock:
        """What the process holds that makes the run."""
        return FileLock(self.folder(work).with_name(f"{self.seed}.lock"))

    def is_held(self, work: Path) -> bool:
        """Whether another process makes it now."""
        lock = self.lock(work)
        free = lock.try_acquire()
        lock.release()
        return not free

    def is_kept(self, work: Path) -> bool:
        """Whether a finished run has its result: then :meth:`tidy` took the folder of its checkpoint away."""
        run = RunFolder(self.folder(work))
        return run.finished and not run.checkpoint.parent.exists()

    def tidy(self, work: Path) -> None:
        """Delete what only going on with the run needs: its result is kept."""
        shutil.rmtree(RunFolder(self.folder(work)).checkpoint.parent, ignore_errors=True)

    def run_config(self, device: str) -> RunConfig:
        found = make_config(tables=self.tables, seed=self.seed, where=self.label)
        budget = found.train.budget or NO_LIMIT  # deadlines are those of the whole, not of one run
        return replace(found, train=replace(found.train, device=choose_device(device).type, budget=budget))

    def dataset(self) -> Dataset:
        found = find(self.source)
        return replace(found if self.thin is None else thin_dataset(found, self.thin), name=self.data)


def order() -> Iterator[tuple[str, int]]:
    """Every (experiment, seed) by priority.

    The main table and what the paper's claims need, further seeds of the better decoder, the history, what else
    there is, and further seeds of the other decoder.
    """
    known = experiments()
    first = [name for stage in _stages() for name in stage if name in known]
    history = [name for name in known if "-history-" in name]
    best = {f"paper-{best_decoder(data)}/{data}" for data in MEASURED}
    several = [(name, seed) for name, e in known.items() for seed in range(1, e.seeds)]
    several.sort(key=lambda run: run[1])  # each seed of all, then the next
    every = [(name, 0) for name in first]
    every += [run for run in several if run[0] in best]
    every += [(name, 0) for name in (*history, *known)]
    every += [run for run in several if run[0] not in best]
    yield from dict.fromkeys(every)


def _stages() -> Iterator[list[str]]:
    """Main table, inductive, irregular, ablation, and what the dynamics add."""
    both = ("tucker", "distmult")
    decoders = {data: sorted(both, key=lambda d, data=data: d != best_decoder(data)) for data in (*SETS, THINNED)}  # type: ignore[misc]
    for place in (0, 1):
        yield [f"paper-{decoders[data][place]}/{data}" for data in SETS]
    yield [f"paper-{decoder}-without-transition/ICEWS05-15" for decoder in both]
    yield [f"paper-{decoder}/{THINNED}" for decoder in both]
    yield [f"paper-{decoder}-without-transition/WIKI" for decoder in decoders["WIKI"]]
    for variant in ABLATIONS:
        yield [f"paper-{best_decoder(data)}-{variant}/{data}" for data in MEASURED]
    yield [f"tango-{best_decoder(data)}/{data}" for data in MEASURED]
    yield [name for name, found in experiments().items() if found.row in COUNTERS]


def chosen(only: Iterable[str]) -> set[str]:
    """Names of experiments for tables, presets, data sets and ``PRESET/DATA``; all where nothing is named.

    The part of a preset's name before the first ``-`` names its family, such as ``authors``.
    """
    wanted = list(only)
    known = experiments()
    if not wanted:
        return set(known)
    found: set[str] = set()
    for name in wanted:
        if name in tables():
            found |= {cell.config for cell in tables()[name].cells}
            continue
        names = {n: (n, e.preset, e.preset.partition("-")[0], e.data) for n, e in known.items()}
        own = {n for n, called in names.items() if name in called}
        if not own:
            every = [*tables(), *chain(*names.values())]
            raise ConfigError(
                f"--only {name!r}: no table, preset, family of presets, data set or PRESET/DATA of this name."
                f"{offer(nearest(name, every))} `tango reproduce --list` names tables and presets."
            )
        found |= own
    return found


def missing(results: Results, only: Iterable[str] = (), seeds: int | None = None, again: bool = False) -> list[Job]:
    """The runs that are wanted and not there, by priority; ``again`` takes those that are there as well.

    Results that lack a protocol come last: most of their cells are filled.
    """
    wanted = chosen(only)
    jobs = [
        Job.of(experiments()[name], seed)
        for name, seed in order()
        if name in wanted and (seeds is None or seed < seeds)
    ]
    jobs = [replace(job, again=again) for job in jobs if again or not is_there(results, job)]
    return sorted(jobs, key=lambda job: not again and job.seed in results.found.get(job.config, {}))


def is_there(results: Results, job: Job) -> bool:
    """Whether a run has its result, with every protocol that its cells need."""
    result = results.found.get(job.config, {}).get(job.seed)
    if result is None:
        return False
    return all(need in result.get("protocols", {}) for need in job.needs)


class Until:
    """Callbacks of training: it stops, with a checkpoint, when its time is over or nobody waits for it."""

    def __init__(
        self, deadline: float, heard: Reporter | None = None, alone: Callable[[], bool] = lambda: False
    ) -> None:
        self.deadline, self.heard, self.alone, self.stopped = deadline, heard, alone, False

    def step(self, progress: Progress, settings: TrainSettings, snapshots: int) -> None:
        if self.heard is not None:
            self.heard.step(progress, settings, snapshots)

    def epoch(self, progress: Progress, settings: TrainSettings) -> None:
        if self.heard is not None:
            self.heard.epoch(progress, settings)

    def asked(self, progress: Progress) -> str:
        """Whether to stop."""
        self.stopped = self.stopped or time.monotonic() > self.deadline or self.alone()
        return STOPPED if self.stopped else ""


def make_result(
    job: Job,
    work: Path,
    device: str,
    deadline: float,
    last: float,
    heard: Reporter | None = None,
    alone: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Train until ``deadline`` at most, measure until ``last``; :class:`OutOfTime` where that was too short.

    A run under way goes on from its checkpoint, one that was trained is measured, and one that was made with other
    settings starts again. While another process still holds the run, it is waited for. Training stops as well when
    ``alone`` says that whoever asked for the run is gone.
    """
    dataset, folder = job.dataset(), job.folder(work)
    config = resolve(job.run_config(device), dataset)
    with _held(job.lock(work), deadline):
        until = Until(deadline, heard, alone)
        afresh = _is_other(folder, config) or (job.again and job.is_kept(work))
        try:
            how: dict[str, Any] = {"resume": not afresh, "overwrite": afresh, "reporter": until, "stop": until.asked}
            forecaster = fit(dataset, config, out=folder, **how)
        except Interrupted:
            if until.stopped:
                raise OutOfTime from None
            raise
        check_test_part(forecaster)
        return measure(forecaster, folder, job.needs, job.preset, last)


@contextmanager
def _held(lock: FileLock, deadline: float) -> Iterator[None]:
    """One process at a time makes a run: a worker may outlive, for a step, whoever started it."""
    while not lock.try_acquire():
        if time.monotonic() > deadline:
            raise OutOfTime
        time.sleep(WAIT)
    try:
        yield
    finally:
        lock.release()


def _is_other(folder: Path, config: RunConfig) -> bool:
    """Whether a run of another preset, or for another device, lies here."""
    return (folder / "config.toml").exists() and RunFolder(folder).config() != config
