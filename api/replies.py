"""Speech as an HTTP reply: whole, or in pieces while it is spoken."""

import base64
import json
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from urllib.parse import quote

import anyio
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from api import problems
from api.audio_out import AudioFormat
from api.context import Context
from api.rendering import Part, RenderedStream
from api.services import Services
from api.speech import SpeechOrder

logger = logging.getLogger("voicekin")
# A proxy must hand the audio on as it comes, and nobody may keep it.
_STREAM_HEADERS = {"X-Accel-Buffering": "no", "Cache-Control": "no-store"}


async def whole(
    request: Request, context: Context, services: Services, order: SpeechOrder, audio_format: AudioFormat
) -> Response:
    """The finished speech, with what is known about it in the headers."""

    def work(unwanted: Callable[[], bool]) -> Part:
        return services.rendering.whole(order, audio_format, unwanted)

    with context.speech.place():
        found = await context.speech.run_unless_gone(request, work)
    context.metrics.count(found)
    headers = {**_headers(found.facts), "Cache-Control": "no-store"}
    return Response(found.data, headers=headers, media_type=audio_format.media_type)


async def streamed(
    context: Context, services: Services, order: SpeechOrder, audio_format: AudioFormat, as_events: bool = False
) -> Response:
    """The speech while it is spoken. The first piece exists before the headers are sent."""
    flow = await _Flow.open(context, services, order, audio_format)
    headers = {**_headers(flow.spoken.facts), **_STREAM_HEADERS}
    if as_events:
        return _FlowResponse(flow, _events(flow, len(order.text)), headers, "text/event-stream")
    return _FlowResponse(flow, flow.chunks(), headers, audio_format.media_type)


@dataclass(frozen=True, slots=True)
class _Flow:
    """A speech under way and everything that must be given back at its end."""

    context: Context
    spoken: RenderedStream
    release: ExitStack

    @classmethod
    async def open(cls, context: Context, services: Services, order: SpeechOrder, audio_format: AudioFormat) -> "_Flow":
        with ExitStack() as stack:
            stack.enter_context(context.speech.place())
            spoken = await context.speech.run(partial(services.rendering.stream, order, audio_format))
            stack.callback(spoken.close)
            return cls(context, spoken, stack.pop_all())

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        while part := await self.context.speech.run(partial(next, self.spoken.parts, None)):
            self.context.metrics.count(part)
            if part.data:
                yield part.data

    async def close(self) -> None:
        with anyio.CancelScope(shield=True):
            await self.context.queries.run(self.release.close)


class _FlowResponse(StreamingResponse):
    """Sends a flow; gives it back however the sending ends, and ends it when nobody reads."""

    def __init__(
        self, flow: _Flow, body: AsyncGenerator[bytes, None], headers: Mapping[str, str], media_type: str
    ) -> None:
        super().__init__(body, headers=headers, media_type=media_type)
        self._flow = flow
        self._finished = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            if not self._finished:
                self._flow.context.metrics.cancelled.inc()
            await self._flow.close()

    async def stream_response(self, send: Send) -> None:
        timeout_s = self._flow.context.settings.send_timeout_s

        async def timed(message: Message) -> None:
            with anyio.fail_after(timeout_s):
                await send(message)

        await super().stream_response(timed)
        self._finished = True


async def _events(flow: _Flow, n_chars: int) -> AsyncGenerator[bytes, None]:
    n_chunks = 0
    try:
        async for chunk in flow.chunks():
            n_chunks += 1
            yield _event({"type": "speech.audio.delta", "audio": base64.b64encode(chunk).decode("ascii")})
    except problems.ROOTS as error:
        logger.warning("a stream of events ended early (%s): %s", error.code, error.message)
        yield _event({"type": "error", **problems.openai_document(problems.describe(error))})
        return
    usage = {"input_tokens": n_chars, "output_tokens": n_chunks, "total_tokens": n_chars + n_chunks}
    yield _event({"type": "speech.audio.done", "usage": usage})


def _event(data: Mapping[str, object]) -> bytes:
    return f"data: {json.dumps(data)}\n\n".encode()


def _headers(facts: Mapping[str, str]) -> dict[str, str]:
    return {f"X-Voicekin-{name.title()}": _header(value) for name, value in facts.items()}


def _header(text: str) -> str:
    """The text as a header may hold it. Source: RFC 3986 percent encoding of what is not printable ASCII."""
    return quote(text, safe=" !#$&'()*+,-./:;<=>?@[]^_`{|}~\"")[:1000]
