"""Every failure as the JSON ``{"error": {"message", "hint"}}``, without paths, tracebacks or host names."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from tangokg.errors import TangoError, offer
from tangokg.serve.state import NameUnknown

logger = logging.getLogger("tangokg.serve")
SHOWN = 5  # mistakes of one request


class Refused(Exception):
    """A request that is refused with a specific status."""

    def __init__(self, status: int, message: str, hint: str = "", headers: dict[str, str] | None = None) -> None:
        self.status, self.message, self.hint, self.headers = status, message, hint, headers
        super().__init__(message)


def problem(status: int, message: str, hint: str = "", headers: dict[str, str] | None = None) -> JSONResponse:
    error = {"message": message} | ({"hint": hint} if hint else {})
    return JSONResponse({"error": error}, status, headers)


def unexpected(error: Exception) -> JSONResponse:
    """The answer to an internal error; its details go to the log only."""
    logger.error("unexpected %s", type(error).__name__, exc_info=error)
    return problem(500, "internal error; the log of the service has the details.")


def add_handlers(app: FastAPI) -> None:
    """Map each kind of failure to its status; the guard answers unexpected errors."""

    @app.exception_handler(Refused)
    async def _refused(_: Request, error: Refused) -> JSONResponse:
        return problem(error.status, error.message, error.hint, error.headers)

    @app.exception_handler(NameUnknown)
    async def _unknown(_: Request, error: NameUnknown) -> JSONResponse:
        return problem(404, f"{error}.", offer(map(repr, error.nearest)).strip())

    @app.exception_handler(TangoError)
    async def _ours(_: Request, error: TangoError) -> JSONResponse:
        return problem(400, str(error))

    @app.exception_handler(RequestValidationError)
    async def _invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        return problem(422, "; ".join(map(_mistake, error.errors()[:SHOWN])), "The form of requests: openapi.json")

    @app.exception_handler(HTTPException)
    async def _http(_: Request, error: HTTPException) -> JSONResponse:
        hint = "Addresses and methods: /api/v1/openapi.json" if error.status_code in (404, 405) else ""
        return problem(error.status_code, str(error.detail), hint, headers=dict(error.headers or {}))


def _mistake(error: Any) -> str:
    """``facts.0.at: Field required``."""
    if error["type"] == "json_invalid":
        return f"the body is not valid JSON: {error['ctx']['error']} (character {error['loc'][-1]})"
    place = ".".join(str(part) for part in error["loc"] if part != "body")
    return f"{place}: {error['msg']}" if place else str(error["msg"])
