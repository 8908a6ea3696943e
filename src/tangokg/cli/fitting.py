"""Training with a display, shared by all commands that train."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tangokg.cli.output import Output, Stopped
from tangokg.showing import counted

if TYPE_CHECKING:
    from tangokg.forecast import Forecaster
    from tangokg.quads import Dataset
    from tangokg.train import RunConfig


def fit_shown(
    output: Output, dataset: Dataset, config: RunConfig, *, out: Path | None, again: list[str], **options: Any
) -> Forecaster:
    """Train with a display; after an interruption, suggest the command ``again`` to resume."""
    from tangokg.forecast import fit
    from tangokg.train import Interrupted, resolve
    from tangokg.train.display import Display
    from tangokg.train.memory import keep_freed_memory

    keep_freed_memory()
    if options.get("resume") and out is not None and not out.exists():
        output.say(f"There is no run in {out} yet: a new one begins.")
    elif hasattr(config.settings, "dim") and not options.get("resume"):
        output.say(_settings_line(resolve(config, dataset)))
    try:
        with Display(output.notes) as display:
            return fit(dataset, config, out=out, reporter=display, **options)
    except Interrupted as stop:
        text = str(stop)
        if out is not None and stop.forecaster is not None:
            text += f" The run in {out} is usable as it is; stopped early, it has no figures yet."
        if out is not None and (stop.forecaster is not None or stop.checkpoint is not None):
            text += f" Go on with:\n  {shlex.join(again)}"
        raise Stopped(text, stop.status) from stop


def _settings_line(config: RunConfig) -> str:
    """The settings that a rule chose, and the limits, in a line."""
    from tangokg.train.stopping import duration

    train, settings = config.train, config.settings
    size = f"{train.batch_queries:,} questions" if train.batch_queries else counted(train.batch_windows, "window")
    ruled = {name: getattr(settings, name) for name in getattr(settings, "ruled", ("dim",))}
    rules = "".join(f", {name}" if value is True else f", {name} {value}" for name, value in ruled.items() if value)
    limit = counted(train.epochs, "epoch") + (f" or {duration(train.budget)}" if train.budget > 0 else "")
    return f"Settings: steps of {size} at learning rate {train.learning_rate:g}{rules}; at most {limit}."
