"""Every exception that tangokg raises on purpose; the command line prints its text and exits with status 2."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from inspect import signature
from typing import Any


class TangoError(Exception):
    """Base of all our exceptions: the text says where, what was found, what was expected and what to do."""


class DataError(TangoError):
    """A file, table or name that cannot be read as dated facts."""


class UnknownName(DataError):
    """A name outside a vocabulary; the message offers the nearest known ones."""

    def __init__(self, kind: str, name: str, known: Iterable[str], hint: str = "") -> None:
        self.nearest = nearest(name, known)
        super().__init__(f"unknown {kind} {name!r}.{offer(map(repr, self.nearest))}{' ' + hint if hint else ''}")


class ConfigError(TangoError):
    """A setting that is unknown, of the wrong type or out of range."""


class RunError(TangoError):
    """A run folder that is missing, incomplete, corrupt or of another schema."""


class TrainingError(TangoError):
    """Training that cannot go on: a loss that is not a number, too little memory, a missing device."""


class MemoryShort(TrainingError):
    """A run does not fit into the memory that is free now."""


HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def harmless(text: str) -> str:
    """A text for a terminal: what steers one (escape sequences, turned writing) is written out, as ``\\x1b``."""
    return HIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def harmless_line(text: str) -> str:
    """The same for a name in a line or cell of its own: line ends and tabs are written out as well."""
    return harmless(text).replace("\n", "\\n").replace("\t", "\\t")


def check_types(where: str, *arguments: tuple[str, object, tuple[type | None, ...]]) -> None:
    """Each (name, value, types): an argument of another type is an error that names it; None in types allows None."""
    for name, value, types in arguments:
        allowed = tuple(kind for kind in types if kind is not None)
        if not (isinstance(value, allowed) or (value is None and None in types)):
            listed = " or ".join("None" if kind is None else kind.__name__ for kind in types)
            raise ConfigError(f"{where}(): {name} is {value!r:.60} ({type(value).__name__}), expected {listed}.")


def check_options(where: str, function: Callable[..., Any], options: Iterable[str], hint: str = "") -> None:
    """Keyword options that are passed on: one that the function does not take is an error with the nearest."""
    taken = [p.name for p in signature(function).parameters.values() if p.default is not p.empty]
    for name in options:
        if name not in taken:
            known = f"Known: {', '.join(taken)}."
            raise ConfigError(f"{where}(): unknown option {name!r}.{offer(nearest(name, taken))} {known}{hint}")


def offer(names: Iterable[str]) -> str:
    """`` Did you mean a, b?``, or nothing where there is nothing to offer."""
    listed = ", ".join(names)
    return f" Did you mean {listed}?" if listed else ""


def nearest(name: str, known: Iterable[str], most: int = 5) -> list[str]:
    """The known names most like ``name``, case ignored; those that contain it come first."""
    by_folded: dict[str, str] = {}
    for candidate in known:
        by_folded.setdefault(candidate.casefold(), candidate)
    folded = name.casefold()
    inside = [f for f in by_folded if folded and folded in f][:most]
    close = get_close_matches(folded, by_folded, n=most, cutoff=0.6)
    return [by_folded[f] for f in dict.fromkeys([*inside, *close])][:most]
