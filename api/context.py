"""What the routes take from the application: open services, workers, metrics and access, never a global."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Header, Request
from fastapi.security import APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer

from api.access import Access
from api.host import Host
from api.middleware import ELEVENLABS_KEY, Metrics
from api.services import Services
from api.settings import Settings
from api.work import Workers

_BEARER = HTTPBearer(auto_error=False, description="One of VOICEKIN_API_KEYS; admin routes take VOICEKIN_ADMIN_KEY.")


_ELEVENLABS = APIKeyHeader(name=ELEVENLABS_KEY, auto_error=False, description="The same, by ElevenLabs' clients.")


@dataclass(frozen=True, slots=True)
class Context:
    """The parts of one application."""

    settings: Settings
    host: Host
    access: Access
    metrics: Metrics
    speech: Workers
    enrolment: Workers
    queries: Workers

    @classmethod
    def of(cls, host: Host) -> "Context":
        settings = host.settings
        return cls(
            settings=settings,
            host=host,
            access=Access(settings),
            metrics=Metrics(),
            speech=Workers(settings.max_requests, settings.max_requests),
            enrolment=Workers(2, settings.max_requests),
            queries=Workers(8, settings.max_requests * 4),
        )


def _context(request: Request) -> Context:
    context: Context = request.app.state.context
    return context


ContextDep = Annotated[Context, Depends(_context)]


def _key(
    bearer: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)],
    elevenlabs: Annotated[str | None, Depends(_ELEVENLABS)],
) -> str | None:
    """The key of a request, wherever its client sends it."""
    return bearer.credentials if bearer else elevenlabs


_Key = Annotated[str | None, Depends(_key)]


def _client(context: ContextDep, key: _Key) -> None:
    context.access.check_client(key)


def _admin(context: ContextDep, key: _Key) -> None:
    context.access.check_admin(key)


def _services(context: ContextDep) -> Services:
    return context.host.check_ready()


def _reuse(cache_control: Annotated[str, Header(description="no-cache: speak anew, and keep nothing.")] = "") -> bool:
    """Source: RFC 9111, section 5.2.1, no-cache and no-store of a request."""
    return not {"no-cache", "no-store"} & {directive.strip().lower() for directive in cache_control.split(",")}


CLIENT = Depends(_client)
ADMIN = Depends(_admin)
ServicesDep = Annotated[Services, Depends(_services)]
ReuseDep = Annotated[bool, Depends(_reuse)]
