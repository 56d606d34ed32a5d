"""The SQL tables of API keys."""

from datetime import datetime

from sqlalchemy import JSON, BigInteger, ForeignKey, Index, Integer, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from store.tables import ID_CHARACTERS, TENANT_CHARACTERS, Base, UtcDateTime


class ApiKeyRow(Base):
    """A key of a client: its terms, and of its secret only the SHA-256 and how it begins."""

    __tablename__ = "api_keys"
    __table_args__ = (Index(None, "created_at", "id"),)

    id: Mapped[str] = mapped_column(String(ID_CHARACTERS), primary_key=True)
    name: Mapped[str] = mapped_column(Text)
    prefix: Mapped[str] = mapped_column(String(16))
    secret_sha256: Mapped[str] = mapped_column(String(64), unique=True)
    tenant: Mapped[str] = mapped_column(String(TENANT_CHARACTERS), server_default="")
    scopes: Mapped[list[str]] = mapped_column(JSON)
    requests_per_minute: Mapped[int | None] = mapped_column(Integer)
    characters_per_month: Mapped[int | None] = mapped_column(BigInteger)
    max_speakers: Mapped[int | None] = mapped_column(Integer)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    expires_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    revoked_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    last_used_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class KeyUsageRow(Base):
    """What a key has had spoken in a month of the UTC calendar, as `2026-11`."""

    __tablename__ = "key_usage"

    key_id: Mapped[str] = mapped_column(ForeignKey("api_keys.id", ondelete="CASCADE"), primary_key=True)
    month: Mapped[str] = mapped_column(String(7), primary_key=True)
    characters: Mapped[int] = mapped_column(BigInteger)
