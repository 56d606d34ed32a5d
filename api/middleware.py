"""What every request passes: its id, its path made plain, a cap on its body, its metrics, its errors."""

import logging
import re
import time
import uuid
from collections.abc import Awaitable, Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api import problems
from api.errors import TooLarge
from api.limits import Standings
from api.rendering import Part
from api.settings import Settings

logger = logging.getLogger("voicekin")
REQUEST_ID = "X-Request-ID"
ELEVENLABS_KEY = "xi-api-key"
MAX_JSON_BYTES = 2**20
# The longest way in which JSON writes a character: two escapes of a surrogate each.
_ESCAPED_BYTES = 12
_JOBS = "/v1/jobs"
_ELEVENLABS = ("/v1/text-to-speech/", "/v1/voices", "/v2/voices", "/v1/similar-voices")
_SANE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_DOUBLED = re.compile(r"^/v1(?:/v1)+(?=/|$)")


class Metrics:
    """The counters of one server, with labels that nobody outside can multiply."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "voicekin_requests", "Requests answered", ["method", "route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "voicekin_request_seconds", "Time until a request was answered", ["route"], registry=self.registry
        )
        self.under_way = Gauge("voicekin_requests_under_way", "Requests being answered", registry=self.registry)
        self.cancelled = Counter("voicekin_cancelled", "Requests whose client went away", registry=self.registry)
        self.audio_s = Counter("voicekin_audio_seconds", "Seconds of speech sent", registry=self.registry)
        self.conversations = Gauge("voicekin_conversations", "Conversations under way", registry=self.registry)
        self.utterances = Counter(
            "voicekin_utterances", "Texts of conversations by how they ended", ["outcome"], registry=self.registry
        )
        self.enrolled = Counter("voicekin_enrolled", "Speakers enrolled", registry=self.registry)
        self.rate_faults = Counter(
            "voicekin_rate_storage_faults", "Times that the shared count of requests failed", registry=self.registry
        )
        self.cache = Counter(
            "voicekin_audio_cache", "Speeches that were kept, made, or shared", ["source"], registry=self.registry
        )

    def count(self, part: Part) -> None:
        """Notes audio that is sent, and where it came from."""
        self.audio_s.inc(part.duration_s)
        if "cache" in part.facts:
            self.cache.labels(part.facts["cache"]).inc()


class Gateway:
    """The outermost layer of the application."""

    def __init__(self, app: ASGIApp, metrics: Metrics, settings: Settings) -> None:
        self._app = app
        self._metrics = metrics
        self._max_upload_bytes = settings.max_upload_bytes
        self._max_job_bytes = max(MAX_JSON_BYTES, settings.job_max_chars * _ESCAPED_BYTES + MAX_JSON_BYTES // 4)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope = _plain_scope(scope)
        exchange = _Exchange(scope["state"]["request_id"], scope["state"]["standings"], send)
        started = time.monotonic()
        with self._metrics.under_way.track_inprogress():
            await self._answer(scope, receive, exchange)
        self._count(scope, exchange.status, time.monotonic() - started)

    async def _answer(self, scope: Scope, receive: Receive, exchange: "_Exchange") -> None:
        request = Request(scope)
        try:
            limit = self._limit(request)
            _check_length(request, limit)
            await self._app(scope, _capped(receive, limit), exchange.send)
        except TooLarge as error:
            await error_response(request, problems.describe(error))(scope, receive, exchange.send)
        except ClientDisconnect:
            self._metrics.cancelled.inc()
        except Exception:
            logger.exception("request %s failed", exchange.request_id)
            if exchange.status:
                # The reply has begun: only a broken connection can still say that it is not whole.
                raise
            await error_response(request, problems.internal())(scope, receive, exchange.send)

    def _limit(self, request: Request) -> int:
        is_upload = request.headers.get("content-type", "").startswith("multipart/")
        if is_upload:
            return self._max_upload_bytes
        return self._max_job_bytes if request.url.path == _JOBS else MAX_JSON_BYTES

    def _count(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "other")
        method = scope["method"] if scope["method"] in {"GET", "POST", "PATCH", "DELETE", "OPTIONS"} else "other"
        self._metrics.requests.labels(method, route, str(status)).inc()
        self._metrics.seconds.labels(route).observe(seconds)


class _Exchange:
    """One reply: remembers its status and puts the request id on it, and how its caller stands with its limits."""

    def __init__(self, request_id: str, standings: Standings, send: Send) -> None:
        self.request_id = request_id
        self._standings = standings
        self.status = 0
        self._send = send

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            ours = {REQUEST_ID: self.request_id, **self._standings.headers()}
            headers = [(name.lower().encode(), value.encode()) for name, value in ours.items()]
            message = {**message, "headers": [*message.get("headers", []), *headers]}
        await self._send(message)


def error_response(request: Request, problem: problems.Problem) -> JSONResponse:
    """The problem in the envelope of its route."""
    path = request.url.path
    if path.startswith(_ELEVENLABS) or (path.startswith("/v1/models") and is_elevenlabs(request)):
        document = problems.elevenlabs_document(problem, request.state.request_id)
        return JSONResponse(document, problem.status, problem.headers)
    if path.startswith(("/v1/audio/", "/v1/models")):
        return JSONResponse(problems.openai_document(problem), problems.openai_status(problem), problem.headers)
    body = problems.document(problem, request.state.request_id)
    return JSONResponse(body, problem.status, problem.headers, media_type=problems.MEDIA_TYPE)


def is_elevenlabs(request: Request) -> bool:
    """Whether a client of ElevenLabs' asks, where a path is served in two shapes."""
    return ELEVENLABS_KEY in request.headers


def _plain_scope(scope: Scope) -> Scope:
    """The scope with a request id; a doubled /v1, a last slash and HEAD are read as what they mean."""
    headers = dict(scope["headers"])
    asked = headers.get(REQUEST_ID.lower().encode(), b"").decode("latin-1")
    request_id = asked if _SANE_ID.fullmatch(asked) else uuid.uuid4().hex
    path = _DOUBLED.sub("/v1", scope["path"])
    path = path.rstrip("/") or "/"
    # The server drops the body of a reply to HEAD by itself.
    method = "GET" if scope["method"] == "HEAD" else scope["method"]
    state = {**scope.get("state", {}), "request_id": request_id, "asked_path": scope["path"], "standings": Standings()}
    return {**scope, "path": path, "raw_path": path.encode(), "method": method, "state": state}


def _check_length(request: Request, limit: int) -> None:
    length = request.headers.get("content-length", "0")
    if length.isdigit() and int(length) > limit:
        raise _too_large(limit)


def _capped(receive: Receive, limit: int) -> Callable[[], Awaitable[Message]]:
    n_bytes = 0

    async def capped() -> Message:
        nonlocal n_bytes
        message = await receive()
        n_bytes += len(message.get("body", b""))
        if n_bytes > limit:
            raise _too_large(limit)
        return message

    return capped


def _too_large(limit: int) -> TooLarge:
    return TooLarge(
        "too_large", f"the body is larger than the limit of {limit} bytes; send less at once", limit_bytes=limit
    )
