"""Access control and limits: one middleware around all addresses, so that none is forgotten."""

from __future__ import annotations

import asyncio
import hmac
import math
import time
from ipaddress import ip_address
from urllib.parse import urlsplit

from limits import parse
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tangokg.serve.failures import Refused, problem, unexpected
from tangokg.serve.settings import ServeSettings, Tokens

SAFE = ("GET", "HEAD", "OPTIONS")
QUESTIONS = tuple(f"/api/v1/{name}" for name in ("forecast", "forecasts", "curve", "compare"))  # posted, but read-only
EVENTS = "/api/v1/events"  # stays open, so it does not count as in flight
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
        "connect-src 'self'; font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",  # a link carries its question
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    """Checks host, origin, token, rate, requests in flight and size of each request; adds the headers of answers."""

    def __init__(self, app: ASGIApp, settings: ServeSettings) -> None:
        self.app, self.settings = app, settings
        self._rate, self._window = parse(settings.rate), MovingWindowRateLimiter(MemoryStorage())
        self._in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return  # there are no websockets

        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                if scope["path"].startswith("/api/"):
                    headers["Cache-Control"] = "no-store"
            await send(message)

        try:
            await self._pass(scope, receive, sending)
        except Refused as error:
            await problem(error.status, error.message, error.hint, error.headers)(scope, receive, sending)
        except Exception as error:
            if begun:
                raise
            await unexpected(error)(scope, receive, sending)  # here, as what is outside adds no headers

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a permitted request with its body; it counts as in flight before its body is read."""
        self._count(scope)  # first, so that attempts to guess a token count too
        self._check(scope)
        flying = scope["path"] != EVENTS
        self._in_flight += flying
        try:
            await self.app(scope, _replay(await self._body(scope, receive), receive), send)
        finally:
            self._in_flight -= flying

    def _check(self, scope: Scope) -> None:
        """Host, origin, token, and that a body is JSON."""
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not known_host(hosts[0], self.settings.hosts):
            raise Refused(403, "this host name is not allowed.", "Name it with --allow-host.")
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2].casefold() != hosts[0].casefold():
            raise Refused(403, "requests from other sites are refused.")
        if not permitted(scope, self.settings):
            scopes = scopes_of(scope, self.settings.tokens)
            if scopes:
                raise Refused(403, "this token does not permit it: new facts need a token to write.")
            message = "this token is not known." if headers.get("authorization") else "a token is needed."
            raise Refused(401, message, "Authorization: Bearer TOKEN", {"WWW-Authenticate": "Bearer"})
        if scope["method"] not in SAFE and scope["path"].startswith("/api/"):
            kind = headers.get("content-type", "").partition(";")[0].strip().casefold()
            if kind != "application/json":
                raise Refused(415, "the body must be JSON.", "Content-Type: application/json")

    def _count(self, scope: Scope) -> None:
        """Limit the recent requests of this address, and the requests in flight."""
        client = (scope.get("client") or ("",))[0]
        if not self._window.hit(self._rate, client):
            reset = self._window.get_window_stats(self._rate, client).reset_time
            wait = str(max(1, math.ceil(reset - time.time())))
            raise Refused(429, "too many requests from this address.", f"Try again in {wait} s.", {"Retry-After": wait})
        if self._in_flight >= self.settings.in_flight and scope["path"] != EVENTS:
            raise Refused(429, "too many requests are being answered.", "Try again in 1 s.", {"Retry-After": "1"})

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """The whole body; an error if it is too long or too slow."""
        if scope["method"] in SAFE:
            return b""
        try:
            return await asyncio.wait_for(self._read(scope, receive), max(self.settings.wait, 1.0))
        except TimeoutError:
            raise Refused(408, "the body took too long.") from None

    async def _read(self, scope: Scope, receive: Receive) -> bytes:
        most = self.settings.body
        length = Headers(scope=scope).get("content-length", "")
        if length.isdecimal() and int(length[:20]) > most:
            raise Refused(413, f"the body is larger than {most:,} bytes.", "Send several smaller ones.")
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Refused(400, "the request ended early.")
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > most:
                raise Refused(413, f"the body is larger than {most:,} bytes.", "Send several smaller ones.")
        return body


def _replay(body: bytes, receive: Receive) -> Receive:
    sent = False

    async def again() -> Message:
        nonlocal sent
        if sent:
            return await receive()  # that the client is gone
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def known_host(host: str, names: tuple[str, ...]) -> bool:
    """Whether a Host header is an address, localhost, or a name that was given: another name may be rebound."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        _ = urlsplit(f"//{host}").port
    except ValueError:
        return False
    if name == "localhost" or name in {allowed.casefold() for allowed in names}:
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def scopes_of(scope: Scope, tokens: Tokens) -> set[str]:
    """The scopes that the token of a request grants; every known token is compared, in constant time."""
    kind, _, value = Headers(scope=scope).get("authorization", "").partition(" ")
    if kind.casefold() != "bearer":
        return set()
    token, scopes = value.strip().encode(), set()
    for known in tokens.read:
        if hmac.compare_digest(known.encode(), token):
            scopes.add("read")
    for known in tokens.write:
        if hmac.compare_digest(known.encode(), token):
            scopes |= {"read", "write"}
    return scopes


def may_write(scope: Scope, settings: ServeSettings) -> bool:
    """Whether a request may post facts: with a token to write, or on this machine where no token was set."""
    return "write" in scopes_of(scope, settings.tokens) or (settings.private and not settings.tokens)


def permitted(scope: Scope, settings: ServeSettings) -> bool:
    """Whether a request needs no token that it lacks. The files of the page hold no data, and are open."""
    path = scope["path"]
    changes = scope["method"] not in SAFE and path not in QUESTIONS
    if changes:
        return may_write(scope, settings)
    if settings.private or path == "/" or path.startswith("/page/"):
        return True
    return "read" in scopes_of(scope, settings.tokens)
