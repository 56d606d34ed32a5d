"""What API keys have used, and whether they may have more: counted in SQL, so the last unit is given once."""

from dataclasses import replace
from datetime import UTC, datetime

from sqlalchemy import func, select, text, update
from sqlalchemy.orm import Session

from store.errors import KeyNotFound, QuotaExceeded
from store.key_tables import ApiKeyRow, KeyUsageRow
from store.key_types import ApiKey, Spending
from store.tables import SpeakerRow

_BEGIN = "INSERT INTO key_usage (key_id, month, characters) VALUES (:key_id, :month, 0) ON CONFLICT DO NOTHING"


class KeyUsage:
    """Characters and speakers of keys, inside a transaction that someone else opened."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def spend(self, key_id: str, characters: int, now: datetime) -> Spending:
        """Counts the characters if the key may still have all of them. Raises: QuotaExceeded, KeyNotFound."""
        month = month_of(now)
        limit = self._limits(key_id).characters_per_month
        if limit is None:
            return Spending(key_id, month, characters, self.count(key_id, now, characters), None)
        self._begin(key_id, month)
        row = KeyUsageRow
        statement = (
            update(row)
            .where(row.key_id == key_id, row.month == month, row.characters + characters <= limit)
            .values(characters=row.characters + characters)
            .returning(row.characters)
        )
        used = self._session.scalar(statement, execution_options={"synchronize_session": False})
        if used is None:
            raise _too_many_characters(limit, self.characters(key_id, now), characters, now)
        return Spending(key_id, month, characters, used, limit)

    def give_back(self, spending: Spending) -> None:
        """Takes the characters off again, from the month in which they were counted."""
        row = KeyUsageRow
        statement = update(row).where(row.key_id == spending.key_id, row.month == spending.month)
        statement = statement.values(characters=row.characters - spending.characters)
        self._session.execute(statement, execution_options={"synchronize_session": False})

    def count(self, key_id: str, at: datetime, characters: int) -> int:
        """Counts characters whatever the limit; how many there are now."""
        if characters:
            self._begin(key_id, month_of(at))
            row = KeyUsageRow
            statement = update(row).where(row.key_id == key_id, row.month == month_of(at))
            statement = statement.values(characters=row.characters + characters)
            self._session.execute(statement, execution_options={"synchronize_session": False})
        return self.characters(key_id, at)

    def characters(self, key_id: str, now: datetime) -> int:
        """How many characters the key has had spoken in this month."""
        row = KeyUsageRow
        statement = select(row.characters).where(row.key_id == key_id, row.month == month_of(now))
        return self._session.scalar(statement) or 0

    def n_speakers(self, key_id: str) -> int:
        """How many stored speakers the key has enrolled."""
        statement = select(func.count()).select_from(SpeakerRow).where(SpeakerRow.key_id == key_id)
        return self._session.scalar(statement) or 0

    def check_room(self, key_id: str, n_more: int = 1) -> None:
        """Raises: QuotaExceeded, where the key may not have so many more speakers; KeyNotFound."""
        limit = self._limits(key_id).max_speakers
        if limit is None:
            return
        used = self.n_speakers(key_id)
        if used + n_more > limit:
            message = f"speakers: the key has enrolled {used} of {limit} that are stored; delete one, or ask for more"
            # Time alone makes no room.
            never: dict[str, object] = {"resets_at": None, "retry_after_s": None}
            raise QuotaExceeded("quota_exceeded", message, quota="speakers", limit=limit, used=used, **never)

    def check_brought_back(self, speaker_id: str) -> None:
        """Raises: QuotaExceeded, where the key that enrolled the speaker has too many now."""
        key_id = self._session.scalar(select(SpeakerRow.key_id).where(SpeakerRow.id == speaker_id))
        if key_id is not None and self.exists(key_id):
            self.check_room(key_id, n_more=0)

    def added_to(self, key: ApiKey) -> ApiKey:
        """The key with what it has used."""
        used = self.characters(key.id, datetime.now(UTC))
        return replace(key, characters_this_month=used, n_speakers=self.n_speakers(key.id))

    def exists(self, key_id: str) -> bool:
        """Whether the key is there, and stays there until this transaction ends."""
        return self._row(key_id) is not None

    def _limits(self, key_id: str) -> ApiKeyRow:
        row = self._row(key_id)
        if row is None:
            raise KeyNotFound("api_key_not_found", "the key was deleted just now")
        return row

    def _row(self, key_id: str) -> ApiKeyRow | None:
        return self._session.get(ApiKeyRow, key_id, with_for_update={"read": True, "key_share": True})

    def _begin(self, key_id: str, month: str) -> None:
        self._session.execute(text(_BEGIN), {"key_id": key_id, "month": month})


def month_of(when: datetime) -> str:
    """The month of the UTC calendar, as `2026-11`."""
    return when.astimezone(UTC).strftime("%Y-%m")


def month_begin(when: datetime) -> datetime:
    """When this month began."""
    return datetime(when.astimezone(UTC).year, when.astimezone(UTC).month, 1, tzinfo=UTC)


def month_end(when: datetime) -> datetime:
    """When the next month begins."""
    year, month = divmod(when.astimezone(UTC).year * 12 + when.astimezone(UTC).month, 12)
    return datetime(year, month + 1, 1, tzinfo=UTC)


def _too_many_characters(limit: int, used: int, asked: int, now: datetime) -> QuotaExceeded:
    resets_at = month_end(now)
    message = (
        f"characters: {used} of {limit} are spoken this month and the text has {asked}; "
        f"wait until {resets_at:%Y-%m-%dT%H:%M:%SZ}, send less, or ask for more"
    )
    return QuotaExceeded(
        "quota_exceeded",
        message,
        quota="characters",
        limit=limit,
        used=used,
        asked=asked,
        resets_at=f"{resets_at:%Y-%m-%dT%H:%M:%SZ}",
        retry_after_s=int((resets_at - now).total_seconds()) + 1,
    )
