"""Follows the database when nobody searches, so that what another process removed leaves this one's memory too."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from store.errors import StoreError

_log = logging.getLogger(__name__)
CHANNEL = "voicekin"
# How long a wait for a notice may keep `close` waiting.
_SLICE_S = 0.25
Wait = Callable[[float], object]


class Watcher:
    """A thread that follows at every notice of PostgreSQL, and every `interval_s` on any database."""

    def __init__(self, engine: Engine, follow: Callable[[], None], interval_s: float) -> None:
        self._engine = engine
        self._follow = follow
        self._interval_s = interval_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="voicekin-watcher", daemon=True)

    def start(self) -> None:
        """Watches until `close`."""
        self._thread.start()

    def close(self) -> None:
        """Ends the thread."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                with self._notices() as wait:
                    while not self._ended.is_set():
                        wait(self._interval_s)
                        self._follow()
            except (StoreError, SQLAlchemyError, OSError, RuntimeError, self._driver_error()) as error:
                _log.warning("the database could not be watched and is asked again: %s", error)
                self._ended.wait(self._interval_s)

    @contextmanager
    def _notices(self) -> Iterator[Wait]:
        """A wait that ends early at a notice. A pooler may swallow notices: then it ends in time."""
        if self._engine.dialect.name != "postgresql":
            yield self._ended.wait
            return
        with self._engine.connect() as connection:
            driver: Any = connection.connection.driver_connection
            # Not the pool's any more: it goes on listening until it is closed.
            connection.detach()
            driver.rollback()
            driver.autocommit = True
            driver.execute(f"LISTEN {CHANNEL}")
            yield lambda seconds: self._listen(driver, seconds)

    def _listen(self, driver: Any, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        while not self._ended.is_set() and (left_s := until_s - time.monotonic()) > 0:
            if list(driver.notifies(timeout=min(left_s, _SLICE_S), stop_after=1)):
                return

    def _driver_error(self) -> type[Exception]:
        error: type[Exception] = self._engine.dialect.loaded_dbapi.Error
        return error
