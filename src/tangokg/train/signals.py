"""Ctrl-C and SIGTERM as a question that the loop asks between two steps."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from tangokg.errors import TangoError


class Interrupted(TangoError):
    """Training was asked to stop; a checkpoint was written where there is a folder for it."""

    def __init__(self, signal_number: int, checkpoint: Path | None) -> None:
        self.status = 128 + signal_number
        kept = f"a checkpoint is in {checkpoint.parent}" if checkpoint else "nothing was kept: no run folder was given"
        super().__init__(f"interrupted; {kept}.")


@contextmanager
def stopping() -> Iterator[Callable[[], int]]:
    """Gives a function that tells the number of the signal received, 0 for none; a second Ctrl-C ends at once."""
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)

    if threading.current_thread() is not threading.main_thread():
        yield lambda: 0
        return
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: received[0] if received else 0
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
