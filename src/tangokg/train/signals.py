"""Ctrl-C and SIGTERM as a flag that the training loop checks between two steps."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from tangokg.train.stopping import STOPPED

if TYPE_CHECKING:
    from tangokg.models import Model
    from tangokg.train.checkpoint import Progress

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(KeyboardInterrupt):
    """Training was asked to stop. Its best weights so far are kept, and a checkpoint where there is a folder for it.

    ``forecaster`` answers with these weights (``tangokg.fit`` sets it; None where training had not begun).
    """

    def __init__(
        self,
        signal_number: int,
        checkpoint: Path | None = None,
        model: Model | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.status = 128 + signal_number
        self.checkpoint, self.model, self.progress = checkpoint, model, progress
        self.forecaster: Any = None
        kept = f"; a checkpoint is in {checkpoint.parent}" if checkpoint else ""
        super().__init__(f"interrupted{self._where()}{kept}.")

    def _where(self) -> str:
        if (p := self.progress) is None or self.model is None:
            return ""
        best = f"; the best weights are those of epoch {p.best_epoch}" if p.best_epoch else ""
        return f" in epoch {p.epoch + 1}{best}{f' (validation MRR {p.best_mrr:.2f})' if p.best_mrr >= 0 else ''}"


class Watch:
    """A signal handler that records signals and raises, except for the first signal while ``patient``.

    An exception that is raised in a destructor or during an import can get lost; the record cannot.
    """

    def __init__(self, received: int = 0) -> None:
        self.received = received  # number of the first signal; 0: none
        self.count = int(received > 0)
        self.patient = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.received, self.count = self.received or number, self.count + 1
        if not self.patient or self.count > 1:
            raise Interrupted(number)

    def stop(self, progress: Progress) -> str:
        """The ``stop`` callback of the training loop."""
        return STOPPED if self.received else ""

    @contextmanager
    def patiently(self) -> Iterator[None]:
        """Inside this context, the first signal is only recorded."""
        before, self.patient = self.patient, True
        try:
            yield
        finally:
            self.patient = before


@contextmanager
def watching() -> Iterator[Watch]:
    """Watch for SIGINT and SIGTERM, or reuse the active watch; outside the main thread, no signals arrive."""
    existing = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or isinstance(existing, Watch):
        yield existing if isinstance(existing, Watch) else Watch()
        return
    watch = Watch(getattr(existing, "received", 0))  # the command line records signals from its start
    before = {number: signal.signal(number, watch) for number in SIGNALS}
    try:
        yield watch
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
