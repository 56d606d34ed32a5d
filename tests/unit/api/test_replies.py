"""Streams that fail or lose their reader half-way, on the ASGI interface."""

import asyncio
import base64
import json
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from starlette.types import Message

from api.audio_out import FORMATS
from api.context import Context
from api.envelopes import EVENTS, LINES
from api.forms import AudioForm, Form, timed_form
from api.host import Host
from api.rendering import Rendering
from api.replies import BARE, Envelope, streamed
from api.settings import Settings
from api.speech import SpeechOrder, SpokenStream
from cloning.errors import SynthesisFailed
from cloning.types import Speech

How = tuple[Form, Envelope]
AUDIO: How = (AudioForm(FORMATS["pcm"]), BARE)
EVENTS_OF_AUDIO: How = (AudioForm(FORMATS["pcm"]), EVENTS)
TIMED: How = (timed_form(FORMATS["pcm"], streamed=True), LINES)
RATE = 24000
PIECE = Speech(np.full(RATE, 0.25, np.float32), RATE, np.ones(4, np.int64))
SCOPE = {"type": "http", "asgi": {"spec_version": "2.3"}, "method": "POST", "path": "/", "headers": []}


class _Speaking:
    """Speaks some pieces, then fails if it is to; knows whether it was closed."""

    tenant = ""

    def __init__(self, n_pieces: int, error: Exception | None = None) -> None:
        self.closed = False
        self.spoken = 0
        self.store = SimpleNamespace(keeps_audio=False)
        self._n_pieces, self._error = n_pieces, error

    def stream(self, order: SpeechOrder) -> SpokenStream:
        return SpokenStream(self._pieces(), RATE, 1, "voice", ("skipped characters: 名",), self._close)

    def _pieces(self) -> Iterator[Speech]:
        for _ in range(self._n_pieces):
            self.spoken += 1
            yield PIECE
        if self._error:
            raise self._error

    def _close(self) -> None:
        self.closed = True


def _stream(speaking: _Speaking, context: Context, how: How = AUDIO, leave_after: int | None = None) -> bytes:
    """What a client receives; it leaves after so many chunks."""

    async def talk() -> bytes:
        received: list[bytes] = []
        left = asyncio.Event()

        async def send(message: Message) -> None:
            received.append(message.get("body", b""))
            if leave_after is not None and len(received) > leave_after:
                left.set()
                await asyncio.sleep(0.05)

        async def receive() -> Message:
            await left.wait()
            return {"type": "http.disconnect"}

        services: Any = SimpleNamespace(speaking=speaking, rendering=Rendering(speaking))  # type: ignore[arg-type]
        order = SpeechOrder("x", "words")
        response = await streamed(context, services, order, *how)
        assert response.headers["X-Voicekin-Notices"] == "skipped characters: %E5%90%8D"
        assert context.speech.under_way == 1
        await response(SCOPE, receive, send)
        return b"".join(received)

    return asyncio.run(talk())


@pytest.fixture
def context() -> Context:
    return Context.of(Host(Settings()))


def test_a_stream_that_ends_well_gives_everything_back(context: Context) -> None:
    speaking = _Speaking(3)
    assert len(_stream(speaking, context)) == 3 * RATE * 2
    assert speaking.closed
    assert context.speech.under_way == 0
    assert context.metrics.cancelled._value.get() == 0


def test_a_stream_that_fails_half_way_is_broken_off_and_not_ended(context: Context) -> None:
    speaking = _Speaking(2, SynthesisFailed("synthesis_failed", "not finite"))
    with pytest.raises(SynthesisFailed):
        _stream(speaking, context)
    assert speaking.closed
    assert context.speech.under_way == 0


def test_events_that_fail_half_way_end_with_an_error_event(context: Context) -> None:
    speaking = _Speaking(2, SynthesisFailed("synthesis_failed", "not finite"))
    text = _stream(speaking, context, EVENTS_OF_AUDIO).decode()
    events = [json.loads(line[6:]) for line in text.splitlines() if line]
    assert [event["type"] for event in events] == ["speech.audio.delta"] * 2 + ["error"]
    assert events[-1]["error"]["code"] == "synthesis_failed"
    assert len(base64.b64decode(events[0]["audio"])) == RATE * 2


def test_lines_that_fail_half_way_end_with_an_error_and_no_last_line(context: Context) -> None:
    lines = [json.loads(line) for line in _stream(_Speaking(2), context, TIMED).splitlines()]
    assert [line["last"] for line in lines] == [False, False, True]
    failing = _Speaking(2, SynthesisFailed("synthesis_failed", "not finite"))
    lines = [json.loads(line) for line in _stream(failing, context, TIMED).splitlines()]
    assert [line.get("last") for line in lines] == [False, False, None]
    assert lines[-1]["error"] == {"code": "synthesis_failed", "detail": "not finite", "status": 500}


def test_a_reader_who_leaves_stops_the_speech_within_a_piece(context: Context) -> None:
    speaking = _Speaking(1000)
    with suppress(asyncio.CancelledError):
        _stream(speaking, context, leave_after=2)
    assert speaking.spoken <= 4
    assert speaking.closed
    assert context.speech.under_way == 0
    assert context.metrics.cancelled._value.get() == 1


def test_a_stream_that_cannot_begin_takes_no_place(context: Context) -> None:
    with pytest.raises(SynthesisFailed):
        _stream(_Speaking(0, SynthesisFailed("synthesis_failed", "silent")), context)
    assert context.speech.under_way == 0
