"""Speakers that were deleted and can still be brought back, until their time is over."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import delete, func, insert, literal, select
from sqlalchemy.orm import Session

from store.checks import name_key
from store.errors import NameTaken
from store.tables import (
    ClipColumns,
    ClipRow,
    Owned,
    SpeakerColumns,
    SpeakerRow,
    TombstoneRow,
    TrashedClipRow,
    TrashedSpeakerRow,
    UsageRow,
    UtcDateTime,
)
from store.tenants import of_tenant
from store.types import DeletedSpeaker
from store.voices import affected, chunks, not_found, required_id

_SPEAKER = sorted({**SpeakerColumns.__annotations__, **Owned.__annotations__})
_CLIP = [*sorted(ClipColumns.__annotations__), "speaker_id"]


class TrashRepository:
    """Rows in and out of the trash, inside a transaction that someone else opened."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def copy(self, speaker_ids: Sequence[str], now: datetime, purge_after: datetime) -> None:
        """Puts copies of these speakers here; who calls this removes the originals."""
        when = (literal(now, UtcDateTime), literal(purge_after, UtcDateTime))
        for ids in chunks(speaker_ids):
            usage = (UsageRow.last_used_at, UsageRow.uses)
            speakers = select(*(getattr(SpeakerRow, name) for name in _SPEAKER), *usage, *when)
            speakers = speakers.join(UsageRow, UsageRow.speaker_id == SpeakerRow.id).where(SpeakerRow.id.in_(ids))
            columns = [*_SPEAKER, "last_used_at", "uses", "deleted_at", "purge_after"]
            self._session.execute(insert(TrashedSpeakerRow).from_select(columns, speakers))
            clips = select(*(getattr(ClipRow, name) for name in _CLIP)).where(ClipRow.speaker_id.in_(ids))
            self._session.execute(insert(TrashedClipRow).from_select(_CLIP, clips))

    def bring_back(self, speaker_id: str, revision: int) -> str:
        """The id of the speaker, who is where it was before, under this revision.

        Raises: SpeakerNotFound, NameTaken.
        """
        row = self._session.get(TrashedSpeakerRow, required_id(speaker_id))
        if row is None:
            raise not_found()
        key = of_tenant(row.tenant, name_key(row.name))
        if self._session.scalar(select(SpeakerRow.id).where(SpeakerRow.name_key == key)) is not None:
            message = "name belongs to another speaker by now: rename that one, then bring this one back"
            raise NameTaken("name_taken", message)
        # Its tombstone would tell every index to drop it.
        self._session.execute(delete(TombstoneRow).where(TombstoneRow.speaker_id == row.id))
        columns = {name: getattr(row, name) for name in _SPEAKER} | {"revision": revision, "name_key": key}
        self._session.execute(insert(SpeakerRow).values(**columns))
        self._session.execute(insert(UsageRow).values(speaker_id=row.id, last_used_at=row.last_used_at, uses=row.uses))
        clips = select(*(getattr(TrashedClipRow, name) for name in _CLIP)).where(TrashedClipRow.speaker_id == row.id)
        self._session.execute(insert(ClipRow).from_select(_CLIP, clips))
        self.remove([row.id])
        return row.id

    def remove(self, speaker_ids: Sequence[str]) -> tuple[int, int]:
        """Deletes these speakers for good; how many speakers and clips there were."""
        n_speakers = n_clips = 0
        for ids in chunks(speaker_ids):
            of_clips = delete(TrashedClipRow).where(TrashedClipRow.speaker_id.in_(ids))
            n_clips += affected(self._session, of_clips)
            of_speakers = delete(TrashedSpeakerRow).where(TrashedSpeakerRow.id.in_(ids))
            n_speakers += affected(self._session, of_speakers)
        return n_speakers, n_clips

    def expired(self, now: datetime) -> list[str]:
        """The speakers whose time is over."""
        statement = select(TrashedSpeakerRow.id).where(TrashedSpeakerRow.purge_after <= literal(now, UtcDateTime))
        return list(self._session.scalars(statement.order_by(TrashedSpeakerRow.id)))

    def existing(self, speaker_ids: Sequence[str] | None = None) -> set[str]:
        """Those of these speakers that are here; with None, all that are."""
        if speaker_ids is None:
            return set(self._session.scalars(select(TrashedSpeakerRow.id)))
        found: set[str] = set()
        for ids in chunks(speaker_ids):
            found |= set(self._session.scalars(select(TrashedSpeakerRow.id).where(TrashedSpeakerRow.id.in_(ids))))
        return found

    def list(self, limit: int) -> tuple[DeletedSpeaker, ...]:
        """Who was deleted last, first."""
        row = TrashedSpeakerRow
        statement = select(row.id, row.name, row.deleted_at, row.purge_after, row.n_clips)
        statement = statement.order_by(row.deleted_at.desc(), row.id).limit(limit)
        return tuple(DeletedSpeaker(*found) for found in self._session.execute(statement))

    def count(self) -> int:
        """How many speakers are here."""
        return self._session.scalar(select(func.count()).select_from(TrashedSpeakerRow)) or 0
