"""Sentences from many requests, whole or in parts, put together into batches for one engine.

One thread owns the engine. It imports no torch: it keeps books on a queue and calls the two phases.
"""

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
from cloning.fairness import FairQueue, has_room
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


@dataclass(slots=True)
class _Job:
    sentence: Sentence
    due: float | None
    in_parts: bool
    # None until the first phase has run.
    part: Part | None = None
    future: "Future[Spoken]" = field(default_factory=Future)


class Scheduler:
    """A bounded queue before an engine; a lower priority goes first, then who was served least, then the earlier one.

    A tenant's crowd fills the queue for itself alone: `cloning.fairness` says how. What is not urgent waits its time
    and is urgent then, so that no crowd keeps it out for ever. An idle engine never waits for company: what has come in
    while it worked shares the next batch. A sentence that is spoken in parts queues for each of them, so that a long
    one lets others pass.
    """

    def __init__(
        self, engine: Engine, max_queue: int = 256, max_frames: int = 4096, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._engine, self._max_queue, self._max_frames, self._clock = engine, max_queue, max_frames, clock
        self._queue: FairQueue[_Job] = FairQueue()
        self._wake = threading.Condition()
        self._closed = False
        self._sentences = self._batches = self._failed = self._cancelled = 0
        # Of all that were planned: what a sentence will cost is guessed from those before it.
        self._planned_symbols = self._planned_frames = 1
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
            if not continuing and sentences:
                self._check_room(len(sentences), sentences[0].tenant)
            jobs = [_Job(sentence, self._due(sentence), in_parts) for sentence in sentences]
            for job in jobs:
                self._push(job)
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
            waiting = [self._queue.pop() for _ in range(len(self._queue))]
            self._wake.notify()
        for job in waiting:
            if job.future.set_running_or_notify_cancel():
                job.future.set_exception(Overloaded("closed", "the service is shutting down; try again in a moment"))
        self._thread.join()

    def _check_room(self, n_more: int, tenant: str) -> None:
        """Raises: Overloaded (`queue_full`)."""
        queue, limit = self._queue, self._max_queue
        if not has_room(n_more, queue.n_waiting(tenant), len(queue), queue.n_tenants_with(tenant), limit):
            raise Overloaded(
                "queue_full",
                f"{len(queue)} sentences wait and {n_more} more would pass the limit of {limit}; try again in a few "
                "seconds, or send a shorter text",
                waiting=len(queue),
                limit=limit,
            )

    def _due(self, sentence: Sentence) -> float | None:
        return None if sentence.deadline_s is None else self._clock() + sentence.deadline_s

    def _push(self, job: _Job) -> None:
        """Queues a job: its turn comes `PATIENCE_S` later for each step of its priority."""
        sentence = job.sentence
        turn_s = self._clock() + sentence.priority * PATIENCE_S
        self._queue.push(job, sentence.tenant, sentence.priority, turn_s)

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
        late: list[_Job] = []
        with self._wake:
            self._wake.wait_for(lambda: self._queue or self._closed)
            if self._closed:
                return None
            taken: list[_Job] = []
            while self._queue and len(taken) < self._engine.max_batch:
                job = self._queue.pop()
                if not job.future.set_running_or_notify_cancel():
                    self._cancelled += 1
                elif job.due is not None and self._clock() > job.due:
                    late.append(job)
                else:
                    # What is not spoken costs its tenant no turn.
                    self._queue.charge(job.sentence.tenant, job.sentence.priority, self._work(job))
                    taken.append(job)
        self._fail(late, Overloaded("deadline_missed", "the deadline passed while the sentence waited"))
        return taken

    def _work(self, job: _Job) -> float:
        """The frames of a job; a guess, where they are not known yet."""
        if job.part is not None:
            return job.part.span.n_frames
        guess = len(job.sentence.token_ids) * self._planned_frames / self._planned_symbols
        return min(guess, self._engine.first_part_frames) if job.in_parts else guess

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
                continue
            job.part = Part(plan, self._next_span(plan, None)) if job.in_parts else plan.whole()
            self._planned_symbols += len(plan.durations)
            self._planned_frames += plan.n_frames

    def _next_span(self, plan: Planned, before: Span | None) -> Span:
        return next_span(before, plan.n_frames, self._engine.first_part_frames, MOST_FRAMES)

    def _deliver(self, job: _Job, part: Part, samples: FloatArray) -> None:
        """Hands a part over; the next one queues behind what has come meanwhile."""
        rest: Future[Spoken] | None = None
        if part.span.stop < part.plan.n_frames:
            after = Part(part.plan, self._next_span(part.plan, part.span))
            following = _Job(job.sentence, job.due, True, after)
            rest = following.future
            with self._wake:
                self._push(following)
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
