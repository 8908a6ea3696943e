"""The addresses for new facts: posting them, the track record, surprises, events as they happen, and metrics."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from tangokg.serve import responses, schemas
from tangokg.serve.failures import Refused
from tangokg.serve.guard import may_write
from tangokg.serve.routes import RESPONSES, telling
from tangokg.serve.service import Service

LISTENERS = 100  # streams of events at once
Key = Annotated[str | None, Header(min_length=1, max_length=200, description="the same key: the same answer again")]


def facts(service: Service) -> APIRouter:
    """The routes, for one service."""
    router = APIRouter(responses=RESPONSES)

    @router.post("/api/v1/facts", **telling(responses.Posted))
    async def post(posted: schemas.Facts, idempotency_key: Key = None) -> dict[str, Any]:
        return await asyncio.wrap_future(service.post(posted.facts, idempotency_key))

    @router.get("/api/v1/record", **telling(responses.Record))
    def record() -> dict[str, Any]:
        return service.record()

    @router.get("/api/v1/surprises", **telling(responses.Surprises))
    def surprises(limit: Annotated[int, Query(ge=1, le=200)] = 20) -> dict[str, Any]:
        return service.surprises(limit)

    @router.get("/api/v1/model", **telling(responses.Model))
    def model(request: Request) -> dict[str, Any]:
        return service.card() | {"write": may_write(request.scope, service.settings)}

    @router.get("/api/v1/events", include_in_schema=False)
    async def events() -> StreamingResponse:
        if service.hub.listeners >= LISTENERS:
            raise Refused(429, "too many listeners.", headers={"Retry-After": "60"})
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(service.hub.listen(), media_type="text/event-stream", headers=headers)

    @router.get("/metrics", include_in_schema=False)
    def metrics() -> Response:
        return Response(generate_latest(service.gauges.registry), media_type=CONTENT_TYPE_LATEST)

    return router
