"""Heavy work off the event loop, so much of it at once and no more, and given up when the client has gone."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import anyio
import anyio.to_thread
from starlette.requests import ClientDisconnect, Request

from api.errors import TooBusy
from cloning.fairness import has_room

T = TypeVar("T")


class Workers:
    """A bounded set of threads with a bounded number of callers."""

    def __init__(self, n_threads: int, max_requests: int) -> None:
        self._limiter = anyio.CapacityLimiter(n_threads)
        self._max_requests = max_requests
        self._by_share: Counter[str] = Counter()
        self.under_way = 0

    @contextmanager
    def place(self, share: str = "") -> Iterator[None]:
        """One place among the requests under way, of which nobody's share keeps all others out. Raises: TooBusy."""
        n_own, n_shares = self._by_share[share], len(self._by_share | Counter({share: 1}))
        if not has_room(1, n_own, self.under_way, n_shares, self._max_requests):
            raise TooBusy(
                "too_busy",
                f"{self._max_requests} requests are under way, which is the limit; try again shortly",
                limit=self._max_requests,
            )
        self.under_way += 1
        self._by_share[share] += 1
        try:
            yield
        finally:
            self.under_way -= 1
            self._by_share -= Counter({share: 1})

    async def run(self, work: Callable[[], T]) -> T:
        """The result of blocking work, from a thread."""
        return await anyio.to_thread.run_sync(work, limiter=self._limiter)

    async def run_unless_gone(self, request: Request, work: Callable[[Callable[[], bool]], T]) -> T:
        """The result of blocking work, which is told when it is no longer wanted. Raises: ClientDisconnect."""
        unwanted = threading.Event()
        gone = asyncio.create_task(_wait_gone(request))
        done = asyncio.create_task(self.run(partial(work, unwanted.is_set)))
        try:
            await asyncio.wait((gone, done), return_when=asyncio.FIRST_COMPLETED)
            if not done.done():
                raise ClientDisconnect()
            return await done
        finally:
            unwanted.set()
            gone.cancel()
            # Its place is free only when its thread is.
            with anyio.CancelScope(shield=True):
                await asyncio.wait((done,))


async def _wait_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
