"""The SQL tables: the truth that index, pool and snapshots are derived from."""

from datetime import UTC, datetime

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    DateTime,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Text,
    TypeDecorator,
    UniqueConstraint,
    false,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

ID_CHARACTERS = 36
ENCODER_ID_CHARACTERS = 200
TENANT_CHARACTERS = 64


class UtcDateTime(TypeDecorator[datetime]):
    """A point in time; timezone-aware in Python, UTC in every database."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a stored time must be timezone-aware")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        # SQLite drops the offset, which is always UTC on the way in.
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Base(DeclarativeBase):
    """Names of constraints are given, so that a migration can drop them on either database."""

    metadata = MetaData(
        naming_convention={
            "pk": "pk_%(table_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        }
    )


class StateRow(Base):
    """The one row that every writer locks first. `revision` rises with each change; `store_id` names this database.

    `keys_needed` is set with the first API key and never unset: who revokes or deletes the last one opens no door.
    """

    __tablename__ = "state"

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    store_id: Mapped[str] = mapped_column(String(ID_CHARACTERS))
    revision: Mapped[int] = mapped_column(BigInteger)
    keys_needed: Mapped[bool] = mapped_column(Boolean, default=False, server_default=false())


class EncoderRow(Base):
    """An encoder whose vectors are stored, and their width."""

    __tablename__ = "encoders"

    id: Mapped[str] = mapped_column(String(ENCODER_ID_CHARACTERS), primary_key=True)
    width: Mapped[int] = mapped_column(Integer)


class UsageRow(Base):
    """When a speaker was last spoken with; apart from `speakers` because it is written in bulk and often."""

    __tablename__ = "usage"

    speaker_id: Mapped[str] = mapped_column(
        String(ID_CHARACTERS), ForeignKey("speakers.id", ondelete="CASCADE"), primary_key=True
    )
    last_used_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    uses: Mapped[int] = mapped_column(BigInteger, default=0)


class Owned:
    """What belongs to a tenant, "" being the one without a name; `store.tenants` hides it from all others."""

    tenant: Mapped[str] = mapped_column(String(TENANT_CHARACTERS), default="", server_default="")


class SpeakerColumns(Owned):
    """What a speaker has, here or in the trash. `vector` is the clips' mean, float32 little-endian.

    `key_id` is the API key that enrolled it, which may be gone by now.
    """

    id: Mapped[str] = mapped_column(String(ID_CHARACTERS), primary_key=True)
    name: Mapped[str] = mapped_column(Text)
    encoder_id: Mapped[str] = mapped_column(ForeignKey("encoders.id"))
    vector: Mapped[bytes] = mapped_column(LargeBinary)
    labels: Mapped[dict[str, str]] = mapped_column(JSON)
    report: Mapped[dict[str, object]] = mapped_column(JSON)
    pinned: Mapped[bool] = mapped_column(Boolean)
    n_clips: Mapped[int] = mapped_column(Integer)
    speech_s: Mapped[float] = mapped_column(Float)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    updated_at: Mapped[datetime] = mapped_column(UtcDateTime)
    revision: Mapped[int] = mapped_column(BigInteger)
    key_id: Mapped[str | None] = mapped_column(String(ID_CHARACTERS))


class ClipColumns:
    """What a clip has, here or in the trash: its figures and its embedding, never its audio."""

    id: Mapped[str] = mapped_column(String(ID_CHARACTERS), primary_key=True)
    sha256: Mapped[str] = mapped_column(String(64))
    encoder_id: Mapped[str] = mapped_column(ForeignKey("encoders.id"))
    vector: Mapped[bytes] = mapped_column(LargeBinary)
    duration_s: Mapped[float] = mapped_column(Float)
    voiced_s: Mapped[float] = mapped_column(Float)
    n_partials: Mapped[int] = mapped_column(Integer)
    snr_db: Mapped[float | None] = mapped_column(Float)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class SpeakerRow(SpeakerColumns, Base):
    """One speaker. `name_key` is the name folded for comparison, after its tenant's where that has a name."""

    __tablename__ = "speakers"
    # Revision and id stand in one index, so that comparing them with an index reads no vector.
    __table_args__ = (
        Index(None, "created_at", "id"),
        Index(None, "tenant", "created_at", "id"),
        Index(None, "revision", "id"),
        Index(None, "key_id"),
    )

    name_key: Mapped[str] = mapped_column(Text, unique=True)

    usage: Mapped[UsageRow] = relationship(lazy="joined", innerjoin=True, passive_deletes=True)


class ClipRow(ClipColumns, Base):
    """One reference clip."""

    __tablename__ = "clips"
    __table_args__ = (UniqueConstraint("speaker_id", "sha256"), Index(None, "sha256", "encoder_id"))

    speaker_id: Mapped[str] = mapped_column(ForeignKey("speakers.id", ondelete="CASCADE"))


class TrashedSpeakerRow(SpeakerColumns, Base):
    """A deleted speaker that can still be brought back, until `purge_after`."""

    __tablename__ = "trashed_speakers"

    last_used_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    uses: Mapped[int] = mapped_column(BigInteger)
    deleted_at: Mapped[datetime] = mapped_column(UtcDateTime)
    purge_after: Mapped[datetime] = mapped_column(UtcDateTime, index=True)


class TrashedClipRow(ClipColumns, Base):
    """A clip of a deleted speaker."""

    __tablename__ = "trashed_clips"

    speaker_id: Mapped[str] = mapped_column(ForeignKey("trashed_speakers.id", ondelete="CASCADE"), index=True)


class RequestKeyRow(Base):
    """An enrolment, or a job, that was answered under a client's key, so that a repeated request makes nothing twice.

    Only digests are kept; that of the request is emptied when what it made goes. `speaker_id` is a job's for a job.
    """

    __tablename__ = "request_keys"

    key_sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    request_sha256: Mapped[str] = mapped_column(String(64))
    speaker_id: Mapped[str] = mapped_column(String(ID_CHARACTERS), index=True)
    expires_at: Mapped[datetime] = mapped_column(UtcDateTime, index=True)


class TombstoneRow(Base):
    """A speaker that is gone: nothing but its id, and the revision at which an index must drop it."""

    __tablename__ = "tombstones"

    speaker_id: Mapped[str] = mapped_column(String(ID_CHARACTERS), primary_key=True)
    revision: Mapped[int] = mapped_column(BigInteger, index=True)


class AuditRow(Base):
    """Who did what and when, to how many; no name, no id of a speaker. `receipt` is what a purge was answered with.

    The database itself refuses to change a line, or to remove one.
    """

    __tablename__ = "audit"

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    at: Mapped[datetime] = mapped_column(UtcDateTime, index=True)
    actor: Mapped[str] = mapped_column(Text)
    action: Mapped[str] = mapped_column(Text)
    n_speakers: Mapped[int] = mapped_column(Integer)
    n_clips: Mapped[int] = mapped_column(Integer)
    receipt: Mapped[dict[str, object] | None] = mapped_column(JSON(none_as_null=True))


class JobRow(Base):
    """A long text that is spoken piece by piece. Its text goes when nothing of it can be heard any more.

    `tenant` is whose it is; unlike speakers, jobs are counted and ended over all tenants.

    `owner` alone speaks it, until `owned_until`; without an owner nobody does before that time. What the pieces add up
    to stands here too.
    """

    __tablename__ = "jobs"
    __table_args__ = (Index(None, "created_at", "id"), Index(None, "tenant", "created_at", "id"))

    id: Mapped[str] = mapped_column(String(ID_CHARACTERS), primary_key=True)
    title: Mapped[str] = mapped_column(Text)
    text: Mapped[str] = mapped_column(Text, deferred=True)
    options: Mapped[dict[str, object]] = mapped_column(JSON)
    chapters: Mapped[list[list[object]]] = mapped_column(JSON)
    state: Mapped[str] = mapped_column(String(20))
    code: Mapped[str | None] = mapped_column(Text)
    detail: Mapped[str | None] = mapped_column(Text)
    model: Mapped[str | None] = mapped_column(Text)
    n_chars: Mapped[int] = mapped_column(Integer)
    chars_done: Mapped[int] = mapped_column(Integer, default=0)
    n_pieces: Mapped[int] = mapped_column(Integer)
    n_done: Mapped[int] = mapped_column(Integer, default=0)
    n_bad: Mapped[int] = mapped_column(Integer, default=0)
    n_samples: Mapped[int] = mapped_column(BigInteger, default=0)
    n_bytes: Mapped[int] = mapped_column(BigInteger, default=0)
    expected_bytes: Mapped[int] = mapped_column(BigInteger)
    sample_rate: Mapped[int | None] = mapped_column(Integer)
    spent_s: Mapped[float] = mapped_column(Float, default=0.0)
    tenant: Mapped[str] = mapped_column(String(TENANT_CHARACTERS), default="", server_default="")
    owner: Mapped[str | None] = mapped_column(String(ID_CHARACTERS))
    owned_until: Mapped[datetime | None] = mapped_column(UtcDateTime)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    started_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    finished_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    expires_at: Mapped[datetime | None] = mapped_column(UtcDateTime, index=True)


class JobPieceRow(Base):
    """One piece of a job: a place in its text, who says it, and the file in which it lies once it is spoken.

    `voice_sha256` is over all that shaped its sound besides the job's own options.
    """

    __tablename__ = "job_pieces"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    speaker_id: Mapped[str] = mapped_column(String(ID_CHARACTERS), index=True)
    start_char: Mapped[int] = mapped_column(Integer)
    stop_char: Mapped[int] = mapped_column(Integer)
    pause_s: Mapped[float] = mapped_column(Float)
    state: Mapped[str] = mapped_column(String(20))
    code: Mapped[str | None] = mapped_column(Text)
    detail: Mapped[str | None] = mapped_column(Text)
    voice_sha256: Mapped[str | None] = mapped_column(String(64))
    file: Mapped[str | None] = mapped_column(Text)
    sha256: Mapped[str | None] = mapped_column(String(64))
    n_samples: Mapped[int] = mapped_column(BigInteger, default=0)
    n_bytes: Mapped[int] = mapped_column(BigInteger, default=0)
    spent_s: Mapped[float] = mapped_column(Float, default=0.0)
