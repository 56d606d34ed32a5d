"""The FastAPI application around a host."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from fastapi_offline import FastAPIOffline
from starlette.exceptions import HTTPException
from starlette.responses import Response

from api import problems
from api.context import Context
from api.host import Host
from api.jobs_metrics import JobCollector
from api.middleware import ELEVENLABS_KEY, REQUEST_ID, Gateway, error_response
from api.routes import (
    admin,
    consents,
    console,
    conversations,
    elevenlabs,
    health,
    jobs,
    keys,
    openai,
    openai_voices,
    speakers,
    speech,
)
from api.routes.documented import say_scopes
from api.settings import Settings

_EXPOSED = [
    REQUEST_ID,
    "Retry-After",
    "RateLimit",
    "RateLimit-Policy",
    *(f"X-Voicekin-{name}" for name in ("Audio-Seconds", "Seed", "Model", "Cosine", "Notices", "Cache")),
]


def create_app(settings: Settings) -> FastAPI:
    """The application; nothing is opened before its lifespan starts."""
    host = Host(settings)
    context = Context.of(host)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        host.start()
        try:
            yield
        finally:
            await host.stop()

    # Its /docs loads everything from this server: on a machine without a network it is not a blank page.
    app = FastAPIOffline(
        redoc_url=None,
        static_url="/docs-assets",
        title="Voicekin",
        version=version("voicekin"),
        description="Enrol a speaker from seconds of speech, then speak any text with its speaker_id.",
        lifespan=lifespan,
    )
    app.state.context = context
    context.metrics.registry.register(JobCollector(host.job_figures))
    modules = (
        speakers,
        speech,
        conversations,
        jobs,
        consents,
        openai,
        openai_voices,
        elevenlabs,
        admin,
        keys,
        health,
        console,
    )
    routers = [*(module.router for module in modules), consents.protected]
    for router in routers:
        app.include_router(router)
    say_scopes(app, routers)
    _add_error_handlers(app)
    app.add_middleware(Gateway, metrics=context.metrics, settings=settings)
    if origins := settings.origins():
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["GET", "POST", "PATCH", "DELETE"],
            allow_headers=["Authorization", "Content-Type", REQUEST_ID, ELEVENLABS_KEY],
            expose_headers=_EXPOSED,
        )
    return app


def _add_error_handlers(app: FastAPI) -> None:
    for root in problems.ROOTS:
        app.add_exception_handler(root, _room_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)


async def _room_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, problems.ROOTS)
    return error_response(request, problems.describe(error))


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return error_response(request, problems.invalid(list(error.errors()), error.body))


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    # A cap that is passed while the body is read arrives here wrapped by the framework.
    if isinstance(error.__cause__, problems.ROOTS):
        return await _room_error(request, error.__cause__)
    response = error_response(request, problems.of_status(error.status_code, str(error.detail)))
    response.headers.update(error.headers or {})
    return response
