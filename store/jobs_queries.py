"""What is asked of the tables of jobs, inside a transaction that someone else opened. Nothing here writes."""

from collections.abc import Sequence
from datetime import datetime
from typing import cast

from sqlalchemy import ColumnElement, and_, case, func, literal, or_, select, tuple_
from sqlalchemy.orm import Session

from store.checks import as_speaker_id, read_cursor, write_cursor
from store.errors import JobNotFound
from store.jobs_types import AUDIBLE, RUNNING, UNFINISHED, Job, JobPage, Piece
from store.tables import JobPieceRow, JobRow, UtcDateTime
from store.tenants import tenant_of
from store.voices import chunks


class JobQueries:
    """Queries of jobs and their pieces."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def get(self, job_id: str) -> Job:
        """The job. Raises: JobNotFound."""
        return job_of(self._row(job_id))

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
        return JobPage(tuple(job_of(row) for row in rows[:limit]), more, total)

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

    def is_owned(self, job_id: str, owner: str) -> bool:
        """Whether the owner still is the one who speaks the job."""
        return self._session.scalar(select(JobRow.id).where(JobRow.id == job_id, is_owned_by(owner))) is not None

    def expired(self, now: datetime) -> list[str]:
        """The ids of the jobs whose time is over."""
        return list(self._session.scalars(select(JobRow.id).where(JobRow.expires_at <= literal(now, UtcDateTime))))

    def with_pieces(self, job_ids: Sequence[str]) -> set[str]:
        """Those of the jobs whose pieces are to be kept."""
        kept = JobRow.state.in_((*UNFINISHED, *AUDIBLE))
        return {each for ids in chunks(job_ids)
                for each in self._session.scalars(select(JobRow.id).where(JobRow.id.in_(ids), kept))}  # fmt: skip

    def free(self, now: datetime, job_id: str | None) -> str | None:
        """The id of the oldest job that nobody speaks, or of this one; None where there is none."""
        asked = select(JobRow.id).where(is_free(now)).order_by(JobRow.created_at, JobRow.id).limit(1)
        return self._session.scalar(asked if job_id is None else asked.where(JobRow.id == job_id))

    def _row(self, job_id: str) -> JobRow:
        canonical = as_speaker_id(job_id)
        row = None if canonical is None else self._session.get(JobRow, canonical)
        if row is None or tenant_of(self._session) not in (None, row.tenant):
            raise JobNotFound("job_not_found", "there is no such job: list the jobs to see those there are")
        return row


def is_owned_by(owner: str) -> ColumnElement[bool]:
    """Whose job the owner speaks."""
    return and_(JobRow.owner == owner, JobRow.state == RUNNING)


def is_free(now: datetime) -> ColumnElement[bool]:
    """Whose job nobody speaks, nor will before that time."""
    is_over = or_(JobRow.owned_until.is_(None), JobRow.owned_until < literal(now, UtcDateTime))
    return and_(JobRow.state.in_(UNFINISHED), is_over)


def job_of(row: JobRow) -> Job:
    """The row as callers see it."""
    names = [name for name in Job.__slots__ if name not in ("chapters", "options")]
    chapters = tuple((str(title), int(cast(int, first))) for title, first in row.chapters)
    return Job(**{name: getattr(row, name) for name in names}, chapters=chapters, options=dict(row.options))


def _piece(row: JobPieceRow) -> Piece:
    return Piece(**{name: getattr(row, name) for name in Piece.__slots__})
