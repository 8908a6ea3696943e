"""The addresses that only read: health, card, names, forecasts, curves, facts, neighbourhoods."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse

from tangokg.serve import looking, responses, schemas
from tangokg.serve.failures import Refused
from tangokg.serve.service import Service

Text = Annotated[str | None, Query(min_length=1, max_length=500)]
Moment = Annotated[str | None, Query(min_length=1, max_length=40)]
STEP = 0.5  # seconds; an event may pass between two looks
RESPONSES: dict[int | str, dict[str, Any]] = {
    400: {"model": responses.Failed, "description": "the request cannot be answered: the message says why"},
    401: {"model": responses.Failed, "description": "a token is missing or wrong"},
    403: {
        "model": responses.Failed,
        "description": "the token does not permit this, or the request comes from another site",
    },
    404: {"model": responses.Failed, "description": "a name is unknown; the hint has the nearest"},
    409: {"model": responses.Failed, "description": "the journal does not fit the request"},
    413: {"model": responses.Failed, "description": "the request is too large"},
    415: {"model": responses.Failed, "description": "the body is not JSON"},
    422: {"model": responses.Failed, "description": "the body or a parameter has another form"},
    429: {"model": responses.Failed, "description": "too many requests; Retry-After says when to try again"},
}


def telling(model: type[responses.ResponseModel]) -> dict[str, Any]:
    """Document the response model of an address in OpenAPI; the answer itself is sent unchecked."""
    return {"response_model": None, "responses": {200: {"model": model}}}


def reading(service: Service) -> APIRouter:
    """The routes, for one service."""
    router = APIRouter(prefix="/api/v1", responses=RESPONSES)

    @router.get("/health", **telling(responses.Health))
    async def health() -> dict[str, Any]:
        return service.health()

    @router.get("/names", **telling(responses.Names))
    def names(
        q: Annotated[str, Query(max_length=200)] = "",
        kind: Literal["entity", "relation"] | None = None,
        limit: Annotated[int, Query(ge=1, le=200)] = 10,
    ) -> dict[str, Any]:
        return {"position": service.names.position, "names": service.names.find(q, kind, limit)}

    @router.post("/forecast", **telling(responses.Forecast))
    async def forecast(question: schemas.Question) -> Any:
        return JSONResponse((await _ask(service, [question]))[0])  # it is JSON: nothing to convert

    @router.post("/forecasts", **telling(responses.Forecasts))
    async def forecasts(request: schemas.Questions) -> dict[str, Any]:
        answers = await _ask(service, request.questions)
        return {"position": min(answer["position"] for answer in answers), "forecasts": answers}

    @router.post("/compare", **telling(responses.Compared))
    async def compare(question: schemas.Question) -> dict[str, Any]:
        await wait_for_position(service, question.min_position or 0)
        first, second = await asyncio.gather(
            *map(asyncio.wrap_future, await asyncio.to_thread(service.compare, question))
        )
        card = service.card()
        known = [answer["forecast"]["position"] for answer in ({"forecast": first}, second) if "forecast" in answer]
        runs = [_named(card, {"forecast": first}), _named(card["beside"], second)]
        return {"position": min(known), "runs": runs}

    @router.get("/likely", **telling(responses.Likely))
    async def likely(at: Moment = None, top: Annotated[int, Query(ge=1, le=100)] = 20) -> dict[str, Any]:
        return await asyncio.wrap_future(service.likely(at, top))

    @router.post("/curve", **telling(responses.ChanceCurve))
    async def curve(request: schemas.Curve) -> dict[str, Any]:
        return await asyncio.wrap_future(await asyncio.to_thread(service.curve, request))

    @router.get("/facts", **telling(responses.KnownFacts))
    def facts(
        entity: Text = None,
        other: Text = None,
        relation: Text = None,
        since: Moment = None,
        until: Moment = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> dict[str, Any]:
        state = service.state
        state.check_names(entity, relation, other)
        first, second = (other, None) if entity is None else (entity, other)
        return looking.find_facts(state, first, second, relation, since, until, limit)

    @router.get("/neighbourhood", **telling(responses.Neighbourhood))
    def neighbourhood(
        entity: Annotated[str, Query(min_length=1, max_length=500)],
        limit: Annotated[int, Query(ge=1, le=200)] = 12,
    ) -> dict[str, Any]:
        state = service.state
        state.check_names(entity, None, None)
        return looking.neighbourhood(state, entity, limit)

    return router


def _named(card: dict[str, Any], outcome: dict[str, Any]) -> dict[str, Any]:
    return {"run": card["run"], "model": card["model"], "forecast": None, "error": None} | outcome


async def _ask(service: Service, questions: Sequence[schemas.Question]) -> list[Any]:
    await wait_for_position(service, max((q.min_position or 0 for q in questions), default=0))
    futures = await asyncio.to_thread(
        service.ask, questions
    )  # to look for the nearest of an unknown name takes a while
    return await asyncio.gather(*map(asyncio.wrap_future, futures))


async def wait_for_position(service: Service, position: int) -> None:
    """Wait until the journal has reached a position; raise an error after too long."""
    end = time.monotonic() + service.settings.wait
    while service.state.position < position:
        remaining = end - time.monotonic()
        if remaining <= 0:
            raise Refused(409, f"the journal is at position {service.state.position}, before {position}.", "Try again.")
        await service.hub.next_event(min(remaining, STEP))
