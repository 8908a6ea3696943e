"""Callbacks of the training loop: reporters receive progress, and stops say when and why training ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from tangokg.train.checkpoint import Progress
from tangokg.train.settings import TrainSettings

STOPPED = "stopped"  # on request, before its end
CHOSEN = "chosen"  # training has ended, and the refit is still to come
UNFINISHED = (STOPPED, CHOSEN)  # a run that ended so is usable, and can be resumed

# Called after each step and each epoch. Returns why to end now: "" to go on, ``STOPPED``, or a word of ``ENDINGS``.
Stop = Callable[[Progress], str]

ENDINGS: dict[str, str] = {
    "epochs": "all {epochs} epochs are done",
    "patience": "no better validation MRR for {patience} epochs",
    "budget": "the time budget of {budget} is spent",
    STOPPED: "stopped early",
    CHOSEN: "the refit is still to come",
}


@runtime_checkable
class Reporter(Protocol):
    """Receives training progress."""

    def step(self, progress: Progress, settings: TrainSettings, snapshots: int) -> None: ...
    def epoch(self, progress: Progress, settings: TrainSettings) -> None: ...


def never(progress: Progress) -> str:
    """Never stop."""
    return ""


@dataclass(frozen=True)
class Budget:
    """Ends training when its time, over all sessions, is spent; the time of one more validation is reserved."""

    seconds: float  # 0 or less: no limit

    def __call__(self, progress: Progress) -> str:
        return "budget" if 0 < self.seconds < progress.seconds + progress.check_seconds else ""


def first_of(*stops: Stop) -> Stop:
    """Call several stops in order; the first that ends training decides."""
    return lambda progress: next(filter(None, (stop(progress) for stop in stops)), "")


def why_ended(progress: Progress, settings: TrainSettings) -> str:
    """A sentence on why training ended; "" if it was not recorded."""
    if progress.ended not in ENDINGS:
        return ""
    text = ENDINGS[progress.ended]
    return text.format(epochs=settings.epochs, patience=settings.patience, budget=duration(settings.budget))


def duration(seconds: float) -> str:
    """``90 s``, ``8 min``, ``2 h``."""
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= 2 * size or seconds == size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"
