"""Locks between processes, released by the system when their holder dies; and the owner of a run folder."""

from __future__ import annotations

import json
import logging
import os
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

import filelock

from tangokg.errors import RunError

WAIT_SECONDS = 0.01  # between two tries
logger = logging.getLogger("tangokg")


class FileLock:
    """A lock with one holder among all processes; the holder cannot take it twice."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = filelock.FileLock(path, thread_local=False)

    def try_acquire(self) -> bool:
        """Take the lock if it is free; returns whether it was."""
        if self._lock.is_locked:
            return False
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._lock.acquire(timeout=0)
        except filelock.Timeout:
            return False
        return True

    def acquire(self) -> bool:
        """Wait for the lock; returns True, as Optuna's journal expects."""
        while not self.try_acquire():
            time.sleep(WAIT_SECONDS)
        return True

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> FileLock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


@contextmanager
def owning(folder: Path, wait: float = 0.0) -> Iterator[None]:
    """Be the only process that writes ``folder``; after ``wait`` seconds, raise an error that names another writer.

    The lock file lies beside the folder, which may be replaced, and says who holds it. The same thread may take it
    again.
    """
    folder = folder.absolute()
    path = folder.with_name(f".{folder.name}.lock")
    lock = filelock.FileLock(path, is_singleton=True)
    outermost = not lock.is_locked
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            if not wait:
                raise
            logger.warning(f"{folder} is in use by {_holder(path)}: waiting for {wait:.0f} s at most.")
            lock.acquire(timeout=wait)
    except filelock.Timeout:
        raise RunError(
            f"{folder} is in use by {_holder(path)}. Wait until it ends, stop it, or choose another --out (or RUN)."
        ) from None
    except OSError as error:
        raise RunError(f"{folder}: cannot be created: {error.strerror or error}. Choose another --out.") from None
    try:
        if outermost:
            _sign(path)
        yield
    finally:
        if outermost:
            with suppress(OSError):  # still held: a waiting process finds it gone and makes a new one
                path.unlink()
        lock.release()


def _sign(path: Path) -> None:
    """Record who holds a lock."""
    holder = {"pid": os.getpid(), "host": platform.node(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
    with suppress(OSError):
        path.write_text(json.dumps(holder | {"command": " ".join(sys.argv)[:200]}), encoding="utf-8")


def _holder(path: Path) -> str:
    """The recorded holder of a lock."""
    try:
        holder = json.loads(path.read_text(encoding="utf-8"))
        return f"process {holder['pid']} on {holder['host']} since {holder['since']} ({holder['command']})"
    except (OSError, ValueError, LookupError, TypeError):
        return "another process"
