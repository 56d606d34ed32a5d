"""Speech as an HTTP reply: whole, or in pieces while it is spoken."""

import base64
import json
import logging
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from urllib.parse import quote

import anyio
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from api import problems
from api.audio_out import AudioFormat, encode, encode_pieces
from api.context import Context
from api.services import Services
from api.speech import SpeechOrder, Spoken, SpokenStream
from cloning.types import FloatArray

logger = logging.getLogger("voicekin")
# A proxy must hand the audio on as it comes, and nobody may keep it.
_STREAM_HEADERS = {"X-Accel-Buffering": "no", "Cache-Control": "no-store"}


async def whole(
    request: Request, context: Context, services: Services, order: SpeechOrder, audio_format: AudioFormat
) -> Response:
    """The finished speech, with what is known about it in the headers."""

    def work(unwanted: Callable[[], bool]) -> tuple[Spoken, bytes]:
        spoken = services.speaking.speak(order, unwanted)
        return spoken, encode(spoken.speech.samples, spoken.speech.sample_rate, audio_format)

    with context.speech.place():
        spoken, body = await context.speech.run_unless_gone(request, work)
    context.metrics.audio_s.inc(spoken.speech.duration_s)
    headers = {f"X-Voicekin-{name.title()}": _header(value) for name, value in spoken.facts().items()}
    headers["Cache-Control"] = "no-store"
    return Response(body, headers=headers, media_type=audio_format.media_type)


async def streamed(
    context: Context, services: Services, order: SpeechOrder, audio_format: AudioFormat, as_events: bool = False
) -> Response:
    """The speech while it is spoken. The first piece exists before the headers are sent."""
    flow = await _Flow.open(context, services, order, audio_format)
    headers = {
        "X-Voicekin-Seed": str(flow.spoken.seed),
        "X-Voicekin-Model": _header(flow.spoken.model),
        **_STREAM_HEADERS,
    }
    if flow.spoken.notices:
        headers["X-Voicekin-Notices"] = _header("; ".join(flow.spoken.notices))
    if as_events:
        return _FlowResponse(flow, _events(flow, len(order.text)), headers, "text/event-stream")
    return _FlowResponse(flow, flow.chunks(), headers, audio_format.media_type)


@dataclass(frozen=True, slots=True)
class _Flow:
    """A speech under way and everything that must be given back at its end."""

    context: Context
    spoken: SpokenStream
    encoded: Generator[bytes, None, None]
    first: bytes
    release: ExitStack

    @classmethod
    async def open(cls, context: Context, services: Services, order: SpeechOrder, audio_format: AudioFormat) -> "_Flow":
        with ExitStack() as stack:
            stack.enter_context(context.speech.place())
            spoken = await context.speech.run(partial(services.speaking.stream, order))
            stack.callback(spoken.close)
            encoded = encode_pieces(_samples(context, spoken), spoken.sample_rate, audio_format)
            stack.callback(encoded.close)
            first = await context.speech.run(partial(next, encoded, b""))
            return cls(context, spoken, encoded, first, stack.pop_all())

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        yield self.first
        while chunk := await self.context.speech.run(partial(next, self.encoded, b"")):
            yield chunk

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


def _samples(context: Context, spoken: SpokenStream) -> Generator[FloatArray, None, None]:
    for piece in spoken.pieces:
        context.metrics.audio_s.inc(piece.duration_s)
        yield piece.samples


def _header(text: str) -> str:
    """The text as a header may hold it. Source: RFC 3986 percent encoding of what is not printable ASCII."""
    return quote(text, safe=" !#$&'()*+,-./:;<=>?@[]^_`{|}~\"")[:1000]
