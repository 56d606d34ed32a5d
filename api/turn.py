"""One text of a conversation while it comes, and how it is to be spoken."""

import asyncio
import time
from collections import deque
from dataclasses import dataclass

from api.conversing import Begin
from api.interruption import Interruption
from api.speech import SpeechOrder
from cloning.text.growing import GrowingText


@dataclass(frozen=True, slots=True)
class Manner:
    """How texts are spoken from a `begin` on."""

    begin: Begin
    order: SpeechOrder
    key: str | None


class Turn:
    """One text while it comes; slices of it are taken as they become sure."""

    def __init__(self, number: int, manner: Manner) -> None:
        self.number, self.manner = number, manner
        self.interruption = Interruption()
        self.is_whole = False
        self._growing = GrowingText()
        self._slices: deque[str] = deque()
        self._changed = asyncio.Event()
        self._came_at_s = time.monotonic()

    @property
    def n_waiting(self) -> int:
        """How many characters wait."""
        return len(self._growing) + sum(map(len, self._slices))

    def push(self, text: str) -> None:
        self._growing.push(text)
        while sure := self._growing.sure():
            self._slices.append(sure)
        self._note()

    def flush(self, last: bool) -> None:
        if rest := self._growing.rest():
            self._slices.append(rest)
        self.is_whole = self.is_whole or last
        self._note()

    def cancel(self) -> None:
        self._growing.rest()
        self._slices.clear()
        self.is_whole = True
        self.interruption.set()
        self._note()

    async def next_slice(self) -> str | None:
        """What is to be spoken next: what is sure, or after a wait a clause; None at the end."""
        while not self._slices and not self.is_whole:
            self._changed.clear()
            try:
                wait_s = self._came_at_s + self.manner.begin.wait_s - time.monotonic()
                async with asyncio.timeout(max(0.0, wait_s)):
                    await self._changed.wait()
            except TimeoutError:
                if clause := self._growing.clause():
                    return clause
                await self._changed.wait()
        return self._slices.popleft() if self._slices else None

    def _note(self) -> None:
        self._came_at_s = time.monotonic()
        self._changed.set()
