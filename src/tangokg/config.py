"""Settings as frozen dataclasses: read from TOML and ``key=value`` texts, checked field by field, written back."""

from __future__ import annotations

import json
import re
import sys
import tomllib
import types
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from datetime import date
from math import inf
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from tangokg.errors import ConfigError, nearest, offer

S = TypeVar("S")
TABLES = ("settings", "train")  # of a config; a key may be given without its table
MOST_HORIZONS = 1000
SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def update(settings: S, values: Mapping[str, Any], where: str) -> S:
    """``settings`` with some fields replaced; an unknown key or a wrong type is an error that names ``where``."""
    assert is_dataclass(settings)
    assert not isinstance(settings, type)
    hints = get_type_hints(type(settings))
    known = [f.name for f in fields(settings)]
    for key in values:
        if key not in known:
            raise unknown_setting(where, key, known)
    converted = {key: _convert(value, hints[key], f"{where}: {key}") for key, value in values.items()}
    changed: S = replace(settings, **converted)
    return changed


def unknown_setting(where: str, key: str, known: list[str]) -> ConfigError:
    """The error for a key that is none of ``known``."""
    return ConfigError(f"{where}: unknown setting {key!r}.{offer(nearest(key, known))} Known: {', '.join(known)}.")


def _convert(value: Any, hint: Any, where: str) -> Any:
    """``value`` as the declared type: integers pass as floats, texts are never turned into numbers here."""
    options = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    for option in options:
        if option is type(None) and (value is None or value == "none"):
            return None
        if get_origin(option) is Mapping and isinstance(value, Mapping):  # a table, whose content its owner checks
            return dict(value)
        if option is float and isinstance(value, int | float) and not isinstance(value, bool):
            if abs(value) <= sys.float_info.max:  # neither infinite nor nan, nor a whole number beyond all floats
                return float(value)
        elif isinstance(option, type) and option is not type(None) and type(value) is option:
            return value
        elif option is str and isinstance(value, date):  # as TOML has them without quotes
            return value.isoformat()
    words = {type(None): "none"} | {option: "a table" for option in options if get_origin(option) is Mapping}
    names = " or ".join(words.get(option) or option.__name__ for option in options)
    raise ConfigError(f"{where} must be {names}, found {value!r}.")


def parse_duration(value: str | float, where: str) -> float:
    """``90``, ``90s``, ``8m``, ``2h``, ``1d`` -> seconds."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = f"{value:f}"
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd]?)", str(value).strip())
    if match is None or float(match[1]) <= 0:
        raise ConfigError(f"{where} {value!r}: expected a time such as 90s, 8m or 1h.")
    return float(match[1]) * SECONDS[match[2]]


def parse_horizons(text: str) -> list[float]:
    """``3``, ``1,3,5``, ``1-8`` or a mixture -> horizons, in the order given."""
    horizons: list[float] = []
    for piece in text.split(","):
        first, dash, last = piece.strip().partition("-")
        try:
            steps = range(int(first), int(last) + 1)[: MOST_HORIZONS + 1] if dash else [float(piece)]
        except ValueError:
            steps = []
        horizons += map(float, steps)
        if not steps or not all(0 < dt < inf for dt in steps) or len(horizons) > MOST_HORIZONS:
            raise ConfigError(
                f"--horizon {text!r}: expected numbers of time steps above 0: 3, a list 1,3,5 or a range 1-8, "
                f"{MOST_HORIZONS} at most."
            )
    return horizons


def parse_assignment(text: str) -> tuple[str, Any]:
    """``key=value`` -> key and a TOML value; a bare word is a text."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set {text!r}: expected key=value, for example --set learning_rate=0.003.")
    try:
        return key.strip(), tomllib.loads(f"value = {value.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()


def split_key(key: str) -> tuple[str, str, str]:
    """``train.epochs`` -> train, epochs, nothing; ``decoding.channels`` -> nothing, decoding, channels."""
    table, _, rest = key.partition(".")
    table, rest = (table, rest) if table in TABLES and rest else ("", key)
    name, _, part = rest.partition(".")
    return table, name, part


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file; invalid TOML is an error with its line."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such config file.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: not a TOML file: {error}") from None


def to_toml(tables: Mapping[str, Any]) -> str:
    """Plain values first, then one ``[table]`` for each mapping; None is left out, as TOML has no such value.

    A table may hold tables, such as ``[settings.decoding]``.
    """
    lines = [f"{key} = {_literal(value)}" for key, value in _plain(tables)]
    for name, table in tables.items():
        if isinstance(table, Mapping):
            inner = {f"{name}.{key}": value for key, value in table.items() if isinstance(value, Mapping)}
            for place, values in ({name: table} | inner).items():
                lines += ["", f"[{place}]", *(f"{key} = {_literal(value)}" for key, value in _plain(values))]
    return "\n".join(lines) + "\n"


def _plain(table: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    return ((key, value) for key, value in table.items() if value is not None and not isinstance(value, Mapping))


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return f"[{', '.join(_literal(item) for item in value)}]"
    return repr(value)
