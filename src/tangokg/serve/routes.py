"""The addresses that read: health, card, names, forecasts, curves, facts, neighbourhoods."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query

from tangokg.serve import looking, schemas, told
from tangokg.serve.failures import Refused
from tangokg.serve.service import Service

Text = Annotated[str | None, Query(min_length=1, max_length=500)]
Moment = Annotated[str | None, Query(min_length=1, max_length=40)]
STEP = 0.5  # seconds; an event may pass between two looks
RESPONSES: dict[int | str, dict[str, Any]] = {
    400: {"model": told.Failed, "description": "the request cannot be answered: the message says why"},
    401: {"model": told.Failed, "description": "a token is missing or wrong"},
    403: {
        "model": told.Failed,
        "description": "the token does not permit this, or the request comes from another site",
    },
    404: {"model": told.Failed, "description": "a name is unknown; the hint has the nearest"},
    409: {"model": told.Failed, "description": "the journal does not fit the request"},
    413: {"model": told.Failed, "description": "the request is too large"},
    415: {"model": told.Failed, "description": "the body is not JSON"},
    422: {"model": told.Failed, "description": "the body or a parameter has another form"},
    429: {"model": told.Failed, "description": "too many requests; Retry-After says when to try again"},
}


def telling(model: type[told.Told]) -> dict[str, Any]:
    """Name what an address answers in the OpenAPI document; the answer itself is sent as it is, unchecked."""
    return {"response_model": None, "responses": {200: {"model": model}}}


def reading(service: Service) -> APIRouter:
    """All of them, for one service."""
    router = APIRouter(prefix="/api/v1", responses=RESPONSES)

    @router.get("/health", **telling(told.Health))
    async def health() -> dict[str, Any]:
        return service.health()

    @router.get("/names", **telling(told.Names))
    def names(
        q: Annotated[str, Query(max_length=200)] = "",
        kind: Literal["entity", "relation"] | None = None,
        limit: Annotated[int, Query(ge=1, le=200)] = 10,
    ) -> dict[str, Any]:
        return {"position": service.names.position, "names": service.names.find(q, kind, limit)}

    @router.post("/forecast", **telling(told.Forecast))
    async def forecast(question: schemas.Question) -> Any:
        return (await _ask(service, [question]))[0]

    @router.post("/forecasts", **telling(told.Forecasts))
    async def forecasts(asked: schemas.Questions) -> dict[str, Any]:
        found = await _ask(service, asked.questions)
        return {"position": min(one["position"] for one in found), "forecasts": found}

    @router.post("/compare", **telling(told.Compared))
    async def compare(question: schemas.Question) -> dict[str, Any]:
        await wait_for_position(service, question.min_position or 0)
        first, second = await asyncio.gather(
            *map(asyncio.wrap_future, await asyncio.to_thread(service.compare, question))
        )
        card = service.card()
        known = [one["forecast"]["position"] for one in ({"forecast": first}, second) if "forecast" in one]
        runs = [_named(card, {"forecast": first}), _named(card["beside"], second)]
        return {"position": min(known), "runs": runs}

    @router.get("/likely", **telling(told.Likely))
    async def likely(at: Moment = None, top: Annotated[int, Query(ge=1, le=100)] = 20) -> dict[str, Any]:
        return await asyncio.wrap_future(service.likely(at, top))

    @router.post("/curve", **telling(told.ChanceCurve))
    async def curve(asked: schemas.Curve) -> dict[str, Any]:
        return await asyncio.wrap_future(await asyncio.to_thread(service.curve, asked))

    @router.get("/facts", **telling(told.KnownFacts))
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

    @router.get("/neighbourhood", **telling(told.Neighbourhood))
    def neighbourhood(
        entity: Annotated[str, Query(min_length=1, max_length=500)],
        limit: Annotated[int, Query(ge=1, le=200)] = 12,
    ) -> dict[str, Any]:
        state = service.state
        state.check_names(entity, None, None)
        return looking.neighbourhood(state, entity, limit)

    return router


def _named(card: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    return {"run": card["run"], "model": card["model"], "forecast": None, "error": None} | found


async def _ask(service: Service, questions: Sequence[schemas.Question]) -> list[Any]:
    await wait_for_position(service, max((q.min_position or 0 for q in questions), default=0))
    futures = await asyncio.to_thread(
        service.ask, questions
    )  # to look for the nearest of an unknown name takes a while
    return await asyncio.gather(*map(asyncio.wrap_future, futures))


async def wait_for_position(service: Service, position: int) -> None:
    """Until the journal is so far; an error where it takes too long."""
    end = time.monotonic() + service.settings.wait
    while service.state.position < position:
        left = end - time.monotonic()
        if left <= 0:
            raise Refused(409, f"the journal is at position {service.state.position}, before {position}.", "Try again.")
        await service.hub.next_event(min(left, STEP))
