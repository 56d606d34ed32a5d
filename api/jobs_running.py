"""What speaks jobs in one process: so many at once, under leases that are renewed while it lives."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from api.access import share_of
from api.jobs_limits import RunnerConfig
from api.jobs_speaking import JobRun
from store.errors import StoreError

if TYPE_CHECKING:
    from api.speech import Speaking
    from store.jobs import Jobs as StoredJobs
    from store.jobs_types import Job

logger = logging.getLogger("voicekin")
_POLL_S = 0.5
_TEND_EVERY_S = 60.0
_LEASE_RENEWALS = 3


@dataclass(slots=True)
class JobFigures:
    """Of all processes: jobs by state, as they were last looked at. Of this one: what it spoke and what it ended."""

    by_state: dict[str, int] = field(default_factory=dict)
    spoken_s: float = 0.0
    ended: Counter[str] = field(default_factory=Counter)


class JobRunner:
    """Threads that take jobs and speak them, and one that keeps their leases, removes what expired, and counts."""

    def __init__(self, jobs: StoredJobs, speaking: Speaking, config: RunnerConfig) -> None:
        self._jobs, self._speaking, self._config = jobs, speaking, config
        self._owner = str(uuid.uuid4())
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._held: set[str] = set()
        self._threads: list[threading.Thread] = []
        self.figures = JobFigures()

    def start(self) -> None:
        """Begins to take jobs."""
        works: list[Callable[[], None]] = [self._keep, *[self._take] * self._config.n_workers]
        for work in works:
            thread = threading.Thread(target=self._guarded, args=(work,), name="voicekin-jobs", daemon=True)
            self._threads.append(thread)
            thread.start()

    def close(self) -> None:
        """Stops after the sentences that are spoken now, and gives the jobs back."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def run(self, job_id: str) -> bool:
        """Speaks this job, here and now, if nobody else does; whether it was free. Raises: StoreUnavailable."""
        job = self._jobs.lease(self._owner, self._config.lease_s, job_id)
        if job is not None:
            self._speak(job)
        return job is not None

    def _guarded(self, work: Callable[[], None]) -> None:
        """Repeats the work until the end, whatever it meets."""
        while not self._stopping.is_set():
            try:
                work()
            except StoreError as error:
                logger.warning("jobs: the store does not answer and is asked again (%s): %s", error.code, error.message)
                self._stopping.wait(_POLL_S)
            except Exception:
                logger.exception("jobs: a fault")
                self._stopping.wait(_POLL_S)

    def _take(self) -> None:
        job = self._jobs.lease(self._owner, self._config.lease_s)
        if job is None:
            self._stopping.wait(_POLL_S)
        else:
            self._speak(job)

    def _speak(self, job: Job) -> None:
        with self._lock:
            self._held.add(job.id)
        try:
            speaking, max_bytes = replace(self._speaking, tenant=share_of(job.tenant)), self._config.max_bytes
            run = JobRun(self._jobs, speaking, job, self._owner, max_bytes, self._stopping.is_set, self._count)
            ended = run.go()
        finally:
            with self._lock:
                self._held.discard(job.id)
        if ended is not None:
            logger.info("job %s ended: %s", job.id, ended)
            with self._lock:
                self.figures.ended[ended] += 1

    def _count(self, seconds: float) -> None:
        with self._lock:
            self.figures.spoken_s += seconds

    def _keep(self) -> None:
        tended_s = 0.0
        while not self._stopping.wait(self._config.lease_s / _LEASE_RENEWALS):
            with self._lock:
                held = sorted(self._held)
            if held:
                self._jobs.renew(self._owner, held, self._config.lease_s)
            self.figures.by_state = dict(self._jobs.counts())
            if time.monotonic() - tended_s >= _TEND_EVERY_S:
                tended_s = time.monotonic()
                self._jobs.expire()
                self._jobs.tidy()
