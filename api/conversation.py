"""One conversation over a WebSocket: text comes in pieces, speech goes out while it comes."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING

import anyio
from starlette.websockets import WebSocket, WebSocketDisconnect

from api import problems
from api.access import origin_allowed
from api.context import caller_of, key_of
from api.conversing import (
    CUT_OFF,
    FAULT,
    WELL,
    Begin,
    Cancel,
    Close,
    Command,
    Dialect,
    Flush,
    Frame,
    Ready,
    Say,
    close_code,
    stopping,
    text_of,
)
from api.errors import AccessRefused, Idle, OutOfTurn
from api.limits import Standings
from api.turn import Manner, Turn
from api.utterance import Utterance
from cloning.errors import TextRefused
from store.key_types import SPEAK

if TYPE_CHECKING:
    from api.context import Context
    from api.services import Services

logger = logging.getLogger("voicekin")
BEGIN_WITHIN_S = 10.0
_LAST_WORDS_S = 1.0


class Conversation:
    """One connection. It ends with a reason, always: a message that says it, and a close code."""

    def __init__(self, socket: WebSocket, context: Context, dialect: Dialect) -> None:
        self._socket, self._context, self._dialect = socket, context, dialect
        self._id = uuid.uuid4().hex
        self._manner: Manner | None = None
        # In the order in which they are spoken; the last one may still grow.
        self._turns: deque[Turn] = deque()
        self._n_turns = 0
        self._came = asyncio.Event()
        self._sending = asyncio.Lock()
        self._is_speaking = self._is_closing = self._is_draining = False
        self._ended_by: Exception | None = None

    async def run(self) -> None:
        """The whole conversation."""
        await self._socket.accept()
        try:
            with self._context.conversations.joined(self):
                self._check_origin()
                await self._talk()
            await self._leave(WELL)
        except problems.ROOTS as error:
            await self._leave(close_code(error), problems.describe(error))
        except WebSocketDisconnect:
            self._count_gone()
        except TimeoutError:
            logger.info("conversation %s is ended: its reader is too slow", self._id)
            self._count_gone()
        except asyncio.CancelledError:
            # The server's time is over; nothing comes after this, so the cancellation ends here.
            with anyio.move_on_after(_LAST_WORDS_S, shield=True):
                await self._leave(CUT_OFF, problems.describe(stopping()))
        except Exception:
            logger.exception("conversation %s failed", self._id)
            await self._leave(FAULT, problems.internal())

    def drain(self) -> None:
        """Has it end when what it was told so far has been spoken."""
        self._is_draining = True
        self._close()

    async def _talk(self) -> None:
        """Reads and speaks until either is over; nothing is spoken any more after that."""
        async with anyio.create_task_group() as tasks:
            for work in (self._read, self._speak):
                tasks.start_soon(self._until_its_end, work, tasks.cancel_scope)
            try:
                await anyio.sleep_forever()
            finally:
                self._cancel_turns()
        if self._ended_by is not None:
            raise self._ended_by
        if self._is_draining:
            raise stopping()

    async def _until_its_end(self, work: Callable[[], Awaitable[None]], scope: anyio.CancelScope) -> None:
        try:
            await work()
        except Exception as error:
            self._ended_by = self._ended_by or error
        finally:
            # First of all, so that no thread is waited for.
            self._cancel_turns()
            scope.cancel()

    async def _read(self) -> None:
        while True:
            message = await self._receive()
            try:
                for command in self._dialect.read(text_of(message)):
                    await self._obey(command)
            except problems.ROOTS as error:
                await self._refuse(error)

    async def _receive(self) -> dict[str, object]:
        """The next message. Raises: Idle, WebSocketDisconnect."""
        idle_s = BEGIN_WITHIN_S if self._manner is None else self._context.settings.conversation_idle_s
        while True:
            try:
                async with asyncio.timeout(idle_s):
                    message = await self._socket.receive()
            except TimeoutError:
                if self._is_speaking:
                    continue
                raise Idle("idle", f"nothing has happened for {idle_s:g} s; send keep_alive", limit_s=idle_s) from None
            if message["type"] == "websocket.disconnect":
                raise WebSocketDisconnect(message["code"])
            return dict(message)

    async def _obey(self, command: Command) -> None:
        if isinstance(command, Begin):
            await self._begin(command)
            return
        if self._manner is None:
            raise OutOfTurn("not_begun", "the first message must be begin, which says who speaks", field="type")
        if isinstance(command, Say):
            await self._take(command.text, self._manner)
        elif isinstance(command, Flush):
            await self._flush(command, self._manner)
        elif isinstance(command, Cancel):
            await self._cancel()
        elif isinstance(command, Close):
            self._close()
        else:
            await self._send(self._dialect.alive())

    async def _begin(self, begin: Begin) -> None:
        before = None if self._manner is None else self._manner.key
        key = key_of(self._socket.headers) or begin.key or before
        services, _ = await self._admitted(key)
        order = await self._context.queries.run(partial(begin.order, services))
        self._manner = Manner(begin, order, key)
        settings = self._context.settings
        facts = Ready(self._id, begin.audio, order, settings.max_text_chars, settings.conversation_idle_s)
        await self._send(self._dialect.ready(facts))

    async def _admitted(self, key: str | None) -> tuple[Services, Standings]:
        """The caller's rooms, and how it stands; each time that one is let in counts as a request."""
        standings = Standings()
        caller = await caller_of(self._context, key, standings)
        self._context.access.check(caller, frozenset({SPEAK}))
        return self._context.host.check_ready().seen_by(caller, standings), standings

    async def _take(self, text: str, manner: Manner) -> None:
        turn, limit = self._open_turn(manner), self._context.settings.max_text_chars
        # A text itself counts too, so that there cannot be very many empty ones.
        waiting = sum(each.n_waiting + 1 for each in self._turns) + len(text)
        if waiting <= limit:
            turn.push(text)
            return
        self._give_up(turn)
        words = f"{waiting} characters would wait to be spoken, the limit is {limit}; wait for what was sent before"
        error = TextRefused("text_too_long", words, field="text", limit=limit, length=waiting)
        await self._refuse(error, turn.number)

    async def _flush(self, flush: Flush, manner: Manner) -> None:
        await self._take("", manner)
        if self._turns:
            self._turns[-1].flush(flush.last)

    def _open_turn(self, manner: Manner) -> Turn:
        if self._is_closing:
            raise OutOfTurn("after_close", "nothing more is spoken after close; open another connection")
        if not self._turns or self._turns[-1].is_whole:
            self._n_turns += 1
            self._turns.append(Turn(self._n_turns, manner))
            self._came.set()
        return self._turns[-1]

    async def _cancel(self) -> None:
        numbers = [turn.number for turn in self._turns]
        self._cancel_turns()
        await self._send(self._dialect.cancelled(numbers))

    def _cancel_turns(self) -> None:
        while self._turns:
            self._turns[0].cancel()
            self._context.metrics.utterances.labels("cancelled").inc()
            self._turns.popleft()

    def _close(self) -> None:
        self._is_closing = True
        if self._turns:
            self._turns[-1].flush(last=True)
        self._came.set()

    async def _speak(self) -> None:
        """Speaks the texts in their order, until no more can come."""
        while turn := await self._next_turn():
            try:
                await self._speak_turn(turn)
            except problems.ROOTS as error:
                if not turn.interruption.is_set:
                    self._give_up(turn)
                    await self._refuse(error, turn.number)
            with suppress(ValueError):
                self._turns.remove(turn)

    async def _next_turn(self) -> Turn | None:
        while not self._turns:
            if self._is_closing:
                return None
            self._came.clear()
            await self._came.wait()
        return self._turns[0]

    async def _speak_turn(self, turn: Turn) -> None:
        with ExitStack() as place:
            text = await turn.next_slice()
            if turn.interruption.is_set:
                return
            services, standings = await self._admitted(turn.manner.key)
            order, audio = turn.manner.order, turn.manner.begin.audio
            utterance = Utterance(services.speaking, services.rendering.meter, order, audio, turn.interruption)
            place.enter_context(self._context.speech.place(services.speaking.tenant))
            while text is not None:
                await self._say(turn, utterance, text)
                text = await turn.next_slice()
            tail = await self._context.speech.run(utterance.finish)
        if not turn.interruption.is_set:
            self._context.metrics.utterances.labels("done").inc()
            await self._send(self._dialect.done(turn.number, utterance, tail, standings), turn)

    async def _say(self, turn: Turn, utterance: Utterance, text: str) -> None:
        pieces, self._is_speaking = utterance.say(text), True
        try:
            while heard := await self._context.speech.run(partial(next, pieces, None)):
                if turn.interruption.is_set:
                    return
                self._context.metrics.audio_s.inc(heard.duration_s)
                await self._send(self._dialect.heard(turn.number, utterance, heard), turn)
        finally:
            self._is_speaking = False
            with anyio.CancelScope(shield=True):
                await self._context.queries.run(pieces.close)

    def _give_up(self, turn: Turn) -> None:
        turn.cancel()
        self._context.metrics.utterances.labels("failed").inc()
        with suppress(ValueError):
            self._turns.remove(turn)

    async def _refuse(self, error: problems.RoomError, number: int | None = None) -> None:
        """Tells what went wrong. Raises: the error, where the conversation cannot go on after it."""
        if self._manner is None or self._dialect.ends_with_error or isinstance(error, AccessRefused):
            raise error
        await self._send(self._dialect.error(problems.describe(error), self._id, number, closes=False))

    async def _send(self, frames: Sequence[Frame], turn: Turn | None = None) -> None:
        """Sends, but nothing of a text that is cancelled meanwhile. Raises: TimeoutError, for a slow reader."""
        async with self._sending:
            for frame in frames:
                if turn is not None and turn.interruption.is_set:
                    return
                with anyio.fail_after(self._context.settings.send_timeout_s):
                    await (self._socket.send_text(frame) if isinstance(frame, str) else self._socket.send_bytes(frame))

    async def _leave(self, code: int, problem: problems.Problem | None = None) -> None:
        frames = () if problem is None else self._dialect.error(problem, self._id, None, closes=True)
        with suppress(WebSocketDisconnect, TimeoutError):
            await self._send(frames)
            with anyio.fail_after(self._context.settings.send_timeout_s):
                await self._socket.close(code, "" if problem is None else problem.code)

    def _count_gone(self) -> None:
        self._context.metrics.cancelled.inc()

    def _check_origin(self) -> None:
        """Raises: AccessRefused, for a page of a stranger: no browser asks before it opens a WebSocket."""
        if not origin_allowed(self._socket.headers, self._context.settings.origins()):
            raise AccessRefused(
                "origin_refused", "pages of this origin may not speak here; add it to VOICEKIN_CORS_ORIGINS"
            )
