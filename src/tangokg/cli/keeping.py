"""``--observe FILE --keep``: facts that stay with a run."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from tangokg.cli.output import Output, counted
from tangokg.errors import ConfigError

if TYPE_CHECKING:
    from tangokg.forecast import Forecaster


WAIT = 120.0  # seconds, for others who keep facts with the same run


def keeping(run: Path) -> AbstractContextManager[None]:
    """Hold a run from reading its facts to writing more: who does the same at that time waits, and loses none."""
    from tangokg.train import RunFolder
    from tangokg.train.locks import owning

    RunFolder(run).config()  # an error for what is no run, before a lock is made beside it
    return owning(run, WAIT)


def keep_observed(output: Output, run: Path, forecaster: Forecaster, observed: list[Path] | None) -> None:
    """Write what was observed into the run folder; its weights and figures stay."""
    from tangokg.train import RunFolder

    if not observed:
        raise ConfigError("--keep keeps the facts of --observe FILE: give both.")
    RunFolder(run).keep_facts(forecaster.dataset)
    after = forecaster.dataset.after
    number = 0 if after is None else len(after)
    output.say(f"They stay with {run}, which has {counted(number, 'fact')} observed since training.")
