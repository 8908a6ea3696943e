"""The service as an ASGI application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Security
from fastapi.security import HTTPBearer

from tangokg.serve.fact_routes import facts
from tangokg.serve.failures import add_handlers
from tangokg.serve.guard import Guard
from tangokg.serve.pages import page_router
from tangokg.serve.routes import reading
from tangokg.serve.service import Service

BEARER = HTTPBearer(
    auto_error=False, description="where the service needs one"
)  # documentation only; the guard does the check


def create_app(service: Service) -> FastAPI:
    """All addresses of a service; it starts and stops with the application."""

    @asynccontextmanager
    async def living(_: FastAPI) -> AsyncIterator[None]:
        service.hub.open()
        service.start()
        yield
        service.hub.close()
        service.stop()

    app = FastAPI(
        title="tangokg",
        version=service.settings.version or "0",
        summary="Forecasts on a temporal knowledge graph",
        openapi_url="/api/v1/openapi.json",
        docs_url=None,  # it would load scripts from elsewhere
        redoc_url=None,
        lifespan=living,
    )
    add_handlers(app)
    for router in (reading(service), facts(service)):
        app.include_router(router, dependencies=[Security(BEARER)])
    app.include_router(page_router())
    service.gauges.watch(app)
    app.add_middleware(Guard, settings=service.settings)
    return app
