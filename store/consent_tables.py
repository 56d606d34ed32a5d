"""The SQL tables of consents and of protected voices."""

from datetime import datetime

from sqlalchemy import Float, ForeignKey, Index, LargeBinary, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from store.tables import ENCODER_ID_CHARACTERS, ID_CHARACTERS, Base, Owned, UtcDateTime


class ConsentRow(Owned, Base):
    """A consent. `speaker_id` is set once, and may be a speaker's in the trash; the vector is the recording's."""

    __tablename__ = "consents"
    __table_args__ = (Index(None, "created_at", "id"), Index(None, "speaker_id"))

    id: Mapped[str] = mapped_column(String(ID_CHARACTERS), primary_key=True)
    person: Mapped[str] = mapped_column(Text)
    name: Mapped[str] = mapped_column(Text)
    statement: Mapped[str] = mapped_column(Text)
    language: Mapped[str] = mapped_column(Text)
    granted_at: Mapped[datetime] = mapped_column(UtcDateTime)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    revoked_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    speaker_id: Mapped[str | None] = mapped_column(String(ID_CHARACTERS))
    recording_sha256: Mapped[str | None] = mapped_column(String(64))
    encoder_id: Mapped[str | None] = mapped_column(String(ENCODER_ID_CHARACTERS))
    vector: Mapped[bytes | None] = mapped_column(LargeBinary)
    voice_cosine: Mapped[float | None] = mapped_column(Float)
    voice_threshold: Mapped[float | None] = mapped_column(Float)
    word_error_rate: Mapped[float | None] = mapped_column(Float)
    word_error_limit: Mapped[float | None] = mapped_column(Float)


class ConsentRecordingRow(Base):
    """A statement as it was recorded. It lies in SQL so that it is there, and goes, in one step with its record."""

    __tablename__ = "consent_recordings"

    consent_id: Mapped[str] = mapped_column(ForeignKey("consents.id", ondelete="CASCADE"), primary_key=True)
    audio: Mapped[bytes] = mapped_column(LargeBinary)


class ProtectedVoiceRow(Base):
    """A voice that may not be enrolled, by no tenant."""

    __tablename__ = "protected_voices"

    id: Mapped[str] = mapped_column(String(ID_CHARACTERS), primary_key=True)
    name: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class ProtectedVectorRow(Base):
    """How one encoder hears a protected voice."""

    __tablename__ = "protected_vectors"
    __table_args__ = (Index(None, "encoder_id"),)

    voice_id: Mapped[str] = mapped_column(ForeignKey("protected_voices.id", ondelete="CASCADE"), primary_key=True)
    encoder_id: Mapped[str] = mapped_column(String(ENCODER_ID_CHARACTERS), primary_key=True)
    vector: Mapped[bytes] = mapped_column(LargeBinary)
