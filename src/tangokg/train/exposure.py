"""Which facts the weights of a run depend on: what it may be measured on, and what may be trained from it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from tangokg.errors import RunError
from tangokg.quads.values import Dataset, Quadruples, concatenate

MARK = "not comparable"


@dataclass(frozen=True)
class Exposure:
    """The last time that the weights depend on, by training or by choice, also through runs they were started from."""

    until: float = -np.inf  # in the clock of the run
    refit: bool = False  # trained on all parts after the choice
    seen: str = ""  # why its figures are not comparable; "": they are

    @classmethod
    def of(cls, dataset: Dataset, before: Exposure | None = None, seen: str = "") -> Exposure:
        """Of a training on ``dataset``, from scratch or from a run with exposure ``before``."""
        last = max(float(part.t.max(initial=-1)) if len(part) else -np.inf for part in (dataset.train, dataset.valid))
        return cls(max(last, -np.inf if before is None else before.until), seen=seen)

    def after_refit(self, dataset: Dataset) -> Exposure:
        """The same run after a training on all parts."""
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
    def from_note(cls, told: Any, dataset: Dataset) -> Exposure:
        """What a note tells; a run of an older version depends on its training and validation parts."""
        if not told:
            return cls.of(dataset)
        kinds = {"until": (int, float), "refit": (bool,), "seen": (str,)}
        if not isinstance(told, dict) or told.keys() != kinds.keys():
            raise ValueError(f"exposure must have {', '.join(kinds)}, found {told!r}")
        for name, types in kinds.items():
            if type(told[name]) not in types:
                raise ValueError(f"{name} must be {types[-1].__name__}, found {told[name]!r}")
        if not np.isfinite(told["until"]):
            raise ValueError(f"until must be a time, found {told['until']!r}")
        return cls(**told)


def everything(dataset: Dataset) -> Dataset:
    """All parts as one to train on."""
    nothing = dataset.test.select(slice(0))
    whole = concatenate([part for part in (dataset.valid, dataset.test, dataset.train) if len(part)])
    order = np.argsort(whole.t, kind="stable")
    return replace(dataset, train=whole.select(order), valid=nothing, test=nothing)


def seen_before(before: Exposure, dataset: Dataset) -> str:
    """What an earlier run already saw of the validation and test parts of ``dataset``; "" where nothing."""
    parts = [part for part in (dataset.valid, dataset.test) if len(part)]
    if not parts or before.until < (first := min(float(part.t.min()) for part in parts)):
        return ""
    clock = dataset.clock
    return (
        f"the run it starts from depends on facts up to {clock.format(before.until)}, and what it is judged by now "
        f"begins at {clock.format(first)}"
    )


def check_start(before: Exposure, dataset: Dataset, allow_seen: bool) -> str:
    """Refuse a start from a run that saw what is now held back; when allowed, the mark of the new run."""
    found = seen_before(before, dataset)
    if found and not allow_seen:
        raise RunError(
            f"{found}: figures would not be comparable. Validate on later facts (--valid-from, --test-from), start "
            f"from an earlier run, or go on with --allow-seen (allow_seen=True), which marks the run."
        )
    return found or before.seen
