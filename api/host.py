"""Keeps the rooms open while the server runs: opens them behind its back, warms them up, says why it is not ready."""

import asyncio
import logging
import re
import time
from contextlib import AbstractContextManager, suppress
from functools import partial

import anyio.to_thread

from api.errors import NotReady
from api.jobs_running import JobFigures
from api.keeping import Schedule
from api.memory import in_words, memory_of
from api.problems import ROOTS
from api.services import Services, open_services, warm_up
from api.settings import Settings
from api.voices import Voices

logger = logging.getLogger("voicekin")
RETRY_S = 2.0
FLUSH_S = 5.0


class Host:
    """The services of one server process, or the reason why there are none yet."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.start_s = 0.0
        self.draining = False
        self._schedule = Schedule(settings)
        self._reason = "starting: the rooms are being opened"
        self._code = "starting"
        self._services: Services | None = None
        self._context: AbstractContextManager[Services] | None = None
        self._task: asyncio.Task[None] | None = None

    def job_figures(self) -> JobFigures | None:
        """What is known of jobs, where the rooms are open."""
        return None if self._services is None else self._services.runner.figures

    @property
    def services(self) -> Services:
        """The open rooms. Raises: NotReady, with the reason."""
        if self._services is None:
            raise NotReady("starting", self._reason, reason=self._code)
        return self._services

    def check_ready(self) -> Services:
        """The open rooms, while new work is welcome. Raises: NotReady."""
        if self.draining:
            raise NotReady("draining", "the server is shutting down; ask another one")
        return self.services

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="voicekin-host")

    async def stop(self) -> None:
        """Closes the rooms, in reverse order."""
        self.draining = True
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        self._services = None
        if self._context is not None:
            await anyio.to_thread.run_sync(partial(self._context.__exit__, None, None, None))

    async def _run(self) -> None:
        while not await self._opened():
            await asyncio.sleep(RETRY_S)
        while True:
            await asyncio.sleep(FLUSH_S)
            await self._flush()
            await self._keep()

    async def _opened(self) -> bool:
        started = time.monotonic()
        try:
            services = await anyio.to_thread.run_sync(self._open)
        except ROOTS as error:
            self._refuse(error.code, error.message)
            return False
        except Exception:
            self._refuse("internal_error", "opening failed; the log says why")
            logger.exception("opening failed")
            return False
        self.start_s = time.monotonic() - started
        self._services = services
        logger.info("ready after %.1f s", self.start_s)
        return True

    def _refuse(self, code: str, reason: str) -> None:
        public = self._public(reason)
        if (code, public) != (self._code, self._reason):
            logger.error("not ready (%s): %s", code, reason)
        self._code, self._reason = code, public

    def _public(self, reason: str) -> str:
        """The reason with folders by the names of their settings: anybody may ask for it."""
        named = {self.settings.bundle_dir(): "VOICEKIN_VOICE_DIR", self.settings.state_dir: "VOICEKIN_STATE_DIR"}
        for folder, setting in named.items():
            for written in {str(folder.absolute()), str(folder)}:
                reason = re.sub(rf"(?<![\w/]){re.escape(written)}(?!\w)", setting, reason)
        return reason

    def _open(self) -> Services:
        context = open_services(self.settings)
        services = context.__enter__()
        try:
            warm_up(services)
            self._log_memory(services.speaking.voices)
            services.runner.start()
        except BaseException:
            context.__exit__(None, None, None)
            raise
        self._context = context
        return services

    def _log_memory(self, voices: Voices) -> None:
        found = memory_of(self.settings, voices.describe().voice, voices.engine_of_in_use())
        if found:
            logger.info("device memory, by estimate: %s", in_words(found))

    async def _keep(self) -> None:
        try:
            await anyio.to_thread.run_sync(partial(self._schedule.run, self.services.store))
        except ROOTS as error:
            logger.warning("scheduled pruning failed and is tried again (%s): %s", error.code, error.message)

    async def _flush(self) -> None:
        try:
            await anyio.to_thread.run_sync(self.services.speaking.usage.flush)
            await anyio.to_thread.run_sync(self.services.keys.flush)
            await anyio.to_thread.run_sync(self.services.speaking.voices.sweep)
        except ROOTS as error:
            logger.warning("uses of speakers and keys could not be written (%s): %s", error.code, error.message)
