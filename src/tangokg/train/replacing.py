"""Create a run folder completely or not at all: a failed start leaves the disk, and a replaced run, unchanged."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tangokg.errors import TangoError
from tangokg.train.locks import owning
from tangokg.train.runs import RunFolder

logger = logging.getLogger("tangokg")


@contextmanager
def owning_run(out: str | Path) -> Iterator[None]:
    """Be the only process that writes a run folder; remove parent folders created for a run that never began."""
    out = Path(out).absolute()
    missing = [folder for folder in out.parents if not folder.exists()]
    try:
        with owning(out):
            yield
    except BaseException:
        for folder in missing:
            with suppress(OSError):  # it is not empty
                folder.rmdir()
        raise


@contextmanager
def owning_existing(run: Path, wait: float = 0.0) -> Iterator[None]:
    """Be the only process that writes an existing run; raises an error, before creating a lock, if it is not a run."""
    RunFolder(run).config()
    with owning(run, wait):
        yield


@contextmanager
def replacing(out: str | Path, overwrite: bool) -> Iterator[None]:
    """Move the run that ``overwrite`` replaces aside until the new one has a checkpoint or weights.

    If the new run is gone by then, the old one comes back. A kill loses neither: the name of the old run's folder is
    logged. An empty folder comes back as well.
    """
    out = Path(out).absolute()
    empty = out.is_dir() and not any(out.iterdir())
    old = _move_aside(out) if overwrite and RunFolder(out).begun else None
    try:
        yield
    finally:
        if old and _is_worth_keeping(out):
            shutil.rmtree(old, ignore_errors=True)
        elif old and not out.exists():
            old.rename(out)
        elif empty and not out.exists():
            out.mkdir()


@contextmanager
def removing_failed(out: Path) -> Iterator[None]:
    """Remove the new run in ``out``, made by this process, if it fails before it has a checkpoint or weights."""
    try:
        yield
    except TangoError:
        if not _is_worth_keeping(out):
            shutil.rmtree(out, ignore_errors=True)
        raise


def _is_worth_keeping(out: Path) -> bool:
    """Whether the folder holds a run that can answer, or from which training can be resumed."""
    return RunFolder(out).checkpoint.exists() or RunFolder(out).usable


def _move_aside(out: Path) -> Path:
    old = out.with_name(f"{out.name}.replaced-{os.getpid()}")
    out.rename(old)
    logger.warning(f"The run to replace is kept in {old} until the new one has a checkpoint.")
    return old
