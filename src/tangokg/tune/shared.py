"""A study shared by workers on many machines: a database numbers the trials, and heartbeats show which workers live.

There is no lock. Trials are numbered by the database, and where two workers do the same thing, the lower number stands.
A trial whose worker has died is failed, which one worker alone can do, and begun again as a trial of the same chain.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tangokg.errors import RunError
from tangokg.quads.values import Dataset
from tangokg.train import Progress
from tangokg.tune.outcomes import Outcome, counted, is_lost, outcome_of
from tangokg.tune.sampling import PRUNERS, SAMPLERS, load_optuna
from tangokg.tune.space import Plan
from tangokg.tune.storage import Shared, TrialLost, reaching
from tangokg.tune.study import DRAWS, MOST_STARTS, Claim, check_same, described, suggest

GRACE = 6  # heartbeats that a living worker may miss
PATIENCE = 10.0  # seconds for the first worker to store the plan
WAIT = 0.05  # seconds between two looks at workers that draw
ATTEMPTS = 100  # to make a folder that others delete


class Heartbeat(threading.Thread):
    """Reports every few seconds that a trial is alive, until it is released or its process dies."""

    def __init__(self, storage: Any, trial_id: int, seconds: float) -> None:
        super().__init__(daemon=True)
        self._storage, self._trial_id, self.seconds = storage, trial_id, seconds
        self._released = threading.Event()
        self.start()

    def run(self) -> None:
        optuna, count = load_optuna(), 0
        while not self._released.is_set():
            count += 1
            try:
                self._storage.set_trial_user_attr(self._trial_id, "beat", {"count": count, "every": self.seconds})
            except optuna.exceptions.UpdateFinishedTrialError:
                return
            except Exception:  # whatever the storage raises: perhaps the next one arrives
                pass
            self._released.wait(self.seconds)

    def release(self) -> None:
        self._released.set()
        if self is not threading.current_thread():
            self.join()


@dataclass(frozen=True, eq=False)
class SharedClaim(Claim):
    """A trial that this worker holds as long as it sends heartbeats."""

    storage: Any
    place: Shared

    def report(self, progress: Progress) -> bool:
        with reaching(self.place.address):
            return super().report(progress)

    def let_go(self) -> None:
        self.hold.release()
        with contextlib.suppress(TrialLost), reaching(self.place.address):
            self.storage.set_trial_user_attr(self.trial._trial_id, "released", True)

    def _end(self, state: str, value: float | None = None, **attributes: Any) -> None:
        self.hold.release()
        trial_id, states = self.trial._trial_id, load_optuna().trial.TrialState
        with reaching(self.place.address):
            for name, attribute in attributes.items():
                self.storage.set_trial_user_attr(trial_id, name, attribute)
            self.storage.set_trial_state_values(trial_id, states[state], None if value is None else [value])
        shutil.rmtree(self.folder, ignore_errors=True)


class SharedStudy:
    """The trials of a plan on a data set, for workers that share a database; files stay where the worker runs."""

    def __init__(
        self, place: Shared, folder: Path, plan: Plan, dataset: Dataset, pruner: str = "median", storage: Any = None
    ) -> None:
        optuna = load_optuna()
        self.place, self.plan = place, plan
        self._storage = place.open() if storage is None else storage
        self.pause = place.beat / 5  # seconds between two looks at what others do
        self._mine = described(plan, dataset)
        self._seen: dict[int, tuple[Any, float]] = {}  # of each trial the last heartbeat, and since when it is the last
        choose = PRUNERS[pruner](plan.config(plan.usual(dataset)).train.epochs)
        with reaching(place.address):
            try:
                self._study = optuna.create_study(
                    storage=self._storage, study_name=place.name, direction="maximize", pruner=choose
                )
            except optuna.exceptions.DuplicatedStudyError:
                self._study = optuna.load_study(storage=self._storage, study_name=place.name, pruner=choose)
                self._await_plan()
            if "plan" not in self._study.user_attrs:
                self._begin(dataset)
            self._compare()
            self.folder = folder / f"{place.name}-{self._study.user_attrs['key']}.work"

    def _await_plan(self) -> None:
        """Wait for the plan: the first worker writes it immediately, unless it was killed."""
        end = time.monotonic() + PATIENCE
        while "plan" not in self._study.user_attrs and time.monotonic() < end:
            time.sleep(WAIT)

    def _begin(self, dataset: Dataset) -> None:
        if self.plan.sampler != "grid":  # the usual settings come first, so that the result is never worse
            self._study.enqueue_trial(self.plan.usual(dataset), skip_if_exists=True)
        self._study.set_user_attr("key", uuid.uuid4().hex[:8])  # files of another study of this name are not taken
        self._study.set_user_attr("plan", self._mine)

    def _compare(self) -> None:
        try:
            stored = self._study.user_attrs.get("plan")
        except KeyError:  # in the middle of a search
            stored = None
        if stored is None:
            raise RunError(
                f"{self.place}: the study was deleted, or tango did not create it. Name another with --study."
            )
        check_same(stored, self._mine, self.place, "name")

    def claim(self, most: int) -> SharedClaim | None:
        """The next trial: an orphaned one, else a new one while there are fewer than ``most``."""
        most = min(most, self.plan.points or most)
        with contextlib.suppress(TrialLost), reaching(self.place.address):
            self._compare()
            trials = counted(self._trials())
            for place, frozen in enumerate(trials):
                if is_lost(frozen) or (frozen.state.name == "RUNNING" and self._is_gone(frozen)):
                    claim = self._take_over(frozen, surplus=place >= most)
                    if claim is not None:
                        return claim
            if len(trials) < most:
                return self._new(most)
        return None

    def is_over(self, most: int) -> bool:
        """Whether ``most`` trials have ended, those of other workers included."""
        most = min(most, self.plan.points or most)
        with reaching(self.place.address):
            trials = self._trials()
            ended = [frozen.state.is_finished() and not is_lost(frozen) for frozen in counted(trials)]
            self._clear(trials, all(ended))
            return len(ended) >= most and all(ended[:most])

    def _clear(self, trials: list[Any], over: bool) -> None:
        """Delete the folders of ended trials; a lost checkpoint is kept while a trial may resume from it."""
        for frozen in trials:
            if frozen.state.is_finished() and (over or not is_lost(frozen)):
                shutil.rmtree(self.folder / str(frozen.number), ignore_errors=True)
        with contextlib.suppress(OSError):  # it was never made, or a trial is under way
            self.folder.rmdir()

    def outcomes(self) -> list[Outcome]:
        """All started trials, numbered in order; a trial that was taken over keeps its number."""
        with reaching(self.place.address):
            return [outcome_of(number, frozen) for number, frozen in enumerate(counted(self._trials()))]

    def _trials(self) -> list[Any]:
        return list(self._study.get_trials(deepcopy=False))

    def _is_gone(self, frozen: Any) -> bool:
        """Whether a trial was released, or has sent no heartbeat for too long by the clock of this worker."""
        beat, now = frozen.user_attrs.get("beat"), time.monotonic()
        last, since = self._seen.get(frozen.number, (self, now))  # self: not seen yet
        if last != beat:
            self._seen[frozen.number] = (beat, now)
            return bool(frozen.user_attrs.get("released"))
        interval = max(self.place.beat, (beat or {}).get("every", 0.0))
        return bool(frozen.user_attrs.get("released")) or now - since > GRACE * interval

    def _take_over(self, frozen: Any, surplus: bool) -> SharedClaim | None:
        """Fail an orphaned trial and restart it; give it up if it was killed too often."""
        states, starts = load_optuna().trial.TrialState, frozen.user_attrs.get("starts", 1)
        starts += not frozen.user_attrs.get("released")
        given_up = starts > MOST_STARTS
        if frozen.state.name == "RUNNING":
            note = f"killed {MOST_STARTS} times; is there enough memory?"
            name, value = ("as", -1) if surplus else ("note", note) if given_up else ("lost", True)
            self._storage.set_trial_user_attr(frozen._trial_id, name, value)
            self._storage.set_trial_state_values(frozen._trial_id, states.FAIL)  # one worker alone can do this
        return None if surplus or given_up else self._again(frozen, starts)

    def _again(self, frozen: Any, starts: int) -> SharedClaim | None:
        """A trial with the same values, which resumes from the lost checkpoint if this file system has it."""
        optuna = load_optuna()
        root = frozen.user_attrs.get("root", frozen.number)
        template = optuna.trial.create_trial(
            state=optuna.trial.TrialState.RUNNING,
            params=frozen.params,
            distributions=frozen.distributions,
            intermediate_values=frozen.intermediate_values,
            system_attrs=frozen.system_attrs,  # with values that were set, but not drawn yet
            user_attrs={"root": root, "again": frozen.number, "starts": starts},
        )
        trial_id = self._storage.create_new_trial(self._storage.get_study_id_from_name(self.place.name), template)
        number = self._storage.get_trial(trial_id).number
        claim = self._keep_alive(number, trial_id, starts)
        restarts = [t.number for t in self._trials() if t.user_attrs.get("again") == frozen.number]
        if min(restarts) < number:
            claim.repeats(min(restarts))
            return None
        lost = self.folder / str(frozen.number) / claim.checkpoint.name
        if lost.exists():
            shutil.copyfile(lost, claim.folder / "lost")
            (claim.folder / "lost").rename(claim.checkpoint)
        return claim

    def _new(self, most: int) -> SharedClaim | None:
        """A trial with a new point. If two workers draw the same point, the lower number keeps it."""
        for draw in range(10**6):
            self._study.sampler = SAMPLERS[self.plan.sampler](self.plan, len(self._trials()))
            trial = self._study.ask()
            before = [t for t in self._begun() if t.number < trial.number]
            if len(before) >= most:
                self._keep_alive(trial.number, trial._trial_id, 1).repeats(-1)
                return None
            claim = self._keep_alive(trial.number, trial._trial_id, 1)
            duplicates = [t.number for t in self._drawn(trial.number) if t.params == claim.values]
            if not duplicates:
                return claim
            claim.repeats(duplicates[0])
            tried = [t.params for t in self._begun()]
            if draw >= DRAWS and self.plan.points is not None:
                free = next((point for point in self.plan.shuffled() if point not in tried), None)
                if free is None:
                    return None
                self._study.enqueue_trial(free)
        raise AssertionError

    def _begun(self) -> list[Any]:
        """The trials that count, each at its first start, including those that wait for a worker."""
        return [t for t in self._trials() if not {"as", "root"} & set(t.user_attrs)]

    def _drawn(self, number: int) -> list[Any]:
        """The earlier trials; waits until their workers have drawn all values or are gone."""
        while True:
            before = [t for t in self._begun() if t.number < number]
            late = [t for t in before if t.state.name == "RUNNING" and len(t.params) < len(self.plan.space)]
            if all(self._is_gone(t) for t in late):
                return before
            time.sleep(WAIT)

    def _keep_alive(self, number: int, trial_id: int, starts: int) -> SharedClaim:
        """Hold a trial with a heartbeat, and draw its missing values."""
        hold = Heartbeat(self._storage, trial_id, self.place.beat)
        try:
            self._study.sampler = SAMPLERS[self.plan.sampler](self.plan, number)
            trial = load_optuna().trial.Trial(self._study, trial_id)
            values = {name: suggest(trial, name, choice) for name, choice in self.plan.space.items()}
            self._storage.set_trial_user_attr(trial_id, "starts", starts)
            known = frozenset(self._storage.get_trial(trial_id).intermediate_values)
        except BaseException:
            hold.release()
            raise
        folder = self.folder / str(number)
        _make(folder)
        return SharedClaim(number, values, folder, trial, hold, starts, known, self._storage, self.place)


def _make(folder: Path) -> None:
    """Make a folder whose parent another worker may delete at the same moment, when it is empty."""
    for _ in range(ATTEMPTS):
        with contextlib.suppress(FileNotFoundError, FileExistsError):
            folder.mkdir(parents=True, exist_ok=True)
            return
    folder.mkdir(parents=True, exist_ok=True)
