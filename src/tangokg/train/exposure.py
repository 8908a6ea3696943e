"""The facts that the weights of a run depend on: they limit what it may be evaluated on and what may start from it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np

from tangokg.config import update
from tangokg.errors import ConfigError, RunError
from tangokg.quads.values import Dataset, Quadruples, concatenate

MARK = "not comparable"


@dataclass(frozen=True)
class Exposure:
    """The last time that the weights depend on, through training, selection, or the runs they started from."""

    until: float = -np.inf  # in the clock of the run
    refit: bool = False  # trained on all parts after the selection
    seen: str = ""  # why its figures are not comparable; "": they are

    @classmethod
    def of(cls, dataset: Dataset, before: Exposure | None = None, seen: str = "") -> Exposure:
        """The exposure of training on ``dataset``, from scratch or from a run with exposure ``before``."""
        last = max(float(part.t.max(initial=-1)) if len(part) else -np.inf for part in (dataset.train, dataset.valid))
        return cls(max(last, -np.inf if before is None else before.until), seen=seen)

    def after_refit(self, dataset: Dataset) -> Exposure:
        """The exposure after training on all parts."""
        return Exposure(max(self.until, float(everything(dataset).train.t.max())), True, self.seen)

    def check(self, part: Quadruples) -> None:
        """Refuse to measure a refitted run on facts that it was trained on."""
        if self.refit and len(part) and float(part.t.min()) <= self.until:
            first, last = (part.clock.format(t) for t in (float(part.t.min()), self.until))
            raise RunError(
                f"this run was trained on everything up to {last} (--refit), and these facts begin at {first}. Its "
                f"figures are those before the refit, in metrics.json; measure it on later facts, or train without "
                f"--refit."
            )

    def to_note(self) -> dict[str, Any]:
        return asdict(self) if np.isfinite(self.until) else {}

    @classmethod
    def from_note(cls, note: Any, dataset: Dataset) -> Exposure:
        """Read the exposure from a note; a run of an older version depends on its training and validation parts."""
        if not note:
            return cls.of(dataset)
        names = [field.name for field in fields(cls)]
        if not isinstance(note, dict) or sorted(note) != sorted(names):
            raise ConfigError(f"exposure must have {', '.join(names)}, found {note!r}")
        return update(cls(), note, "exposure")


def everything(dataset: Dataset) -> Dataset:
    """All parts joined into one training part."""
    nothing = dataset.test.select(slice(0))
    combined = concatenate([part for part in (dataset.valid, dataset.test, dataset.train) if len(part)])
    order = np.argsort(combined.t, kind="stable")
    return replace(dataset, train=combined.select(order), valid=nothing, test=nothing)


def seen_before(before: Exposure, dataset: Dataset) -> str:
    """What an earlier run has already seen of the validation and test parts of ``dataset``; "" if nothing."""
    parts = [part for part in (dataset.valid, dataset.test) if len(part)]
    if not parts or before.until < (first := min(float(part.t.min()) for part in parts)):
        return ""
    clock = dataset.clock
    return (
        f"the run it starts from depends on facts up to {clock.format(before.until)}, but its validation "
        f"and test facts begin at {clock.format(first)}"
    )


def check_start(before: Exposure, dataset: Dataset, allow_seen: bool) -> str:
    """Refuse to start from a run that saw facts held back now; if allowed, return the mark of the new run."""
    reason = seen_before(before, dataset)
    if reason and not allow_seen:
        raise RunError(
            f"{reason}: figures would not be comparable. Validate on later facts (--valid-from, --test-from), start "
            f"from an earlier run, or go on with --allow-seen (allow_seen=True), which marks the run."
        )
    return reason or before.seen
