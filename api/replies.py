"""Speech as an HTTP reply: whole, or in pieces while it is spoken."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from urllib.parse import quote

import anyio
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from api.context import Context
from api.forms import Form
from api.rendering import Part, RenderedStream
from api.services import Services
from api.speech import SpeechOrder

# A proxy must hand the audio on as it comes, and nobody may keep it.
STREAM_HEADERS = {"X-Accel-Buffering": "no", "Cache-Control": "no-store"}


async def whole(request: Request, context: Context, services: Services, order: SpeechOrder, form: Form) -> Response:
    """The finished speech, with what is known about it in the headers."""

    def work(unwanted: Callable[[], bool]) -> Part:
        return services.rendering.whole(order, form, unwanted)

    with context.speech.place(services.speaking.tenant):
        found = await context.speech.run_unless_gone(request, work)
    context.metrics.count(found)
    headers = {**_headers(found.facts), "Cache-Control": "no-store"}
    return Response(found.data, headers=headers, media_type=form.media_type)


@dataclass(frozen=True, slots=True)
class Envelope:
    """What is put around the bytes of a stream. `media_type` None is that of its form."""

    body: Callable[["Flow", SpeechOrder], AsyncGenerator[bytes, None]]
    media_type: str | None = None


async def _bare(flow: "Flow", _: SpeechOrder) -> AsyncGenerator[bytes, None]:
    async for chunk in flow.chunks():
        yield chunk


BARE = Envelope(_bare)


async def streamed(
    context: Context, services: Services, order: SpeechOrder, form: Form, envelope: Envelope = BARE
) -> Response:
    """The speech while it is spoken. The first piece exists before the headers are sent."""
    flow = await Flow.open(context, services, order, form)
    headers = {**_headers(flow.spoken.facts), **STREAM_HEADERS}
    media_type = envelope.media_type or form.media_type
    return SentResponse(envelope.body(flow, order), context.settings.send_timeout_s, flow.end, headers, media_type)


@dataclass(frozen=True, slots=True)
class Flow:
    """A speech under way and everything that must be given back at its end."""

    context: Context
    spoken: RenderedStream
    release: ExitStack

    @classmethod
    async def open(cls, context: Context, services: Services, order: SpeechOrder, form: Form) -> "Flow":
        with ExitStack() as stack:
            stack.enter_context(context.speech.place(services.speaking.tenant))
            spoken = await context.speech.run(partial(services.rendering.stream, order, form))
            stack.callback(spoken.close)
            return cls(context, spoken, stack.pop_all())

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The bytes as they come, none of them empty."""
        while part := await self.context.speech.run(partial(next, self.spoken.parts, None)):
            self.context.metrics.count(part)
            if part.data:
                yield part.data

    async def end(self, is_sent: bool) -> None:
        """Gives everything back."""
        if not is_sent:
            self.context.metrics.cancelled.inc()
        with anyio.CancelScope(shield=True):
            await self.context.queries.run(self.release.close)


class SentResponse(StreamingResponse):
    """A stream that ends when nobody reads it. `on_end` is told whether all of it was sent, however that ends."""

    def __init__(
        self,
        body: AsyncGenerator[bytes, None],
        send_timeout_s: float,
        on_end: Callable[[bool], Awaitable[None]],
        headers: Mapping[str, str],
        media_type: str,
    ) -> None:
        super().__init__(body, headers=headers, media_type=media_type)
        self._send_timeout_s, self._on_end = send_timeout_s, on_end
        self._finished = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._on_end(self._finished)

    async def stream_response(self, send: Send) -> None:
        async def timed(message: Message) -> None:
            with anyio.fail_after(self._send_timeout_s):
                await send(message)

        await super().stream_response(timed)
        self._finished = True


def _headers(facts: Mapping[str, str]) -> dict[str, str]:
    return {f"X-Voicekin-{name.title()}": _header(value) for name, value in facts.items()}


def _header(text: str) -> str:
    """The text as a header may hold it. Source: RFC 3986 percent encoding of what is not printable ASCII."""
    return quote(text, safe=" !#$&'()*+,-./:;<=>?@[]^_`{|}~\"")[:1000]
