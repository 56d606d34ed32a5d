"""What the routes take from the application: open services, workers, metrics and access, never a global."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from fastapi import Depends, Header, Request
from fastapi.security import APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer

from api.access import Access, Caller
from api.conversing import Conversations
from api.host import Host
from api.limits import RateLimiter, Standings, check_rate
from api.middleware import ELEVENLABS_KEY, Metrics
from api.services import Services
from api.settings import Settings
from api.work import Workers
from store.key_types import ADMIN as ADMIN_SCOPE
from store.key_types import ENROL as ENROL_SCOPE
from store.key_types import SPEAK as SPEAK_SCOPE
from store.key_types import KeyLook

_BEARER = HTTPBearer(auto_error=False, description="A configured key, or one that `POST /v1/admin/keys` made.")
_ELEVENLABS = APIKeyHeader(name=ELEVENLABS_KEY, auto_error=False, description="The same, by ElevenLabs' clients.")


@dataclass(frozen=True, slots=True)
class Context:
    """The parts of one application."""

    settings: Settings
    host: Host
    access: Access
    metrics: Metrics
    rates: RateLimiter
    conversations: Conversations
    speech: Workers
    enrolment: Workers
    queries: Workers
    files: Workers

    @classmethod
    def of(cls, host: Host) -> "Context":
        settings, metrics = host.settings, Metrics()
        return cls(
            settings=settings,
            host=host,
            access=Access(settings),
            metrics=metrics,
            rates=RateLimiter(settings.rate_storage.get_secret_value(), metrics.rate_faults.inc),
            conversations=Conversations(settings.max_conversations, metrics.conversations),
            # A thread for each place, also for those beyond the limit that keep a crowd from shutting others out.
            speech=Workers(2 * settings.max_requests, settings.max_requests),
            enrolment=Workers(2, settings.max_requests),
            queries=Workers(8, settings.max_requests * 4),
            files=Workers(4, settings.max_requests),
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


def key_of(headers: Mapping[str, str]) -> str | None:
    """The same, where no dependency reads it."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else headers.get(ELEVENLABS_KEY)


async def _standings(request: Request) -> Standings:
    """Where this request's limits are noted; what is noted stands in the reply's headers."""
    standings: Standings = request.state.standings
    return standings


StandingsDep = Annotated[Standings, Depends(_standings)]


async def _caller(context: ContextDep, key: Annotated[str | None, Depends(_key)], standings: StandingsDep) -> Caller:
    return await caller_of(context, key, standings)


async def caller_of(context: Context, key: str | None, standings: Standings) -> Caller:
    """The caller by its key; counts a request of it. Raises: AccessRefused, RateLimited, NotReady, StoreError."""
    configured = context.access.configured(key)
    if configured is not None:
        return configured
    return await context.queries.run(partial(_stored_caller, context, key, standings))


def _stored_caller(context: Context, key: str | None, standings: Standings) -> Caller:
    def look_up(secret: str | None) -> KeyLook:
        return context.host.services.store.look_up_key(secret)

    caller = context.access.caller(key, look_up)
    if caller.key is not None:
        context.host.services.keys.add(caller.key.id)
        check_rate(context.rates, caller.key, standings)
    return caller


CallerDep = Annotated[Caller, Depends(_caller)]


@dataclass(frozen=True)
class Needs:
    """Lets callers in that have one of the scopes; which ones stands in the OpenAPI document."""

    scopes: frozenset[str]

    async def __call__(self, context: ContextDep, caller: CallerDep) -> None:
        context.access.check(caller, self.scopes)


async def _services(context: ContextDep, caller: CallerDep, standings: StandingsDep) -> Services:
    return context.host.check_ready().seen_by(caller, standings)


def _reuse(cache_control: Annotated[str, Header(description="no-cache: speak anew, and keep nothing.")] = "") -> bool:
    """Source: RFC 9111, section 5.2.1, no-cache and no-store of a request."""
    return not {"no-cache", "no-store"} & {directive.strip().lower() for directive in cache_control.split(",")}


def _needs(*scopes: str) -> Any:
    return Depends(Needs(frozenset(scopes)))


SPEAK, ENROL, ADMIN = _needs(SPEAK_SCOPE), _needs(ENROL_SCOPE), _needs(ADMIN_SCOPE)
# What reads and compares: any client's key.
CLIENT = _needs(SPEAK_SCOPE, ENROL_SCOPE)
ServicesDep = Annotated[Services, Depends(_services)]
ReuseDep = Annotated[bool, Depends(_reuse)]
