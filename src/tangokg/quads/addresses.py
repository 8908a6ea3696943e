"""Addresses of databases, such as ``postgresql://user@host/name?table=events``; passwords are kept out of all texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

from tangokg.errors import DataError, UnknownName

KINDS = {"postgresql": "postgresql", "postgres": "postgresql", "sqlite": "sqlite", "duckdb": "duckdb"}
EXAMPLES = (
    "postgresql://user@host/name?table=events, sqlite:///file.db?query=select ..., duckdb:///file.db?table=events"
)
IF_EXISTS = ("fail", "append", "replace")

_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://(.*)", re.DOTALL)
_QUERY = re.compile(r"[?&]query=(.*)", re.DOTALL)  # the last part of an address: a query may hold an ampersand
_SECRET = re.compile(r"password|secret|token", re.IGNORECASE)  # names of parameters whose values are never shown
_ASSIGNED = re.compile(r"((?:password|passwd|secret|token)\s*=\s*)('[^']*'|[^\s,;)]+)", re.IGNORECASE)

_secrets: dict[str, dict[str, str]] = {}  # address -> the secrets removed from the words of a command


@dataclass(frozen=True)
class Address:
    """Where a table is: a database, and a table or a query in it."""

    kind: str  # a value of KINDS
    place: str  # without password and parameters
    table: str | None = None
    query: str | None = None
    if_exists: str = "fail"
    options: Mapping[str, str] = field(default_factory=dict)  # for the driver
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return self.place

    @property
    def path(self) -> str:
        """The file of an SQLite or DuckDB database; "" is one in memory."""
        path = unquote(self.place.partition("://")[2].removeprefix("/"))
        return "" if path == ":memory:" else path

    @property
    def name(self) -> str:
        """The name of the data: the table, else the database."""
        stem = (self.table or self.place.partition("://")[2].rpartition("/")[2]).rpartition(".")
        plain = stem[2] if self.table else stem[0] or stem[2]
        return re.sub(r"\W+", "-", unquote(plain)).strip("-") or "events"

    @property
    def url(self) -> str:
        """The address for libpq, with the password; never show it."""
        scheme, _, rest = self.place.partition("://")
        user, at, host = rest.rpartition("@")
        password = self.secrets.get("")
        secret = "" if password is None else f":{quote(password, safe='')}"
        options = {**self.options, **{name: value for name, value in self.secrets.items() if name}}
        parameters = "&".join(f"{name}={quote(value, safe='')}" for name, value in options.items())
        return f"{scheme}://{user}{secret}{at or '@' * bool(secret)}{host}" + (f"?{parameters}" if parameters else "")

    def hide(self, text: str) -> str:
        """A driver message on one line, with passwords removed."""
        for secret in self.secrets.values():
            for form in {secret, quote(secret), quote(secret, safe="")} - {""}:
                text = text.replace(form, "***")
        return " ".join(_ASSIGNED.sub(r"\1***", text).split())


def is_address(source: Any) -> bool:
    """Whether a source looks like the address of a database (or of anything else that is not a file)."""
    return isinstance(source, str) and _ADDRESS.match(source) is not None


def parse_address(text: str) -> Address:
    """The parts of an address, with the secrets that :func:`without_passwords` removed restored."""
    parts = _ADDRESS.fullmatch(text)
    scheme = parts[1].casefold() if parts else ""
    if parts is None or scheme not in KINDS:
        raise UnknownName("kind of address", f"{scheme}://", KINDS, hint=f"Expected a file, or {EXAMPLES}.")
    place, secrets, parameters, query = _split_address(scheme, parts[2])
    secrets = _secrets.get(place, {}) | secrets
    table, if_exists = parameters.pop("table", None), parameters.pop("if_exists", "fail")
    if if_exists not in IF_EXISTS:
        raise UnknownName("value of if_exists", if_exists, IF_EXISTS, hint=f"Expected one of {', '.join(IF_EXISTS)}.")
    if table is not None and query is not None:
        raise DataError(f"{place}: give a table or a query in the address, not both.")
    if table == "" or (query is not None and not query.strip()):
        raise DataError(f"{place}: the {'table' if table == '' else 'query'} of the address is empty.")
    return Address(KINDS[scheme], place, table, query, if_exists, parameters, secrets)


def without_passwords(words: Iterable[str]) -> list[str]:
    """Words of a command without the secrets in addresses; :func:`parse_address` restores them in this process."""
    return [_without_secrets(word) if is_address(word) or "://" in word else word for word in words]


def _without_secrets(word: str) -> str:
    option, equals, rest = word.partition("=") if word.startswith("--") else ("", "", word)
    parts = _ADDRESS.fullmatch(rest)
    if parts is None:
        return word
    place, secrets, parameters, query = _split_address(parts[1].casefold(), parts[2])
    if not secrets:
        return word
    _secrets[place] = secrets
    pieces = [f"{name}={value}" for name, value in parameters.items()]
    pieces += [] if query is None else [f"query={query if ' ' in query else quote(query, safe='')}"]
    return f"{option}{equals}{place}{'?' * bool(pieces)}{'&'.join(pieces)}"


def _split_address(scheme: str, rest: str) -> tuple[str, dict[str, str], dict[str, str], str | None]:
    """``(place, secrets, parameters, query)`` of the rest after ``scheme://``; the key of the password is ""."""
    query = None
    if match := _QUERY.search(rest):
        rest, query = rest[: match.start()], match[1]
        query = query if re.search(r"\s", query) else unquote(query)  # an encoded address has no blank
    user, password, rest = _userinfo(rest)
    path, _, written = rest.partition("?")
    pairs = [piece.partition("=")[::2] for piece in written.split("&") if piece]
    parameters = {name: unquote(value) for name, value in pairs}
    secrets = {name: parameters.pop(name) for name in list(parameters) if _SECRET.search(name)}
    if password is not None:
        secrets[""] = unquote(password)
    return f"{scheme}://{user}{path}", secrets, parameters, query


def _userinfo(rest: str) -> tuple[str, str | None, str]:
    """``user@``, the password, and the rest; an unencoded password is an error, which does not show it."""
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    userinfo, at, _ = authority.rpartition("@")
    before, _, _ = rest.partition("?")
    numbered = re.fullmatch(r"[^:]*(:[0-9]*)?|\[.*\](:[0-9]*)?", authority)  # a host with a port, perhaps
    if not at and "@" in rest and ("@" in before or not numbered):
        raise DataError(
            "the address of a database has a password with one of / ? # in it: write these percent-encoded "
            "(%2F %3F %23), or leave the password to PGPASSWORD or ~/.pgpass."
        )
    user, colon, password = userinfo.partition(":")
    return user + at, password if colon else None, rest[len(userinfo) + len(at) :]
