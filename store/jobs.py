"""The store's front for jobs: rows in SQL, which are the truth, and the files of spoken pieces beside it.

One process at a time speaks a job: it holds a lease, in SQL and with a time, and what it wants to note is noted only
while it does. So a process that died, or that slept too long, takes nothing along and spoils nothing.
"""

import copy
import hashlib
import logging
import uuid
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Self

from store import checks
from store.errors import SpeakerNotFound, StorageFull, StoreError, TooManyJobs
from store.jobs_files import PieceFolder
from store.jobs_queries import JobQueries
from store.jobs_rows import JobRepository
from store.jobs_types import BAD, DONE, Job, JobBounds, JobPage, NewJob, Piece, SpokenPiece
from store.types import ConsentPolicy, RequestKey, StoreConfig
from store.unit_of_work import Database, UnitOfWork
from store.voices import VoiceQueries

_log = logging.getLogger(__name__)


class Jobs:
    """Jobs of one database. Safe to use from many threads."""

    def __init__(self, database: Database, config: StoreConfig) -> None:
        self._database, self._config = database, config
        self._tenant: str | None = None

    def seen_by(self, tenant: str | None) -> Self:
        """The same jobs, of which only this tenant's are there; all with None."""
        view = copy.copy(self)
        view._database, view._tenant = self._database.seen_by(tenant), tenant
        return view

    @cached_property
    def _files(self) -> PieceFolder:
        return PieceFolder(self._config.state_dir, self._database.read(VoiceQueries.position).store_id)

    def add(self, new: NewJob, bounds: JobBounds, key: RequestKey | None = None) -> Job:
        """The new job, on disk when this returns; under a key that was answered before, the job of then.

        Raises: SpeakerNotFound, ConsentRefused, TooManyJobs, StorageFull (`jobs_full`), KeyReused, JobNotFound for a
        key whose job is gone, BadArgument, StoreUnavailable.
        """
        key = None if key is None else key.of(self._tenant)
        with self._database.write() as unit:
            earlier = None if key is None else unit.ledger.answered(key)
            if earlier is not None:
                return unit.jobs.get(earlier)
            _require_speakers(unit, {piece.speaker_id for piece in new.pieces}, self._config.consent)
            _require_room(unit.jobs, new, bounds)
            job = unit.jobs.add(str(uuid.uuid4()), new, datetime.now(UTC))
            if key is not None:
                unit.ledger.remember(key, job.id)
        return job

    def added_before(self, key: RequestKey) -> Job | None:
        """The job that this key made, None if it made none. Raises: KeyReused, JobNotFound, StoreUnavailable."""
        with self._database.reading_session() as session:
            earlier = UnitOfWork.of(session).ledger.answered(key.of(self._tenant))
            return None if earlier is None else JobQueries(session).get(earlier)

    def get(self, job_id: str) -> Job:
        """The job. Raises: JobNotFound, StoreUnavailable."""
        with self._database.reading_session() as session:
            return JobQueries(session).get(job_id)

    def text(self, job_id: str) -> str:
        """The text as it was sent; empty once nothing of it can be heard. Raises: JobNotFound, StoreUnavailable."""
        with self._database.reading_session() as session:
            return JobQueries(session).text(job_id)

    def pieces(self, job_id: str, *states: str) -> list[Piece]:
        """The pieces in order, those in these states or all. Raises: StoreUnavailable."""
        with self._database.reading_session() as session:
            return JobQueries(session).pieces(job_id, *states)

    def page(self, cursor: str | None = None, limit: int = 50) -> JobPage:
        """One page, the newest first. Raises: BadArgument (bad_cursor, bad_limit), StoreUnavailable."""
        checks.check_limit(limit, "limit")
        with self._database.reading_session() as session:
            return JobQueries(session).page(cursor, limit)

    def counts(self) -> Mapping[str, int]:
        """How many jobs are in each state that any is in. Raises: StoreUnavailable."""
        with self._database.reading_session() as session:
            return JobQueries(session).counts()

    def cancel(self, job_id: str) -> Job:
        """The job, ended unless it had ended. Raises: JobNotFound, StoreUnavailable."""
        with self._database.writing_session() as session:
            job = JobRepository(session).cancel(job_id, *self._ends())
        self.tidy()
        return job

    def delete(self, *job_ids: str) -> None:
        """Removes jobs with all they hold. Raises: JobNotFound, StoreUnavailable."""
        with self._database.write() as unit:
            gone = [unit.jobs.remove(job_id) for job_id in job_ids]
            unit.ledger.forget_requests(gone)
        for job_id in gone:
            self._files.drop(job_id)
        self._overwrite_removed()

    def expire(self) -> int:
        """Removes the jobs whose time is over; how many they were. Raises: StoreUnavailable."""
        with self._database.reading_session() as session:
            gone = JobQueries(session).expired(datetime.now(UTC))
        for job_id in gone:
            self._delete_if_there(job_id)
        return len(gone)

    def tidy(self) -> None:
        """Removes the files of jobs that ended without a sound, and of those that nobody knows."""
        found = self._files.jobs()
        with self._database.reading_session() as session:
            kept = JobQueries(session).with_pieces(found)
        for job_id in set(found) - kept:
            self._files.drop(job_id)

    def end_of_speakers(self, unit: UnitOfWork, speaker_ids: Collection[str]) -> None:
        """Ends what these speakers have a part in, in the transaction that removes them; `tidy` follows it."""
        unit.jobs.end_of_speakers(speaker_ids, *self._ends())

    def lease(self, owner: str, lease_s: float, job_id: str | None = None) -> Job | None:
        """A job that nobody speaks, the oldest or this one, for the owner to speak; None where there is none.

        Raises: StoreUnavailable.
        """
        now = datetime.now(UTC)
        # Only a look, most times: it takes no writer's turn.
        with self._database.reading_session() as session:
            if JobQueries(session).free(now, job_id) is None:
                return None
        with self._database.writing_session() as session:
            return JobRepository(session).lease(owner, now, now + timedelta(seconds=lease_s), job_id)

    def renew(self, owner: str, job_ids: Sequence[str], lease_s: float) -> None:
        """The owner still speaks these jobs. Raises: StoreUnavailable."""
        with self._database.writing_session() as session:
            JobRepository(session).renew(owner, job_ids, datetime.now(UTC) + timedelta(seconds=lease_s))

    def is_owned(self, job_id: str, owner: str) -> bool:
        """Whether the owner still is who speaks the job. Raises: StoreUnavailable."""
        with self._database.reading_session() as session:
            return JobQueries(session).is_owned(job_id, owner)

    def hold_back(self, job_id: str, owner: str, for_s: float = 0.0, why: tuple[str, str] | None = None) -> None:
        """Gives the job back, to be taken after that time; `why` is a code and words. Raises: StoreUnavailable."""
        until = datetime.now(UTC) + timedelta(seconds=for_s) if for_s else None
        with self._database.writing_session() as session:
            JobRepository(session).hold_back(job_id, owner, until, why)

    def match(self, job_id: str, voices: Mapping[str, str]) -> None:
        """Has those pieces spoken again whose file is gone, or that were spoken by another voice than these, which are
        digests by speaker; and removes files that no piece names. For who holds the lease. Raises: StoreUnavailable."""
        handled = self.pieces(job_id, DONE, BAD)
        stale = [piece.number for piece in handled if voices.get(piece.speaker_id) != piece.voice_sha256]
        stale += self._files.missing(job_id, [piece for piece in handled if piece.state == DONE])
        if stale:
            with self._database.writing_session() as session:
                JobRepository(session).anew(job_id, stale)
        self._files.keep_only(job_id, {str(piece.file) for piece in handled if piece.number not in stale})

    def keep(self, job_id: str, owner: str, spoken: SpokenPiece, max_bytes: int) -> bool:
        """Keeps a piece that is spoken; False, and nothing is kept, where the job is the owner's no longer.

        Raises: StorageFull, StoreUnavailable.
        """
        with self._database.reading_session() as session:
            if JobQueries(session).held_bytes() + len(spoken.data) > max_bytes:
                raise _full(max_bytes)
        file = self._files.write(job_id, spoken.number, spoken.data)
        is_kept = False
        try:
            with self._database.writing_session() as session:
                digest = hashlib.sha256(spoken.data).hexdigest()
                is_kept = JobRepository(session).keep(job_id, owner, spoken, file, digest)
        finally:
            if not is_kept:
                self._files.remove(job_id, file)
        return is_kept

    def give_up(self, job_id: str, owner: str, number: int, voice_sha256: str, why: tuple[str, str]) -> bool:
        """Notes a piece that nothing could be made of, with a code and words; False as in `keep`."""
        with self._database.writing_session() as session:
            return JobRepository(session).give_up(job_id, owner, number, voice_sha256, why)

    def finish(self, job_id: str, owner: str, state: str, why: tuple[str, str] = ("", "")) -> bool:
        """Ends the job; False where it is the owner's no longer. Raises: StoreUnavailable."""
        with self._database.writing_session() as session:
            is_ended = JobRepository(session).finish(job_id, owner, state, self._ends(), why)
        self.tidy()
        return is_ended

    def read(self, job_id: str, piece: Piece) -> bytes | None:
        """The bytes of a piece that is done; None where they are gone or damaged."""
        return self._files.read(job_id, piece)

    def missing(self, job_id: str, pieces: Collection[Piece]) -> list[int]:
        """The numbers of those of these done pieces whose file is gone or cut."""
        return self._files.missing(job_id, pieces)

    def speak_anew(self, job_id: str, numbers: Sequence[int]) -> None:
        """Has these pieces spoken again, and with them a job that was done. Raises: StoreUnavailable."""
        with self._database.writing_session() as session:
            JobRepository(session).anew(job_id, numbers)

    def _ends(self) -> tuple[datetime, datetime]:
        now = datetime.now(UTC)
        return now, now + timedelta(seconds=self._config.job_keep_s)

    def _delete_if_there(self, job_id: str) -> None:
        try:
            self.delete(job_id)
        except StoreError as error:
            _log.info("an expired job was not removed now: %s", error.message)

    def _overwrite_removed(self) -> None:
        try:
            self._database.overwrite_removed()
        except StoreError as error:
            _log.warning("removed texts could not be overwritten on disk now: %s", error)


def _require_speakers(unit: UnitOfWork, speaker_ids: set[str], policy: ConsentPolicy) -> None:
    if missing := speaker_ids - unit.speakers.existing(speaker_ids).keys():
        message = f"{len(missing)} of the job's speakers were deleted meanwhile: list the speakers to see who is there"
        raise SpeakerNotFound("speaker_not_found", message)
    for speaker_id in sorted(speaker_ids):
        unit.consents.check_spoken(speaker_id, policy)


def _require_room(jobs: JobQueries, new: NewJob, bounds: JobBounds) -> None:
    n_unfinished = jobs.n_unfinished()
    if n_unfinished >= bounds.max_unfinished:
        message = f"{n_unfinished} jobs are not finished, which is the limit: wait for one, or cancel one"
        raise TooManyJobs("too_many_jobs", message, limit=bounds.max_unfinished)
    if jobs.promised_bytes() + new.expected_bytes > bounds.max_bytes:
        raise _full(bounds.max_bytes)


def _full(max_bytes: int) -> StorageFull:
    message = f"the jobs fill the {max_bytes} bytes that they may: delete jobs that were downloaded, or wait"
    return StorageFull("jobs_full", message, limit_bytes=max_bytes)
