"""What an index, a pool and a search ask the tables: voices, revisions and counts. Nothing here writes."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from sqlalchemy import CursorResult, Delete, func, select, text
from sqlalchemy.orm import Session

from store.checks import as_speaker_id
from store.errors import SpeakerNotFound
from store.ids import IntArray, SpeakerIds
from store.packing import packed_rows
from store.tables import ClipRow, SpeakerRow, StateRow, TombstoneRow, TrashedClipRow
from store.types import ClipRecord, FloatArray, NewSpeaker, Speaker, SpeakerRecord

# Both databases bound the parameters of one statement.
_IDS_PER_STATEMENT = 500
ROWS_PER_FETCH = 4096
_VOICES = select(SpeakerRow.id, SpeakerRow.revision, SpeakerRow.encoder_id, SpeakerRow.vector, SpeakerRow.tenant)


@dataclass(frozen=True, slots=True)
class Position:
    """How far a database has come: which one it is, and its revision."""

    store_id: str
    revision: int


@dataclass(frozen=True, slots=True)
class VoiceRow:
    """What an index needs of a speaker. Shapes: vector float32 (d,), L2 norm 1."""

    speaker_id: str
    revision: int
    encoder_id: str
    vector: FloatArray
    tenant: str = ""


class VoiceQueries:
    """Queries inside a transaction that someone else opened."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def position(self) -> Position:
        """Which database this is, and its revision."""
        row = self._session.execute(select(StateRow.store_id, StateRow.revision)).one()
        return Position(row.store_id, row.revision)

    def voice_key(self, speaker_id: str) -> tuple[str, str, int]:
        """The speaker's id, encoder and revision. Raises: SpeakerNotFound."""
        statement = select(SpeakerRow.id, SpeakerRow.encoder_id, SpeakerRow.revision)
        row = self._session.execute(statement.where(SpeakerRow.id == required_id(speaker_id))).one_or_none()
        if row is None:
            raise not_found()
        return row.id, row.encoder_id, row.revision

    def clip_digests(self, speaker_ids: Sequence[str]) -> dict[str, set[str]]:
        """The sha256 of every clip of each of these speakers, here or in the trash."""
        found: dict[str, set[str]] = {speaker_id: set() for speaker_id in speaker_ids}
        for ids in chunks(speaker_ids):
            for row in (ClipRow, TrashedClipRow):
                statement = select(row.speaker_id, row.sha256).where(row.speaker_id.in_(ids))
                for speaker_id, sha256 in self._session.execute(statement):
                    found[speaker_id].add(sha256)
        return found

    def clip_vectors(self, speaker_id: str) -> list[FloatArray]:
        """The vector of each of the speaker's clips. Shapes: float32 (d,), L2 norm 1."""
        found = select(ClipRow.vector).where(ClipRow.speaker_id == speaker_id)
        return list(map(to_vector, self._session.scalars(found)))

    def voice(self, speaker_id: str) -> VoiceRow:
        """The speaker's vector and what it belongs to. Raises: SpeakerNotFound."""
        row = self._session.execute(_VOICES.where(SpeakerRow.id == required_id(speaker_id))).one_or_none()
        if row is None:
            raise not_found()
        return _voice(*row)

    def voices(self, speaker_ids: Sequence[str]) -> list[VoiceRow]:
        """Those of the speakers that exist."""
        found: list[VoiceRow] = []
        for ids in chunks(speaker_ids):
            found += [_voice(*row) for row in self._session.execute(_VOICES.where(SpeakerRow.id.in_(ids)))]
        return found

    def voices_since(self, revision: int) -> Iterator[list[VoiceRow]]:
        """The speakers whose voice is newer than the revision, in batches."""
        statement = _VOICES.where(SpeakerRow.revision > revision).execution_options(yield_per=ROWS_PER_FETCH)
        for rows in self._session.execute(statement).partitions():
            yield [_voice(*row) for row in rows]

    def sample(self, encoder_id: str, limit: int) -> list[VoiceRow]:
        """At most so many voices of this encoder, by their ids, which are random: the same ones each time."""
        statement = _VOICES.where(SpeakerRow.encoder_id == encoder_id).order_by(SpeakerRow.id).limit(limit)
        return [_voice(*row) for row in self._session.execute(statement)]

    def removed_since(self, revision: int) -> tuple[SpeakerIds, int]:
        """The speakers that went after the revision, and when the last of them did; 0 where nobody went."""
        ids, revisions = packed_rows(self._session, "tombstones", "speaker_id", revision)
        return ids, int(revisions.max()) if len(revisions) else 0

    def is_gone(self, speaker_id: str) -> bool:
        """Whether the speaker was here and went."""
        return self._session.get(TombstoneRow, speaker_id) is not None

    def revisions(self) -> tuple[SpeakerIds, IntArray]:
        """Every speaker, of all tenants, and its revision. Shapes: int64 (n,)."""
        return packed_rows(self._session, "speakers", "id", -1)

    def existing(self, speaker_ids: Iterable[str]) -> dict[str, tuple[str, int]]:
        """Name and revision of those of the speakers that exist."""
        found: dict[str, tuple[str, int]] = {}
        for ids in chunks(list(speaker_ids)):
            statement = select(SpeakerRow.id, SpeakerRow.name, SpeakerRow.revision).where(SpeakerRow.id.in_(ids))
            found.update((id_, (name, revision)) for id_, name, revision in self._session.execute(statement))
        return found

    def ids_by_encoder(self) -> list[tuple[str, str]]:
        """Every speaker's id and encoder, those of one encoder together."""
        statement = select(SpeakerRow.id, SpeakerRow.encoder_id).order_by(SpeakerRow.encoder_id, SpeakerRow.id)
        return [(row.id, row.encoder_id) for row in self._session.execute(statement)]

    def encoders_of(self, speaker_ids: Sequence[str]) -> list[tuple[str, str]]:
        """As `ids_by_encoder`, of these speakers alone. Raises: SpeakerNotFound."""
        keys = [self.voice_key(speaker_id) for speaker_id in set(speaker_ids)]
        return sorted(((key[0], key[1]) for key in keys), key=lambda pair: (pair[1], pair[0]))

    def records(self, speaker_ids: Sequence[str]) -> list[SpeakerRecord]:
        """These speakers with all that moves to another store, in this order."""
        clips: dict[str, list[ClipRecord]] = {}
        rows: dict[str, SpeakerRow] = {}
        for ids in chunks(speaker_ids):
            found = select(ClipRow).where(ClipRow.speaker_id.in_(ids)).order_by(ClipRow.speaker_id, ClipRow.sha256)
            for clip in self._session.scalars(found):
                clips.setdefault(clip.speaker_id, []).append(clip_record(clip))
            rows |= {row.id: row for row in self._session.scalars(select(SpeakerRow).where(SpeakerRow.id.in_(ids)))}
        records = [_record(rows[speaker_id], clips[speaker_id]) for speaker_id in speaker_ids]
        self._session.expunge_all()
        return records

    def counts(self) -> tuple[int, int]:
        """How many speakers and clips there are."""
        n_speakers = self._session.scalar(select(func.count()).select_from(SpeakerRow)) or 0
        n_clips = self._session.scalar(select(func.count()).select_from(ClipRow)) or 0
        return n_speakers, n_clips

    def encoder_ids(self) -> tuple[str, ...]:
        """The encoders that speakers were embedded by."""
        return tuple(self._session.scalars(select(SpeakerRow.encoder_id).distinct().order_by(SpeakerRow.encoder_id)))

    def database_bytes(self) -> int:
        """What the database takes on its disk."""
        if self._session.get_bind().dialect.name == "sqlite":
            sizes = (self._session.scalar(text(f"PRAGMA {name}")) or 0 for name in ("page_count", "page_size"))
            return int(next(sizes)) * int(next(sizes))
        return int(self._session.scalar(text("SELECT pg_database_size(current_database())")) or 0)


def to_bytes(vector: FloatArray) -> bytes:
    """The vector as it is stored: float32, little-endian."""
    return vector.astype("<f4").tobytes()


def to_vector(stored: bytes) -> FloatArray:
    """The stored vector, read-only. Shapes: float32 (d,)."""
    return np.frombuffer(stored, dtype="<f4").astype(np.float32, copy=False)


def required_id(speaker_id: str) -> str:
    canonical = as_speaker_id(speaker_id)
    if canonical is None:
        raise not_found()
    return canonical


def not_found() -> SpeakerNotFound:
    # Whether it never existed or was deleted is nobody's business.
    return SpeakerNotFound("speaker_not_found", "there is no such speaker: list the speakers to see those there are")


def clip_record(row: ClipRow) -> ClipRecord:
    """The clip as callers see it."""
    return ClipRecord(row.sha256, to_vector(row.vector), row.duration_s, row.voiced_s, row.n_partials, row.snr_db)


def speaker_of(row: SpeakerRow) -> Speaker:
    """The speaker as callers see it."""
    return Speaker(
        id=row.id,
        name=row.name,
        vector=to_vector(row.vector),
        encoder_id=row.encoder_id,
        labels=row.labels,
        report=row.report,
        created_at=row.created_at,
        updated_at=row.updated_at,
        last_used_at=row.usage.last_used_at,
        uses=row.usage.uses,
        pinned=row.pinned,
        revision=row.revision,
        n_clips=row.n_clips,
        speech_s=row.speech_s,
        tenant=row.tenant,
    )


def clip_figures(clip: ClipRecord, encoder_id: str) -> dict[str, object]:
    """The columns of a clip that depend on who heard it."""
    return {
        "encoder_id": encoder_id,
        "vector": to_bytes(clip.vector),
        "duration_s": clip.duration_s,
        "voiced_s": clip.voiced_s,
        "n_partials": clip.n_partials,
        "snr_db": clip.snr_db,
    }


def _record(row: SpeakerRow, clips: Sequence[ClipRecord]) -> SpeakerRecord:
    new = NewSpeaker(row.name, row.encoder_id, tuple(clips), row.labels, row.report, row.pinned)
    return SpeakerRecord(row.id, new, row.created_at, row.usage.last_used_at, row.usage.uses, row.tenant)


def affected(session: Session, statement: Delete) -> int:
    """How many rows a deletion took."""
    result = session.execute(statement, execution_options={"synchronize_session": False})
    return cast(CursorResult[Any], result).rowcount


def chunks(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), _IDS_PER_STATEMENT):
        yield ids[start : start + _IDS_PER_STATEMENT]


def _voice(speaker_id: str, revision: int, encoder_id: str, stored: bytes, tenant: str) -> VoiceRow:
    return VoiceRow(speaker_id, revision, encoder_id, to_vector(stored), tenant)
