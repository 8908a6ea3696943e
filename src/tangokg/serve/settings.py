"""How a run is served: address, tokens and limits."""

from __future__ import annotations

import os
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from limits import parse

from tangokg.errors import ConfigError, check_least

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


@dataclass(frozen=True)
class ServeSettings:
    """The settings of a service; the defaults serve one machine."""

    host: str = "127.0.0.1"
    port: int = 8765
    tokens: Tokens = Tokens()
    hosts: tuple[str, ...] = ()  # names, beside localhost, by which people may call the service
    proxy: str = ""  # address of a reverse proxy whose X-Forwarded headers are believed
    late: float = 30.0  # steps before the last one from which new facts are still taken
    ahead: float = 3650.0  # steps after the last one up to which new facts are taken
    span: float = 10_000.0  # steps ahead that may be asked about, and steps of a curve
    body: int = 2**20  # bytes of a request
    rate: str = "6000/minute"  # requests of one address
    in_flight: int = 64  # requests answered at once
    wait: float = 10.0  # seconds to wait for a position of the journal, and for the body of a request
    version: str = ""

    def __post_init__(self) -> None:
        check_least("serve", 0, late=self.late, ahead=self.ahead, wait=self.wait)
        check_least("serve", 1, span=self.span, body=self.body, in_flight=self.in_flight)
        try:
            parse(self.rate)
        except ValueError:
            raise ConfigError(f"--rate {self.rate!r}: expected a number per time, such as 600/minute.") from None
        if not self.private and not self.tokens:
            raise ConfigError(
                f"the service can be reached from other machines (--host, --allow-host or --proxy), so a token is "
                f"needed: give --token-file FILE or set {WRITE} or {READ}."
            )

    @property
    def private(self) -> bool:
        """Whether only this machine can reach the service: not through a proxy either."""
        try:
            loopback = ip_address(self.host).is_loopback
        except ValueError:
            loopback = self.host == "localhost"
        return loopback and not self.hosts and not self.proxy


def read_tokens(path: Path | None) -> Tokens:
    """The tokens of a file (lines ``read TOKEN`` and ``write TOKEN``) and of the environment."""
    found: dict[str, list[str]] = {"read": [], "write": []}
    for scope, variable in (("read", READ), ("write", WRITE)):
        if token := os.environ.get(variable, "").strip():
            found[scope].append(_checked(token, variable))
    for number, line in enumerate(_lines(path), 1):
        scope, _, token = line.strip().partition(" ")
        if scope and not scope.startswith("#"):
            if scope not in found:
                raise ConfigError(f"the token file, line {number}: expected `read TOKEN` or `write TOKEN`.")
            found[scope].append(_checked(token.strip(), f"the token file, line {number}"))
    return Tokens(tuple(found["read"]), tuple(found["write"]))


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
