"""Jobs and their pieces in the tables, inside a transaction that someone else opened."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from sqlalchemy import (
    ColumnElement,
    CursorResult,
    Update,
    and_,
    case,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.orm import Session

from store.checks import as_speaker_id, read_cursor, write_cursor
from store.errors import JobNotFound
from store.jobs_types import (
    AUDIBLE,
    BAD,
    CANCELLED,
    DONE,
    FAILED,
    RUNNING,
    SPEAKER_GONE,
    UNFINISHED,
    WAITING,
    Job,
    JobPage,
    NewJob,
    Piece,
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


class JobQueries:
    """Rows of jobs in and out."""

    def __init__(self, session: Session) -> None:
        self._session = session

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
        return _job(row)

    def get(self, job_id: str) -> Job:
        """The job. Raises: JobNotFound."""
        return _job(self._row(job_id))

    def text(self, job_id: str) -> str:
        """The job's text, empty where nothing of it can be heard any more. Raises: JobNotFound."""
        return str(self._row(job_id).text)

    def pieces(self, job_id: str, *states: str) -> list[Piece]:
        """The job's pieces in order, those in these states or all."""
        statement = select(JobPieceRow).where(JobPieceRow.job_id == job_id).order_by(JobPieceRow.number)
        if states:
            statement = statement.where(JobPieceRow.state.in_(states))
        return [_piece(row) for row in self._session.scalars(statement)]

    def page(self, cursor: str | None, limit: int) -> JobPage:
        """One page, the newest first. Raises: BadArgument (bad_cursor)."""
        own = [] if (tenant := tenant_of(self._session)) is None else [JobRow.tenant == tenant]
        statement = select(JobRow).where(*own).order_by(JobRow.created_at.desc(), JobRow.id.desc()).limit(limit + 1)
        if cursor is not None:
            when, job_id = read_cursor(cursor)
            statement = statement.where(tuple_(JobRow.created_at, JobRow.id) < (when, job_id))
        rows = list(self._session.scalars(statement))
        total = self._session.scalar(select(func.count()).select_from(JobRow).where(*own)) or 0
        more = write_cursor(rows[limit - 1].created_at, rows[limit - 1].id) if len(rows) > limit else None
        return JobPage(tuple(_job(row) for row in rows[:limit]), more, total)

    def counts(self) -> dict[str, int]:
        """How many jobs are in each state that any is in."""
        return dict(self._session.execute(select(JobRow.state, func.count()).group_by(JobRow.state)).all())

    def n_unfinished(self) -> int:
        """How many jobs are not finished."""
        return self._session.scalar(select(func.count()).where(JobRow.state.in_(UNFINISHED))) or 0

    def promised_bytes(self) -> int:
        """What all jobs hold, and will hold when they are done."""
        unfinished = and_(JobRow.state.in_(UNFINISHED), JobRow.expected_bytes > JobRow.n_bytes)
        share = case((unfinished, JobRow.expected_bytes), else_=JobRow.n_bytes)
        return int(self._session.scalar(select(func.sum(share))) or 0)

    def held_bytes(self) -> int:
        """What all jobs hold."""
        return int(self._session.scalar(select(func.sum(JobRow.n_bytes))) or 0)

    def lease(self, owner: str, now: datetime, until: datetime, job_id: str | None) -> Job | None:
        """The oldest job that nobody speaks, or this one, given to the owner; None where there is none."""
        free = and_(JobRow.state.in_(UNFINISHED), _is_over(now))
        asked = select(JobRow.id).where(free).order_by(JobRow.created_at, JobRow.id).limit(1)
        if job_id is not None:
            asked = asked.where(JobRow.id == job_id)
        found = self._session.scalar(asked)
        # Another may have been quicker: what was true is asked again by the change itself.
        started = func.coalesce(JobRow.started_at, literal(now, UtcDateTime))
        values = {"state": RUNNING, "owner": owner, "owned_until": until, "started_at": started}
        if found is None or not self._change(update(JobRow).where(JobRow.id == found, free).values(values)):
            return None
        return self.get(found)

    def renew(self, owner: str, job_ids: Sequence[str], until: datetime) -> None:
        """The owner still speaks these jobs."""
        self._change(update(JobRow).where(JobRow.id.in_(job_ids), _is_owned(owner)).values(owned_until=until))

    def is_owned(self, job_id: str, owner: str) -> bool:
        """Whether the owner still is the one who speaks the job."""
        return self._session.scalar(select(JobRow.id).where(JobRow.id == job_id, _is_owned(owner))) is not None

    def hold_back(self, job_id: str, owner: str, until: datetime | None, why: tuple[str, str] | None) -> None:
        """Gives the job back; nobody takes it before that time."""
        code, detail = why or (None, None)
        values = {"state": WAITING, "owner": None, "owned_until": until, "code": code, "detail": detail}
        self._change(update(JobRow).where(JobRow.id == job_id, _is_owned(owner)).values(values))

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
        is_ended = self._change(update(JobRow).where(JobRow.id == job_id, _is_owned(owner)).values(values)) > 0
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
            ends = _ended(SPEAKER_GONE, now, expires_at) | {"code": SPEAKER_GONE, "detail": "a speaker was deleted"}
            self._change(update(JobRow).where(JobRow.id.in_(ids)).values(ends))
            self._empty(ids)

    def remove(self, job_id: str) -> str:
        """The id of the job, which is gone. Raises: JobNotFound."""
        found = self._row(job_id).id
        affected(self._session, delete(JobPieceRow).where(JobPieceRow.job_id == found))
        affected(self._session, delete(JobRow).where(JobRow.id == found))
        return str(found)

    def expired(self, now: datetime) -> list[str]:
        """The ids of the jobs whose time is over."""
        return list(self._session.scalars(select(JobRow.id).where(JobRow.expires_at <= literal(now, UtcDateTime))))

    def with_pieces(self, job_ids: Sequence[str]) -> set[str]:
        """Those of the jobs whose pieces are to be kept."""
        kept = JobRow.state.in_((*UNFINISHED, *AUDIBLE))
        return {each for ids in chunks(job_ids)
                for each in self._session.scalars(select(JobRow.id).where(JobRow.id.in_(ids), kept))}  # fmt: skip

    def _row(self, job_id: str) -> JobRow:
        canonical = as_speaker_id(job_id)
        row = None if canonical is None else self._session.get(JobRow, canonical)
        if row is None or tenant_of(self._session) not in (None, row.tenant):
            raise JobNotFound("job_not_found", "there is no such job: list the jobs to see those there are")
        return row

    def _handle(
        self, job_id: str, owner: str, number: int, values: Mapping[str, Any], facts: Mapping[str, Any]
    ) -> bool:
        # The job's row first: whoever ends the job waits for it, or is seen here.
        mine = and_(JobRow.id == job_id, _is_owned(owner))
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


def _is_owned(owner: str) -> ColumnElement[bool]:
    return and_(JobRow.owner == owner, JobRow.state == RUNNING)


def _is_over(now: datetime) -> ColumnElement[bool]:
    return or_(JobRow.owned_until.is_(None), JobRow.owned_until < literal(now, UtcDateTime))


def _count(which: ColumnElement[bool]) -> ColumnElement[int]:
    return func.sum(case((which, 1), else_=0))


def _ended(state: str, now: datetime, expires_at: datetime) -> dict[str, object]:
    return {**_UNOWNED, "state": state, "finished_at": now, "expires_at": expires_at}


def _job(row: JobRow) -> Job:
    names = [name for name in Job.__slots__ if name not in ("chapters", "options")]
    chapters = tuple((str(title), int(cast(int, first))) for title, first in row.chapters)
    return Job(**{name: getattr(row, name) for name in names}, chapters=chapters, options=dict(row.options))


def _piece(row: JobPieceRow) -> Piece:
    return Piece(**{name: getattr(row, name) for name in Piece.__slots__})
