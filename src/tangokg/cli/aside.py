"""A training that fails at its start leaves the disk as it was; a run that is replaced waits aside."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tangokg.errors import TrainingError


@contextmanager
def all_or_nothing(out: Path | None, overwrite: bool, say: Callable[[str], None]) -> Iterator[None]:
    """A start that fails before the first checkpoint leaves the disk as it was, an overwritten run included.

    Only a folder that this process made is deleted: where it was not there before, training that fails has made it,
    while any other failure may be that another process was faster. The run to replace waits under a name that is told,
    and is deleted when the new one can be gone on with: a kill loses neither.
    """
    if out is None:
        yield
        return
    from tangokg.train.locks import owning

    out = out.absolute()
    missing = [path for path in (out, *out.parents) if not path.exists()]
    try:
        with owning(out), _aside(out, overwrite, bool(missing), say):
            yield
    except BaseException:
        for folder in missing[1:]:
            with suppress(OSError):  # something has come to lie in it
                folder.rmdir()
        raise


@contextmanager
def _aside(out: Path, overwrite: bool, missing: bool, say: Callable[[str], None]) -> Iterator[None]:
    """The run to replace aside, until the new one can be gone on with."""
    empty = out.is_dir() and not any(out.iterdir())
    aside = _set_aside(out, say) if overwrite and (out / "config.toml").exists() else None
    try:
        yield
    except BaseException as error:
        if isinstance(error, TrainingError) and (missing or empty or aside) and not _can_go_on(out):
            shutil.rmtree(out, ignore_errors=True)
        if empty and not out.exists():
            out.mkdir()
        if aside and not out.exists():
            aside.rename(out)
        raise
    finally:
        if aside and aside.exists() and _can_go_on(out):
            shutil.rmtree(aside, ignore_errors=True)


def _set_aside(out: Path, say: Callable[[str], None]) -> Path:
    aside = out.with_name(f"{out.name}.replaced-{os.getpid()}")
    out.rename(aside)
    say(f"The run that was there waits in {aside} until this one has a checkpoint.")
    return aside


def _can_go_on(out: Path) -> bool:
    """Whether a run is here that has trained for a while."""
    from tangokg.train import RunFolder

    return RunFolder(out).checkpoint.exists() or RunFolder(out).usable
