"""What is told before training starts: data, settings by rule, and what a run to go on from knows."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tangokg.cli.output import Output, counted

if TYPE_CHECKING:
    from tangokg.quads import Dataset
    from tangokg.train import RunConfig


def tell_before(output: Output, dataset: Dataset, config: RunConfig, folder: Path, hint: bool) -> None:
    """What was read and, for a small table with a model of one size, which settings would do."""
    from tangokg.cli.sources import tell

    tell(output, dataset)
    if hint and getattr(config.settings, "dim", 0) > 0:
        hint_smaller(output, dataset, folder)


def tell_settings(config: RunConfig) -> str:
    """The settings that a rule chose, and the limits, in a line."""
    from tangokg.train.stopping import duration

    train, settings = config.train, config.settings
    windows = "1 window" if train.batch_windows == 1 else f"{train.batch_windows} windows"
    size = f"{train.batch_queries:,} questions" if train.batch_queries else windows
    own = "".join(f", {name} {getattr(settings, name)}" for name in getattr(settings, "ruled", ("dim",)))
    limit = f"{train.epochs} epochs" + (f" or {duration(train.budget)}" if train.budget > 0 else "")
    return f"Settings: steps of {size} at learning rate {train.learning_rate:g}{own}; at most {limit}."


FEW_FACTS, FEW_ENTITIES = 2000, 500  # to train on; below either, smaller settings are faster and usually better
SMALL = ("dim=32", "history=2", "epochs=10", "learning_rate=0.01")


def hint_smaller(output: Output, dataset: Dataset, folder: Path) -> None:
    """For small data, the command as it was given with smaller settings and a folder of its own."""
    if len(dataset.train) < FEW_FACTS or dataset.vocab.num_entities < FEW_ENTITIES:
        output.say("  hint: for data as small as these, smaller settings are faster and usually better:")
        output.say(f"    {with_settings([*_without_out(output.words), '--out', f'{folder}-small'], SMALL)}")


def with_settings(words: Sequence[str], settings: Sequence[str]) -> str:
    """A command to copy: ``tango``, these words, and a --set for each setting."""
    return shlex.join(["tango", *words, *(word for setting in settings for word in ("--set", setting))])


def _without_out(words: Sequence[str]) -> list[str]:
    """The words of a command less its ``--out RUN``."""
    kept = [word for word in words if not word.startswith("--out=")]
    while "--out" in kept:
        place = kept.index("--out")
        del kept[place : place + 2]
    return kept


def tell_start(output: Output, start: Path, dataset: Dataset) -> None:
    """What a run to go on from knows of these data."""
    from tangokg.quads import Vocabulary

    old, new = Vocabulary.load(start / "vocab"), dataset.vocab
    names, relations = set(old.entities) & set(new.entities), set(old.relations) & set(new.relations)
    output.say(
        f"  taken over from {start}: {len(names):,} of {counted(new.num_entities, 'name')}, "
        f"{len(relations):,} of {counted(new.num_relations, 'relation')}"
    )
