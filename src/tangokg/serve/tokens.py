"""Bearer tokens: of a service, and of those who ask it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tangokg.errors import ConfigError

READ, WRITE = "TANGOKG_READ_TOKEN", "TANGOKG_WRITE_TOKEN"  # environment variables
LEAST = 16  # characters of a token


@dataclass(frozen=True)
class Tokens:
    """Bearer tokens by what they permit; a write token permits reading too."""

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.read or self.write)

    def __repr__(self) -> str:
        return f"Tokens({len(self.read)} to read, {len(self.write)} to write)"  # never the tokens themselves


def read_tokens(path: Path | None) -> Tokens:
    """The tokens of a file (lines ``read TOKEN`` and ``write TOKEN``) and of the environment."""
    tokens: dict[str, list[str]] = {"read": [], "write": []}
    for scope, variable in (("read", READ), ("write", WRITE)):
        if token := os.environ.get(variable, "").strip():
            tokens[scope].append(_checked(token, variable))
    for number, line in enumerate(_lines(path), 1):
        scope, _, token = line.strip().partition(" ")
        if scope and not scope.startswith("#"):
            if scope not in tokens:
                raise ConfigError(f"the token file, line {number}: expected `read TOKEN` or `write TOKEN`.")
            tokens[scope].append(_checked(token.strip(), f"the token file, line {number}"))
    return Tokens(tuple(tokens["read"]), tuple(tokens["write"]))


def _lines(path: Path | None) -> list[str]:
    if path is None:
        return []
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: the tokens cannot be read ({error}).") from None


def _checked(token: str, place: str) -> str:
    if len(token) < LEAST or not (token.isascii() and token.isprintable() and " " not in token):
        raise ConfigError(
            f"{place}: a token has at least {LEAST} letters, digits or signs, without blanks. "
            f"`python -c 'import secrets; print(secrets.token_urlsafe())'` makes one."
        )
    return token
