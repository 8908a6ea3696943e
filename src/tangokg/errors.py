"""Every exception that tangokg raises on purpose; the command line prints its text and exits with status 2."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import cache, wraps
from inspect import signature
from math import inf
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints


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
    """Training that cannot continue: a loss that became NaN, too little memory, a missing device."""


class MemoryShort(TrainingError):
    """A run does not fit into the memory that is free now."""


HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def harmless(text: str) -> str:
    """A text that is safe on a terminal: control characters, such as escapes, are written out, as ``\\x1b``."""
    return HIDDEN.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def harmless_line(text: str) -> str:
    """The same for a name in a line or cell of its own: line ends and tabs are written out as well."""
    return harmless(text).replace("\n", "\\n").replace("\t", "\\t")


P = ParamSpec("P")
T = TypeVar("T")


def checked(function: Callable[P, T]) -> Callable[P, T]:
    """A public function whose arguments are checked by its type hints: a wrong one is an error that names it."""
    shape = signature(function)

    @wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> T:
        try:
            given = shape.bind(*arguments, **named).arguments
        except TypeError as error:
            taken = ", ".join(name for name in shape.parameters if name != "self")
            raise ConfigError(f"{function.__name__}(): {error}. It takes {taken}.") from None
        check_types(function.__name__, function, given)
        return function(*arguments, **named)

    return call


def check_types(where: str, hinted: Any, given: Mapping[str, object]) -> None:
    """Values by name against the type hints of a function or class; a name without a hint may be anything."""
    for name, hint in _hints(hinted).items():
        if name in given and not _fits(given[name], hint):
            value = given[name]
            listed = " or ".join(_name(kind) for kind in _kinds(hint))
            raise ConfigError(f"{where}(): {name} is {value!r:.60} ({type(value).__name__}), expected {listed}.")


_hints = cache(get_type_hints)


def _kinds(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _name(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(map(repr, get_args(kind)))
    return "None" if kind is NoneType else str(getattr(get_origin(kind) or kind, "__name__", kind))


def _fits(value: object, hint: Any) -> bool:
    """Whether a value matches a type hint; True is not a number, and an empty text is not a path."""
    kinds = _kinds(hint)
    return not (Path in kinds and isinstance(value, str) and not value) and any(_is(value, kind) for kind in kinds)


def _is(value: object, kind: Any) -> bool:
    if kind is Any:
        return True
    if get_origin(kind) is Literal:
        return isinstance(value, str) and value in get_args(kind)
    kind = get_origin(kind) or kind
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, int | float if kind is float else kind)


def check_least(where: str, least: float, above: bool = False, **numbers: float | None) -> None:
    """Each number, where one is given, is finite and at least ``least``, or ``above`` it."""
    for name, value in numbers.items():
        if value is not None and not (least < value < inf or (value == least and not above)):
            raise ConfigError(f"{where}(): {name} is {value}, expected {'more than' if above else 'at least'} {least}.")


def check_options(where: str, function: Callable[..., Any], options: Iterable[str], hint: str = "") -> None:
    """Keyword options that are passed on: one that the function does not take is an error with the nearest."""
    taken = [p.name for p in signature(function).parameters.values() if p.default is not p.empty]
    for name in options:
        if name not in taken:
            known = f"Known: {', '.join(taken)}."
            raise ConfigError(f"{where}(): unknown option {name!r}.{offer(nearest(name, taken))} {known}{hint}")


def offer(names: Iterable[str]) -> str:
    """`` Did you mean a, b?``, or "" without names."""
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
