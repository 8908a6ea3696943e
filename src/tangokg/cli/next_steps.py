"""The follow-up commands that a command suggests, with the user's options."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

OWN = frozenset({"--json", "--out", "--plot", "--resume", "--overwrite", "--quiet", "--verbose", "--help"})


def next_command(words: Sequence[str], *command: str, without: Sequence[str] = ()) -> str:
    """A command to copy: ``command``, then each option of ``words`` that it accepts, except those in ``without``."""
    from tangokg.cli.app import command_line

    target = command_line()
    for word in command:
        target = getattr(target, "commands", {}).get(word, target)
    takes = {name: p.is_flag for p in target.params if p.param_type_name == "option" for name in p.opts}
    kept = [word for word in _options_of(words, takes) if word[0] not in OWN | set(without)]
    return shlex.join(["tango", *command, *(piece for word in kept for piece in word)])


def _options_of(words: Sequence[str], takes: dict[str, bool]) -> Iterator[tuple[str, ...]]:
    """The options among the words, each with its value; ``--unit=week`` counts as ``--unit week``."""
    rest = iter(words)
    for word in rest:
        if word == "--":
            return
        name, equals, value = word.partition("=")
        if name in takes:
            yield (name,) if takes[name] else (name, value if equals else next(rest, ""))
