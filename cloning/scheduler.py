"""Sentences from many requests, whole or in parts, put together into batches for one engine.

One thread owns the engine. It imports no torch: it keeps books on a queue and calls the two phases.
"""

import heapq
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from cloning.engines.base import Engine, Part, Planned
from cloning.engines.buckets import group_by_length
from cloning.engines.windows import Span, next_span
from cloning.errors import CloningError, EngineError, Overloaded, SynthesisFailed
from cloning.types import FloatArray, IntArray, Sentence

# So long a sentence of the next priority waits for those before it; then it is as urgent as they are.
PATIENCE_S = 5.0
# Parts of a sentence grow to this many frames; longer ones would save less than a tenth of the work.
MOST_FRAMES = 512

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Spoken:
    """A sentence's result, or the next part of it; `rest` is the part after it, None at the sentence's end.

    Shapes: samples float32 (n,), durations int64 (T_text,) frames, of the whole sentence.
    """

    samples: FloatArray
    durations: IntArray
    rest: "Future[Spoken] | None" = None


def give_up(future: "Future[Spoken]") -> None:
    """Cancels a sentence: what waits of it leaves the queue, and what runs is followed by nothing."""
    if not future.cancel():
        future.add_done_callback(_give_up_rest)


def _give_up_rest(future: "Future[Spoken]") -> None:
    if not future.cancelled() and future.exception() is None and (rest := future.result().rest) is not None:
        give_up(rest)


@dataclass(frozen=True, slots=True)
class SchedulerStats:
    """Counters since the start, and how much waits now."""

    waiting: int
    sentences: int
    batches: int
    failed: int
    cancelled: int


@dataclass(order=True, slots=True)
class _Job:
    # When its turn comes: its arrival, and `PATIENCE_S` for each step of its priority.
    turn_s: float
    number: int
    sentence: Sentence = field(compare=False)
    future: "Future[Spoken]" = field(compare=False)
    due: float | None = field(compare=False)
    in_parts: bool = field(compare=False)
    # None until the first phase has run.
    part: Part | None = field(compare=False, default=None)


class Scheduler:
    """A bounded queue before an engine; a lower priority goes first, then the earlier one.

    What is not urgent waits its time and is urgent then, so that no crowd keeps it out for ever. An idle engine never
    waits for company: what has come in while it worked shares the next batch. A sentence that is spoken in parts queues
    for each of them, so that a long one lets others pass.
    """

    def __init__(
        self, engine: Engine, max_queue: int = 256, max_frames: int = 4096, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._engine, self._max_queue, self._max_frames, self._clock = engine, max_queue, max_frames, clock
        self._queue: list[_Job] = []
        self._wake = threading.Condition()
        self._closed = False
        self._number = self._sentences = self._batches = self._failed = self._cancelled = 0
        self._thread = threading.Thread(target=self._run, name="voicekin-scheduler", daemon=True)
        self._thread.start()

    def submit(
        self, sentences: Sequence[Sentence], continuing: bool = False, in_parts: bool = False
    ) -> "list[Future[Spoken]]":
        """Futures of sentences, all taken or none; those that continue a speech under way are never one too many.

        With `in_parts` each is spoken part by part, the first one short.

        Raises: Overloaded (`queue_full`, `closed`).
        """
        with self._wake:
            if self._closed:
                raise Overloaded("closed", "the service is shutting down; try again in a moment")
            if not continuing and len(self._queue) + len(sentences) > self._max_queue:
                raise Overloaded(
                    "queue_full",
                    f"{len(self._queue)} sentences wait and {len(sentences)} more would pass the limit of "
                    f"{self._max_queue}; try again in a few seconds, or send a shorter text",
                    waiting=len(self._queue),
                    limit=self._max_queue,
                )
            jobs = [self._job(sentence, in_parts) for sentence in sentences]
            for job in jobs:
                heapq.heappush(self._queue, job)
            self._wake.notify()
        return [job.future for job in jobs]

    def stats(self) -> SchedulerStats:
        """The counters."""
        with self._wake:
            return SchedulerStats(len(self._queue), self._sentences, self._batches, self._failed, self._cancelled)

    def close(self) -> None:
        """Finishes the batch that runs, and refuses what waits."""
        with self._wake:
            self._closed = True
            waiting, self._queue = self._queue, []
            self._wake.notify()
        for job in waiting:
            if job.future.set_running_or_notify_cancel():
                job.future.set_exception(Overloaded("closed", "the service is shutting down; try again in a moment"))
        self._thread.join()

    def _job(self, sentence: Sentence, in_parts: bool) -> _Job:
        self._number += 1
        due = None if sentence.deadline_s is None else self._clock() + sentence.deadline_s
        return _Job(self._turn_s(sentence), self._number, sentence, Future(), due, in_parts)

    def _turn_s(self, sentence: Sentence) -> float:
        return self._clock() + sentence.priority * PATIENCE_S

    def _run(self) -> None:
        while (batch := self._next_batch()) is not None:
            if not batch:
                continue
            try:
                self._speak(batch)
            # The loop outlives whatever one batch meets; its own futures carry the error.
            except Exception as error:
                self._fail(batch, error)

    def _next_batch(self) -> list[_Job] | None:
        """Jobs that are still wanted, at most `max_batch` of those whose turn comes first; None at the end."""
        with self._wake:
            self._wake.wait_for(lambda: self._queue or self._closed)
            if self._closed:
                return None
            taken = [heapq.heappop(self._queue) for _ in range(min(self._engine.max_batch, len(self._queue)))]
        wanted = []
        for job in taken:
            if not job.future.set_running_or_notify_cancel():
                self._count(cancelled=1)
            elif job.due is not None and self._clock() > job.due:
                self._fail([job], Overloaded("deadline_missed", "the deadline passed while the sentence waited"))
            else:
                wanted.append(job)
        return wanted

    def _speak(self, batch: list[_Job]) -> None:
        self._plan([job for job in batch if job.part is None])
        ready = [(job, job.part) for job in batch if job.part is not None]
        for group in group_by_length([part.span.n_frames for _, part in ready], self._engine.max_batch):
            samples = self._engine.decode([ready[i][1] for i in group])
            for i, spoken in zip(group, samples, strict=True):
                self._deliver(*ready[i], spoken)
            self._count(batches=1)

    def _plan(self, fresh: list[_Job]) -> None:
        """The first phase of those that are new, which gives each its first part."""
        for job, plan in zip(fresh, self._engine.prior([job.sentence for job in fresh]) if fresh else (), strict=True):
            if not 0 < plan.n_frames <= self._max_frames:
                self._fail([job], self._too_long(plan))
            elif job.in_parts:
                job.part = Part(plan, self._next_span(plan, None))
            else:
                job.part = plan.whole()

    def _next_span(self, plan: Planned, before: Span | None) -> Span:
        return next_span(before, plan.n_frames, self._engine.first_part_frames, MOST_FRAMES)

    def _deliver(self, job: _Job, part: Part, samples: FloatArray) -> None:
        """Hands a part over; the next one queues behind what has come meanwhile."""
        rest: Future[Spoken] | None = None
        if part.span.stop < part.plan.n_frames:
            after = Part(part.plan, self._next_span(part.plan, part.span))
            with self._wake:
                self._number += 1
                rest = Future()
                following = _Job(self._turn_s(job.sentence), self._number, job.sentence, rest, job.due, True, after)
                heapq.heappush(self._queue, following)
        else:
            self._count(sentences=1)
        job.future.set_result(Spoken(samples, part.plan.durations, rest))

    def _too_long(self, plan: Planned) -> CloningError:
        return SynthesisFailed(
            "synthesis_failed",
            f"a sentence of {len(plan.durations)} symbols came to {plan.n_frames} frames, the limit is "
            f"{self._max_frames}; try a higher speed or shorter sentences",
        )

    def _fail(self, batch: list[_Job], error: Exception) -> None:
        known = error if isinstance(error, CloningError) else _fault(error)
        for job in batch:
            if not job.future.done():
                job.future.set_exception(known)
                self._count(failed=1)

    def _count(self, sentences: int = 0, batches: int = 0, failed: int = 0, cancelled: int = 0) -> None:
        with self._wake:
            self._sentences += sentences
            self._batches += batches
            self._failed += failed
            self._cancelled += cancelled


def _fault(error: Exception) -> EngineError:
    """What a caller may know of an engine's fault: its words may hold the machine's own."""
    _log.error("the engine failed", exc_info=error)
    return EngineError("engine_failed", "the engine failed; the log says why")
