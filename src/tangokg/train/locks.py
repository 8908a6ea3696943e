"""Locks of files that the system gives back when their holder dies, however it dies."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

WAIT_SECONDS = 0.01  # between two tries


class FileLock:
    """One holder at a time among all processes; not for one holder to take twice."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO | None = None

    def try_acquire(self) -> bool:
        """Take the lock where it is free."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = self.path.open("a+b")
        try:
            if sys.platform == "win32":
                file.seek(0)
                msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
            else:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            return False
        self._file = file
        return True

    def acquire(self) -> bool:
        """Wait for the lock; true, as Optuna's journal wants it."""
        while not self.try_acquire():
            time.sleep(WAIT_SECONDS)
        return True

    def release(self) -> None:
        if self._file is not None:
            self._file.close()  # which unlocks it
            self._file = None

    def __enter__(self) -> FileLock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
