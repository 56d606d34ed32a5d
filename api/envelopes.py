"""What is put around a stream besides nothing: OpenAI's events, and lines that can say that it failed."""

import json
import logging
from collections.abc import AsyncGenerator, Mapping

from api import problems
from api.forms import in_base64, line
from api.replies import Envelope, Flow
from api.speech import SpeechOrder

logger = logging.getLogger("voicekin")


async def _events(flow: Flow, order: SpeechOrder) -> AsyncGenerator[bytes, None]:
    n_chars, n_chunks = len(order.text), 0
    try:
        async for chunk in flow.chunks():
            n_chunks += 1
            yield _event({"type": "speech.audio.delta", "audio": in_base64(chunk)})
    except problems.ROOTS as error:
        yield _event({"type": "error", **problems.openai_document(_ended_early(error))})
        return
    usage = {"input_tokens": n_chars, "output_tokens": n_chunks, "total_tokens": n_chars + n_chunks}
    yield _event({"type": "speech.audio.done", "usage": usage})


async def _lines(flow: Flow, _: SpeechOrder) -> AsyncGenerator[bytes, None]:
    try:
        async for chunk in flow.chunks():
            yield chunk
    except problems.ROOTS as error:
        problem = _ended_early(error)
        yield line({"error": {"code": problem.code, "detail": problem.message, "status": problem.status}})


EVENTS = Envelope(_events, "text/event-stream")
LINES = Envelope(_lines)


def _ended_early(error: problems.RoomError) -> problems.Problem:
    logger.warning("a stream ended early (%s): %s", error.code, error.message)
    return problems.describe(error)


def _event(data: Mapping[str, object]) -> bytes:
    return f"data: {json.dumps(data)}\n\n".encode()
