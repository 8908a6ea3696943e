"""The next commands that a command suggests at its end, with the options that were given."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tangokg.quads import Quadruples

OWN = frozenset({"--json", "--out", "--plot", "--resume", "--overwrite", "--quiet", "--verbose", "--help"})
LATELY = 0.1  # the share of the facts that count as recent


def next_command(words: Sequence[str], *command: str, without: Sequence[str] = ()) -> str:
    """A command to copy: its own words, then each option of ``words`` that it has too, except those in ``without``."""
    from typer.main import get_command

    from tangokg.cli.app import app

    target: Any = get_command(app)
    for word in command:
        target = getattr(target, "commands", {}).get(word, target)
    takes = {name: p.is_flag for p in target.params if p.param_type_name == "option" for name in p.opts}
    kept = [word for word in _given(words, takes) if word[0] not in OWN | set(without)]
    return shlex.join(["tango", *command, *(piece for word in kept for piece in word)])


def _given(words: Sequence[str], takes: dict[str, bool]) -> Iterator[tuple[str, ...]]:
    """The options among the words, each with its value; ``--unit=week`` counts as ``--unit week``."""
    rest = iter(words)
    for word in rest:
        if word == "--":
            return
        name, equals, value = word.partition("=")
        if name in takes:
            yield (name,) if takes[name] else (name, value if equals else next(rest, ""))


def worth_asking(facts: Quadruples) -> tuple[str, str]:
    """A subject and a relation with many recent facts and, if possible, more than one object."""
    import numpy as np

    late = facts.select(facts.t >= np.quantile(facts.t, 1 - LATELY))
    pairs, place, count = np.unique(np.stack([late.s, late.r]), axis=1, return_inverse=True, return_counts=True)
    kinds = np.unique(np.stack([place.ravel(), late.o]), axis=1)
    several = np.bincount(kinds[0], minlength=len(count)) > 1
    best = int(np.lexsort((count, several))[-1])
    s, r = pairs[:, best]
    return facts.vocab.entities[s], facts.vocab.relations[r]
