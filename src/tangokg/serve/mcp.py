"""Tools of the Model Context Protocol for assistants; they use only the REST interface of a service."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.client import HTTPException, HTTPMessage
from typing import IO, Any, Literal
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

from tangokg.errors import ConfigError
from tangokg.serve.tokens import READ

SECONDS = 120.0  # to wait for an answer; reasons take long on much data
Time = str | float | None
INSTRUCTIONS = """\
Forecasts on a knowledge graph of dated facts (subject, relation, object, time). Names must be exact: look them up with
search_names first. A chance is the probability that the fact happens at the time asked about; a share holds if the
question has any answer at all. Times are dates or numbers, as facts shows them."""


def make_server(url: str, token: str = "", version: str = "") -> MCPServer[Any]:
    """The server for the service at ``url``; the service need not run yet."""
    api = Api(url, token)
    server: MCPServer[Any] = MCPServer("tangokg", instructions=INSTRUCTIONS, version=version, log_level="ERROR")
    for tool in (api.search_names, api.forecast, api.facts, api.reasons):
        server.add_tool(tool, annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False))
    return server


class Api:
    """The REST interface of a service. Assistants call the public methods and read their docstrings."""

    def __init__(self, url: str, token: str = "") -> None:
        self._url, self._token = _checked(url), token
        self._opener = build_opener(_NoRedirects)

    def search_names(
        self, text: str, kind: Literal["entity", "relation"] | None = None, limit: int = 10
    ) -> dict[str, Any]:
        """Names of entities and relations with a text in them, else the nearest ones; the most frequent first."""
        return self._get("names", q=text, kind=kind, limit=limit)

    def forecast(
        self,
        subject: str | None = None,
        relation: str | None = None,
        object: str | None = None,
        at: Time = None,
        by: Time = None,
        top: int = 10,
    ) -> dict[str, Any]:
        """Who or what completes a fact, with chances: what is left out, subject, relation or object, is asked for.

        With all three, the chance that the fact happens. The time is at (by default the next usual one), or by: at
        least once until then.
        """
        return self._answers(subject, relation, object, at, by, top, why=False)

    def facts(
        self,
        entity: str | None = None,
        other: str | None = None,
        relation: str | None = None,
        since: Time = None,
        until: Time = None,
        limit: int = 50,
    ) -> dict[str, Any]:
        """Known facts of an entity, or of two, by relation and span of time; the latest first."""
        response = self._get(
            "facts", entity=entity, other=other, relation=relation, since=since, until=until, limit=limit
        )
        return {"facts": response["facts"], "total": response["total"]}

    def reasons(
        self,
        subject: str | None = None,
        relation: str | None = None,
        object: str | None = None,
        at: Time = None,
        by: Time = None,
    ) -> dict[str, Any]:
        """The earlier facts that speak for the first three answers of a forecast; the question is as in forecast."""
        return self._answers(subject, relation, object, at, by, 3, why=True)

    def _answers(
        self, subject: str | None, relation: str | None, object: str | None, at: Time, by: Time, top: int, why: bool
    ) -> dict[str, Any]:
        question = {"subject": subject, "relation": relation, "object": object, "at": at, "by": by}
        response = self._ask("forecast", json.dumps(question | {"top": top, "why": why}).encode())
        answers = [
            {
                "name": answer["name"],
                "chance": answer["chance"],
                "share": answer["share"],
                "seen before": answer["seen"]["count"],
                "last seen": answer["seen"]["last"],
            }
            | ({"reasons": [reason["sentence"] for reason in answer.get("why", ())]} if why else {})
            for answer in response["answers"]
        ]
        result = {"question": response["question"], "chance of any": response["any"], "answers": answers}
        return result | ({"warnings": response["warnings"]} if response["warnings"] else {})

    def _get(self, path: str, **options: str | float | None) -> dict[str, Any]:
        return self._ask(f"{path}?{urlencode({name: value for name, value in options.items() if value is not None})}")

    def _ask(self, path: str, body: bytes | None = None) -> dict[str, Any]:
        """The JSON of an answer; error messages say what the assistant's user can do."""
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        try:
            with self._opener.open(Request(f"{self._url}/api/v1/{path}", body, headers), timeout=SECONDS) as answer:
                result: dict[str, Any] = json.load(answer)
                return result
        except HTTPError as error:
            raise ToolError(self._refused(error)) from None
        except ValueError:
            raise ToolError(f"what answers at {self._url} is not a service of tangokg.") from None
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", None) or error or type(error).__name__
            raise ToolError(
                f"no service answers at {self._url} ({reason}). Start it with `tango serve RUN`, or correct this."
            ) from None

    def _refused(self, error: HTTPError) -> str:
        """The error message of a refused request."""
        if error.code == 401:
            return f"the service at {self._url} needs a token: set {READ}, or give --token-file."
        try:
            details: Mapping[str, str] = json.loads(error.read())["error"]
            return f"{details['message']} {details.get('hint', '')}".strip()
        except (ValueError, LookupError, TypeError, OSError):
            return f"{self._url} answered with status {error.code}: this is not a service of tangokg."


class _NoRedirects(HTTPRedirectHandler):
    """Refuses redirects, so that a token is sent only to its own service."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


def _checked(url: str) -> str:
    """A checked address of a service, without a trailing slash."""
    try:
        parts = urlsplit(url)
        named = parts.scheme in ("http", "https") and parts.hostname and not parts.query and not parts.fragment
    except ValueError:
        named = False
    if not named:
        raise ConfigError(f"{url!r} is not the address of a service: expected one such as http://127.0.0.1:8765.")
    if parts.username or parts.password:
        raise ConfigError(f"an address has no password: give the token by {READ} or --token-file.")
    return url.rstrip("/")
