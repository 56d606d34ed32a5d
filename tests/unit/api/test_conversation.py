"""Conversations on the ASGI interface, with rooms whose faults and delays are injected."""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from starlette.types import Message
from starlette.websockets import WebSocket

from api.context import Context
from api.conversation import Conversation
from api.conversation_messages import Native
from api.host import Host
from api.interruption import Interruption
from api.metering import Meter
from api.settings import Settings
from api.speech import SpeechOrder, SpokenStream
from cloning.errors import Overloaded
from cloning.types import Speech

RATE = 24000
BEGIN = {"type": "begin", "speaker_id": "x"}
Script = Callable[["_Client"], Awaitable[None]]


class _Speaking:
    """Speaks a second for each order in ten pieces; waits in the queue, or fails, where it is to."""

    tenant = ""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.is_queued = False
        self.given_up = threading.Event()
        self.spoken = self.closed = 0
        text = SimpleNamespace(languages={"en": 0})
        self.voices = SimpleNamespace(describe=lambda _: SimpleNamespace(voice=SimpleNamespace(text=text)))

    def stream(self, order: SpeechOrder, interruption: Interruption) -> SpokenStream:
        if self.error is not None:
            raise self.error
        if self.is_queued:
            with interruption.ends(self.given_up.set):
                assert self.given_up.wait(60)
            raise Overloaded("cancelled", "nobody waits")
        return SpokenStream(self._pieces(), RATE, 1, "voice", (), self._close)

    def _pieces(self) -> Iterator[Speech]:
        for _ in range(10):
            self.spoken += 1
            yield Speech(np.full(RATE // 10, 0.25, np.float32), RATE, np.ones(1, np.int64))

    def _close(self) -> None:
        self.closed += 1


class _Client:
    """The other end of the socket; `reads` is cleared while it takes nothing."""

    def __init__(self) -> None:
        self.sent: asyncio.Queue[Message] = asyncio.Queue()
        self.received: list[Message] = []
        self.came = asyncio.Condition()
        self.reads = asyncio.Event()
        self.reads.set()
        self.sent.put_nowait({"type": "websocket.connect"})

    def send(self, document: Any) -> None:
        self.sent.put_nowait({"type": "websocket.receive", "text": json.dumps(document)})

    async def take(self, message: Message) -> None:
        await self.reads.wait()
        async with self.came:
            self.received.append(message)
            self.came.notify_all()

    async def until(self, is_it: Callable[[Message], bool]) -> Message:
        async with self.came:
            await self.came.wait_for(lambda: any(map(is_it, self.received)))
        return next(filter(is_it, self.received))

    async def until_told(self, kind: str) -> dict[str, Any]:
        found = await self.until(lambda message: f'"type": "{kind}"' in (message.get("text") or ""))
        document: dict[str, Any] = json.loads(found["text"])
        return document

    async def end(self) -> Message:
        return await self.until(lambda message: message["type"] == "websocket.close")


@pytest.fixture
def speaking() -> _Speaking:
    return _Speaking()


@pytest.fixture
def talk(speaking: _Speaking, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Context, Conversation]]:
    """Runs a script against a conversation to its end."""

    def run(script: Script, **settings: Any) -> tuple[Context, Conversation]:
        context = Context.of(Host(Settings(**settings)))
        rooms: Any = SimpleNamespace(
            speaking=speaking,
            rendering=SimpleNamespace(meter=Meter()),
            store=SimpleNamespace(get=lambda _: None, look_up_key=lambda _: SimpleNamespace(key=None, needed=False)),
        )
        rooms.seen_by = lambda caller, standings: rooms
        context.host._services = rooms

        async def meet() -> Conversation:
            client = _Client()
            scope = {"type": "websocket", "path": "/", "headers": [], "query_string": b""}
            conversation = Conversation(WebSocket(scope, client.sent.get, client.take), context, Native())
            running = asyncio.create_task(conversation.run())
            client.send(BEGIN)
            await client.until_told("ready")
            await script(client)
            await running
            return conversation

        conversation = asyncio.run(asyncio.wait_for(meet(), 60))
        assert context.speech.under_way == 0
        assert context.metrics.conversations._value.get() == 0
        return context, conversation

    return run


def _ended(context: Context, outcome: str) -> float:
    return float(context.metrics.utterances.labels(outcome)._value.get())


def test_a_fault_of_ours_is_told_without_its_words_and_ends_the_conversation(
    talk: Callable[..., Any], speaking: _Speaking
) -> None:
    speaking.error = RuntimeError("the secret of the machine")

    async def script(client: _Client) -> None:
        client.send({"type": "text", "text": "Hello there. And"})
        error = await client.until_told("error")
        assert (error["code"], error["closes"]) == ("internal_error", True) and "secret" not in json.dumps(error)
        assert (await client.end())["code"] == 1011

    talk(script)


def test_who_is_cancelled_in_the_queue_leaves_it_at_once_and_the_next_text_is_spoken(
    talk: Callable[..., Any], speaking: _Speaking
) -> None:
    speaking.is_queued = True

    async def script(client: _Client) -> None:
        client.send({"type": "text", "text": "Hello there. And"})
        await asyncio.sleep(0.05)
        client.send({"type": "cancel"})
        assert (await client.until_told("cancelled"))["utterances"] == [1]
        assert await asyncio.to_thread(speaking.given_up.wait, 60)
        speaking.is_queued = False
        client.send({"type": "text", "text": "And this"})
        client.send({"type": "close"})
        assert (await client.until_told("done"))["utterance"] == 2
        assert (await client.end())["code"] == 1000
        assert not [message for message in client.received if '"error"' in (message.get("text") or "")]

    context, _ = talk(script)
    assert (_ended(context, "cancelled"), _ended(context, "done"), _ended(context, "failed")) == (1, 1, 0)


def test_nobody_is_spoken_to_ahead_of_a_reader_who_pauses_and_who_stays_away_is_let_go(
    talk: Callable[..., Any], speaking: _Speaking
) -> None:
    async def script(client: _Client) -> None:
        client.reads.clear()
        client.send({"type": "text", "text": "Hello there. And another one. And"})

    context, _ = talk(script, send_timeout_s=0.2)
    assert speaking.spoken == 1 and speaking.closed == 1
    assert context.metrics.cancelled._value.get() == 1


def test_no_frame_of_a_cancelled_text_follows_the_word_that_it_is(
    talk: Callable[..., Any], speaking: _Speaking
) -> None:
    async def script(client: _Client) -> None:
        client.send({"type": "text", "text": "Hello there. " * 20})
        await client.until(lambda message: message.get("bytes") is not None)
        client.reads.clear()
        client.send({"type": "cancel"})
        await asyncio.sleep(0.05)
        client.reads.set()
        await client.until_told("cancelled")
        await asyncio.sleep(0.1)
        kinds = ["audio" if message.get("bytes") else message.get("text", "") for message in client.received]
        told = next(at for at, kind in enumerate(kinds) if '"cancelled"' in kind)
        assert "audio" not in kinds[told:]
        client.send({"type": "close"})

    talk(script)
    assert speaking.spoken < 200


def test_who_vanishes_ends_what_is_spoken(talk: Callable[..., Any], speaking: _Speaking) -> None:
    async def script(client: _Client) -> None:
        client.send({"type": "text", "text": "Hello there. " * 20})
        await client.until(lambda message: message.get("bytes") is not None)
        client.sent.put_nowait({"type": "websocket.disconnect", "code": 1006})

    context, _ = talk(script)
    assert speaking.spoken < 200 and context.metrics.cancelled._value.get() == 1


def test_a_flood_of_empty_texts_is_bounded(talk: Callable[..., Any], speaking: _Speaking) -> None:
    speaking.is_queued = True

    async def script(client: _Client) -> None:
        client.send({"type": "text", "text": "Hello there. And"})
        for _ in range(30):
            client.send({"type": "flush"})
        assert (await client.until_told("error"))["code"] == "text_too_long"
        client.send({"type": "cancel"})
        client.send({"type": "close"})

    talk(script, max_text_chars=20)
