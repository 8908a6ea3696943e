"""Ctrl-C and SIGTERM as something that the training loop asks about between two steps."""

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
        super().__init__(f"interrupted{self._told()}{kept}.")

    def _told(self) -> str:
        if (p := self.progress) is None or self.model is None:
            return ""
        best = f"; the best weights are those of epoch {p.best_epoch}" if p.best_epoch else ""
        return f" in epoch {p.epoch + 1}{best}{f' (validation MRR {p.best_mrr:.2f})' if p.best_mrr >= 0 else ''}"


class Watch:
    """A signal handler that remembers. Until the loop asks (``patient``) it raises as well; a second one always does.

    What it raises can get lost, in a destructor or a module that is being imported; what it remembers cannot.
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
        """A callback of the training loop."""
        return STOPPED if self.received else ""

    @contextmanager
    def patiently(self) -> Iterator[None]:
        """From here on the first signal is only remembered."""
        before, self.patient = self.patient, True
        try:
            yield
        finally:
            self.patient = before


@contextmanager
def watching() -> Iterator[Watch]:
    """A watch for SIGINT and SIGTERM, or the one that is there; outside the main thread it hears nothing."""
    existing = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or isinstance(existing, Watch):
        yield existing if isinstance(existing, Watch) else Watch()
        return
    watch = Watch(getattr(existing, "received", 0))  # the command line remembers from its first moment on
    before = {number: signal.signal(number, watch) for number in SIGNALS}
    try:
        yield watch
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
