"""A study in one file, which survives a kill and is shared by workers: Optuna's journal, and a lock per trial."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tangokg.errors import RunError
from tangokg.quads.values import Dataset
from tangokg.train import Progress
from tangokg.train.locks import FileLock
from tangokg.tune.outcomes import Outcome, counted, outcome_of
from tangokg.tune.sampling import PRUNERS, SAMPLERS, load_optuna
from tangokg.tune.space import Choice, Plan, Range

SCHEMA = 1
NAME = "tango"  # of the one study in a file
FIRST = b'{"op_code":'  # how a journal begins
MOST_STARTS = 3  # a trial that was killed this often is given up
DRAWS = 8  # attempts to draw a new point, before one is taken in a fixed order


@dataclass(frozen=True, eq=False)
class Claim:
    """A trial that this process holds until it ends the trial or dies."""

    number: int
    values: Mapping[str, Any]
    folder: Path
    trial: Any  # optuna.trial.Trial
    hold: Any  # what ends with the process, or is released: a lock, a heartbeat
    starts: int
    known: frozenset[int]  # epochs that were reported before

    @property
    def checkpoint(self) -> Path:
        return self.folder / "state.safetensors"

    def report(self, progress: Progress) -> bool:
        """Record the best MRR up to this epoch; returns whether to prune the trial."""
        if progress.epoch not in self.known:
            self.trial.report(progress.best_mrr, progress.epoch)
        return bool(self.trial.should_prune())

    def let_go(self) -> None:
        """Leave the trial to the next worker; this does not count as a kill."""
        self.trial.set_user_attr("starts", self.starts - 1)
        self.hold.release()

    def done(self, progress: Progress) -> None:
        """End the trial with its best MRR."""
        self._end("COMPLETE", progress.best_mrr, seconds=round(progress.seconds, 1))

    def pruned(self, progress: Progress) -> None:
        """End the trial because others are better."""
        self._end("PRUNED", seconds=round(progress.seconds, 1))

    def failed(self, why: str) -> None:
        """End the trial with an error."""
        self._end("FAIL", note=why)

    def repeats(self, number: int) -> None:
        """End the trial because it has the point of another one; it does not count."""
        self._end("FAIL", **{"as": number})

    def _end(self, state: str, value: float | None = None, **attributes: Any) -> None:
        optuna = load_optuna()
        for name, attribute in attributes.items():
            self.trial.set_user_attr(name, attribute)
        self.trial.study.sampler = (
            optuna.samplers.RandomSampler()
        )  # the one of a grid would stop optuna's own loop, which we do not use
        self.trial.study.tell(self.number, value, state=optuna.trial.TrialState[state])
        self.hold.release()
        shutil.rmtree(self.folder, ignore_errors=True)


class Study:
    """The trials of a plan on a data set."""

    pause = 0.5  # seconds between two looks at what others do

    def __init__(self, path: Path, plan: Plan, dataset: Dataset, pruner: str = "median") -> None:
        optuna = load_optuna()
        self.path, self.plan = path, plan
        self.folder = path.with_name(path.name + ".work")  # locks, and checkpoints of trials under way
        self._ask = FileLock(self.folder / "ask.lock")
        journal = FileLock(self.folder / "journal.lock")
        _check_journal(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with self._ask:
                with journal:
                    _drop_torn_line(path)
                backend: Any = optuna.storages.journal.JournalFileBackend(str(path), lock_obj=journal)
                self._storage = optuna.storages.JournalStorage(backend)
                choose = PRUNERS[pruner](plan.config(plan.usual(dataset)).train.epochs)
                self._study = optuna.create_study(
                    storage=self._storage, study_name=NAME, direction="maximize", load_if_exists=True, pruner=choose
                )
                self._begin_or_compare(dataset)
        except (ValueError, KeyError, TypeError, AssertionError) as error:
            raise _damaged(path, error) from None

    def _begin_or_compare(self, dataset: Dataset) -> None:
        current, stored = described(self.plan, dataset), self._study.user_attrs.get("plan")
        if stored is None:
            if self.plan.sampler != "grid":  # the usual settings come first, so that the result is never worse
                self._study.enqueue_trial(self.plan.usual(dataset), skip_if_exists=True)
            self._study.set_user_attr("plan", current)
        else:
            check_same(stored, current, self.path, "file")

    def claim(self, most: int) -> Claim | None:
        """The next trial: an orphaned one, else a new one while there are fewer than ``most``."""
        with self._ask:
            trials = self._trials()
            self._clear(trials)
            for frozen in trials:
                if frozen.state.name == "RUNNING" and (claim := self._take(frozen.number)) is not None:
                    return claim
            if len(counted(trials)) >= min(most, self.plan.points or most):
                return None
            return self._new(len(trials))

    def is_over(self, most: int) -> bool:
        """Always true: other workers finish their trials, and those of workers that die."""
        return True

    def _new(self, number: int) -> Claim | None:
        """A trial with a new point; a learning sampler may draw a point twice, which is retried."""
        for fresh in range(number, number + DRAWS):
            self._study.sampler = SAMPLERS[self.plan.sampler](self.plan, fresh)
            claim = self._take(self._study.ask().number)
            tried = [t.number for t in counted(self._trials()) if claim and t.params == claim.values]
            if claim is None or self.plan.points is None or tried == [claim.number]:
                return claim
            claim.repeats(tried[0])
        tried = [t.params for t in counted(self._trials())]
        self._study.enqueue_trial(next(point for point in self.plan.shuffled() if point not in tried))
        return self._take(self._study.ask().number)

    def _take(self, number: int) -> Claim | None:
        """Hold a trial that no other process holds, and draw its missing values."""
        lock = FileLock(self.folder / str(number) / "lock")
        if not lock.try_acquire():
            return None
        optuna = load_optuna()
        study_id = self._storage.get_study_id_from_name(NAME)
        trial_id = self._storage.get_trial_id_from_study_id_trial_number(study_id, number)
        self._study.sampler = SAMPLERS[self.plan.sampler](self.plan, number)
        trial = optuna.trial.Trial(self._study, trial_id)
        values = {name: suggest(trial, name, choice) for name, choice in self.plan.space.items()}
        starts = trial.user_attrs.get("starts", 0) + 1
        known = frozenset(self._storage.get_trial(trial_id).intermediate_values)
        claim = Claim(number, values, lock.path.parent, trial, lock, starts, known)
        if starts > MOST_STARTS:
            claim.failed(f"killed {MOST_STARTS} times; is there enough memory?")
            return None
        trial.set_user_attr("starts", starts)
        return claim

    def _clear(self, trials: list[Any]) -> None:
        """Delete the folders of ended trials whose worker was killed before it could delete them."""
        over = {str(frozen.number) for frozen in trials if frozen.state.is_finished()}
        for folder in self.folder.iterdir():
            if folder.name in over:
                shutil.rmtree(folder, ignore_errors=True)

    def _trials(self) -> list[Any]:
        return list(self._study.get_trials(deepcopy=False))

    def outcomes(self) -> list[Outcome]:
        """All started trials, numbered in order, without repeated draws."""
        return [outcome_of(number, frozen) for number, frozen in enumerate(counted(self._trials()))]


def described(plan: Plan, dataset: Dataset) -> dict[str, Any]:
    """The search and data that a study stores, so that no worker adds trials of another search."""
    plain = {"schema": SCHEMA, "data": dataset.name, "facts": digest(dataset), **plan.to_dict()}
    return dict(json.loads(json.dumps(plain)))


def check_same(stored: Mapping[str, Any], current: Mapping[str, Any], where: object, what: str) -> None:
    """Raise an error if a study has other facts or another search than this worker."""
    if stored.get("facts") != current["facts"]:
        raise RunError(
            f"{where} is a study of other facts ({stored.get('data')} there, {current['data']} here). "
            f"Go on with the same data, or name another {what} with --study."
        )
    if changed := [key for key in {**stored, **current} if key != "data" and stored.get(key) != current.get(key)]:
        differences = "; ".join(
            f"{key}: {_short(stored.get(key))} there, {_short(current.get(key))} here" for key in changed
        )
        raise RunError(
            f"{where} is a study of another search ({differences}). Go on with the same settings, or name another "
            f"{what} with --study."
        )


def suggest(trial: Any, name: str, choice: Choice | Range) -> Any:
    if isinstance(choice, Choice):
        return trial.suggest_categorical(name, choice.values)
    if choice.whole:
        return trial.suggest_int(name, int(choice.low), int(choice.high), log=choice.log)
    return trial.suggest_float(name, choice.low, choice.high, log=choice.log)


def digest(dataset: Dataset) -> str:
    """A digest of the data that a search sees: everything but the test part."""
    seen = hashlib.sha256(f"{dataset.vocab.num_entities} {dataset.vocab.num_relations}".encode())
    for part in (dataset.past, dataset.valid):
        seen.update(f" {len(part)} ".encode())
        for column in (part.s, part.r, part.o, part.t):
            seen.update(np.ascontiguousarray(column, dtype="<i8").tobytes())
    return seen.hexdigest()[:16]


def _check_journal(path: Path) -> None:
    """An error if the file is not a study."""
    if path.is_dir():
        raise RunError(f"--study {path}: expected the name of a file, found a folder.")
    if path.exists():
        with path.open("rb") as file:
            first = file.read(len(FIRST))
        if first not in (b"", FIRST):
            raise _damaged(path, "it does not begin like a study")


def _damaged(path: Path, reason: object) -> RunError:
    return RunError(f"{path}: damaged, or not a study ({reason}). Name another file with --study.")


def _drop_torn_line(path: Path) -> None:
    """Cut off a last line that is incomplete because its writer was killed."""
    content = path.read_bytes() if path.exists() else b""
    if content and not content.endswith(b"\n"):
        os.truncate(path, content.rfind(b"\n") + 1)


def _short(value: Any) -> str:
    return "none" if value is None else json.dumps(value)
