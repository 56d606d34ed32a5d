"""The repository of jobs: rows in and out of the tables, inside a transaction that someone else opened."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from sqlalchemy import ColumnElement, CursorResult, Update, and_, case, delete, func, insert, literal, select, update

from store.jobs_queries import JobQueries, is_free, is_owned_by, job_of
from store.jobs_types import (
    AUDIBLE,
    BAD,
    CANCELLED,
    DONE,
    FAILED,
    GONE_DETAIL,
    RUNNING,
    SPEAKER_GONE,
    UNFINISHED,
    WAITING,
    Job,
    NewJob,
    SpokenPiece,
)
from store.tables import JobPieceRow, JobRow, UtcDateTime
from store.tenants import tenant_of
from store.voices import affected, chunks

# From here on those who have pieces are looked up, instead of those who go.
_MANY = 1000
_EMPTY: dict[str, Any] = dict.fromkeys(("code", "detail", "voice_sha256", "file", "sha256"))
_EMPTY |= {"state": WAITING, "n_samples": 0, "n_bytes": 0, "spent_s": 0.0}
_UNOWNED = {"owner": None, "owned_until": None}


class JobRepository(JobQueries):
    """Jobs and their pieces."""

    def add(self, job_id: str, new: NewJob, now: datetime) -> Job:
        """The new job of this id."""
        row = JobRow(
            id=job_id,
            tenant=tenant_of(self._session) or "",
            title=new.title,
            text=new.text,
            options=dict(new.options),
            chapters=[list(chapter) for chapter in new.chapters],
            state=WAITING,
            n_chars=sum(piece.stop_char - piece.start_char for piece in new.pieces),
            n_pieces=len(new.pieces),
            expected_bytes=new.expected_bytes,
            created_at=now,
        )
        self._session.add(row)
        self._session.flush()
        places = ("speaker_id", "start_char", "stop_char", "pause_s")
        rows = [{name: getattr(piece, name) for name in places} for piece in new.pieces]
        self._session.execute(
            insert(JobPieceRow), [{**_EMPTY, **each, "job_id": job_id, "number": n} for n, each in enumerate(rows)]
        )
        return job_of(row)

    def lease(self, owner: str, now: datetime, until: datetime, job_id: str | None) -> Job | None:
        """The oldest job that nobody speaks, or this one, given to the owner; None where there is none."""
        started = func.coalesce(JobRow.started_at, literal(now, UtcDateTime))
        values = {"state": RUNNING, "owner": owner, "owned_until": until, "started_at": started}
        # Another may be quicker: what was true is asked again by the change itself, and then there may be a next job.
        while (found := self.free(now, job_id)) is not None:
            if self._change(update(JobRow).where(JobRow.id == found, is_free(now)).values(values)):
                return self.get(found)
        return None

    def renew(self, owner: str, job_ids: Sequence[str], until: datetime) -> None:
        """The owner still speaks these jobs."""
        self._change(update(JobRow).where(JobRow.id.in_(job_ids), is_owned_by(owner)).values(owned_until=until))

    def hold_back(self, job_id: str, owner: str, until: datetime | None, why: tuple[str, str] | None) -> None:
        """Gives the job back; nobody takes it before that time."""
        code, detail = why or (None, None)
        values = {"state": WAITING, "owner": None, "owned_until": until, "code": code, "detail": detail}
        self._change(update(JobRow).where(JobRow.id == job_id, is_owned_by(owner)).values(values))

    def keep(self, job_id: str, owner: str, spoken: SpokenPiece, file: str, sha256: str) -> bool:
        """Notes a piece that is spoken; False where the job is the owner's no longer."""
        facts = {"sample_rate": spoken.sample_rate, "model": spoken.model, "code": None, "detail": None}
        values: dict[str, Any] = {"state": DONE, "file": file, "sha256": sha256, "n_bytes": len(spoken.data)}
        values |= {"code": None, "detail": None, "n_samples": spoken.n_samples, "spent_s": spoken.spent_s}
        return self._handle(job_id, owner, spoken.number, values | {"voice_sha256": spoken.voice_sha256}, facts)

    def give_up(self, job_id: str, owner: str, number: int, voice_sha256: str, why: tuple[str, str]) -> bool:
        """Notes a piece that nothing could be made of; False where the job is the owner's no longer."""
        values = {**_EMPTY, "state": BAD, "code": why[0], "detail": why[1], "voice_sha256": voice_sha256}
        return self._handle(job_id, owner, number, values, {})

    def anew(self, job_id: str, numbers: Sequence[int]) -> None:
        """Has these pieces spoken again, and with them a job that was done."""
        mine = JobPieceRow.job_id == job_id
        self._change(update(JobPieceRow).where(mine, JobPieceRow.number.in_(numbers)).values(_EMPTY))
        finished = and_(JobRow.id == job_id, JobRow.state.in_(AUDIBLE))
        self._change(update(JobRow).where(finished).values(state=WAITING, finished_at=None, expires_at=None))
        self._recount(job_id)

    def finish(
        self, job_id: str, owner: str, state: str, ends: tuple[datetime, datetime], why: tuple[str, str]
    ) -> bool:
        """Ends the job, now and until it expires; False where it is the owner's no longer."""
        values = _ended(state, *ends) | {"code": why[0] or None, "detail": why[1] or None}
        is_ended = self._change(update(JobRow).where(JobRow.id == job_id, is_owned_by(owner)).values(values)) > 0
        if is_ended and state == FAILED:
            self._empty([job_id])
        return is_ended

    def cancel(self, job_id: str, now: datetime, expires_at: datetime) -> Job:
        """The job, which ends now unless it has ended. Raises: JobNotFound."""
        row = self._row(job_id)
        mine = and_(JobRow.id == row.id, JobRow.state.in_(UNFINISHED))
        if self._change(update(JobRow).where(mine).values(_ended(CANCELLED, now, expires_at))):
            self._empty([row.id])
        self._session.expire_all()
        return self.get(row.id)

    def end_of_speakers(self, speaker_ids: Collection[str], now: datetime, expires_at: datetime) -> None:
        """Ends all jobs that these speakers have a part in, and removes their pieces."""
        jobs = self._jobs_of(speaker_ids)
        for ids in chunks(sorted(jobs)):
            ends = _ended(SPEAKER_GONE, now, expires_at) | {"code": SPEAKER_GONE, "detail": GONE_DETAIL}
            self._change(update(JobRow).where(JobRow.id.in_(ids)).values(ends))
            self._empty(ids)

    def remove(self, job_id: str) -> str:
        """The id of the job, which is gone. Raises: JobNotFound."""
        found = self._row(job_id).id
        affected(self._session, delete(JobPieceRow).where(JobPieceRow.job_id == found))
        affected(self._session, delete(JobRow).where(JobRow.id == found))
        return str(found)

    def _handle(
        self, job_id: str, owner: str, number: int, values: Mapping[str, Any], facts: Mapping[str, Any]
    ) -> bool:
        # The job's row first: whoever ends the job waits for it, or is seen here.
        mine = and_(JobRow.id == job_id, is_owned_by(owner))
        if not self._change(update(JobRow).where(mine).values({"owner": owner, **facts})):
            return False
        piece = and_(JobPieceRow.job_id == job_id, JobPieceRow.number == number)
        self._change(update(JobPieceRow).where(piece).values(values))
        self._recount(job_id)
        return True

    def _recount(self, job_id: str) -> None:
        is_handled, is_bad = JobPieceRow.state != WAITING, JobPieceRow.state == BAD
        n_chars = JobPieceRow.stop_char - JobPieceRow.start_char
        sums = {
            "n_done": _count(is_handled),
            "n_bad": _count(is_bad),
            "chars_done": func.sum(case((is_handled, n_chars), else_=0)),
            "n_samples": func.sum(JobPieceRow.n_samples),
            "n_bytes": func.sum(JobPieceRow.n_bytes),
            "spent_s": func.sum(JobPieceRow.spent_s),
        }
        found = self._session.execute(select(*sums.values()).where(JobPieceRow.job_id == job_id)).one()
        values = dict(zip(sums, (value or 0 for value in found), strict=True))
        self._change(update(JobRow).where(JobRow.id == job_id).values(values))

    def _empty(self, job_ids: Sequence[str]) -> None:
        """Nothing of these jobs can be heard any more, so nothing of them is kept but what became of them."""
        affected(self._session, delete(JobPieceRow).where(JobPieceRow.job_id.in_(job_ids)))
        self._change(update(JobRow).where(JobRow.id.in_(job_ids)).values(text="", title="", chapters=[], n_bytes=0))

    def _jobs_of(self, speaker_ids: Collection[str]) -> set[str]:
        pairs = select(JobPieceRow.job_id, JobPieceRow.speaker_id).distinct()
        if len(speaker_ids) >= _MANY:
            gone = frozenset(speaker_ids)
            return {job_id for job_id, speaker_id in self._session.execute(pairs) if speaker_id in gone}
        found = (self._session.execute(pairs.where(JobPieceRow.speaker_id.in_(ids)))
                 for ids in chunks(list(speaker_ids)))  # fmt: skip
        return {job_id for rows in found for job_id, _ in rows}

    def _change(self, statement: Update) -> int:
        result = self._session.execute(statement, execution_options={"synchronize_session": False})
        return cast(CursorResult[Any], result).rowcount


def _count(which: ColumnElement[bool]) -> ColumnElement[int]:
    return func.sum(case((which, 1), else_=0))


def _ended(state: str, now: datetime, expires_at: datetime) -> dict[str, object]:
    return {**_UNOWNED, "state": state, "finished_at": now, "expires_at": expires_at}
