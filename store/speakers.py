"""The repository: speakers in and out of the tables, inside a transaction that someone else opened."""

import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from sqlalchemy import ColumnElement, case, delete, func, insert, literal, or_, select, tuple_, update

from store.bulk import MANY, remove_many
from store.candidates import read_candidates
from store.checks import as_speaker_id, mean_vector, name_key, read_cursor, write_cursor
from store.errors import BadArgument, BadVector, NameTaken
from store.pruning import Candidates
from store.tables import ClipRow, EncoderRow, SpeakerRow, TombstoneRow, UsageRow, UtcDateTime
from store.tenants import of_tenant, tenant_of
from store.types import ClipRecord, NewSpeaker, Owner, Page, PrunePolicy, Speaker, SpeakerRecord
from store.voices import (
    VoiceQueries,
    affected,
    chunks,
    clip_figures,
    clip_record,
    not_found,
    required_id,
    speaker_of,
    to_bytes,
    to_vector,
)

_NOBODY = Owner()


class SpeakerRepository(VoiceQueries):
    """Speakers, their clips and their usage."""

    def add(self, speaker_id: str, new: NewSpeaker, revision: int, owner: Owner = _NOBODY) -> Speaker:
        """The new speaker of this id. Raises: NameTaken, BadVector, before anything is written."""
        return self.put(SpeakerRecord(speaker_id, new, datetime.now(UTC), None, 0), revision, owner)

    def put(self, record: SpeakerRecord, revision: int, owner: Owner = _NOBODY) -> Speaker:
        """The speaker of this record, whose id must be free.

        Raises: NameTaken, BadVector, before anything is written.
        """
        new, now, tenant = record.new, record.created_at, owner.tenant or record.tenant
        self._require_free(of_tenant(tenant, name_key(new.name)), None)
        vector = mean_vector([clip.vector for clip in new.clips])
        self._register(new.encoder_id, len(new.clips[0].vector))
        row = SpeakerRow(
            id=record.id,
            name=new.name,
            name_key=of_tenant(tenant, name_key(new.name)),
            tenant=tenant,
            encoder_id=new.encoder_id,
            vector=to_bytes(vector),
            labels=dict(new.labels),
            report=dict(new.report),
            pinned=new.pinned,
            n_clips=len(new.clips),
            speech_s=sum(clip.voiced_s for clip in new.clips),
            created_at=now,
            updated_at=now,
            revision=revision,
            key_id=owner.key_id,
            usage=UsageRow(last_used_at=record.last_used_at, uses=record.uses),
        )
        self._session.add(row)
        self._session.flush()
        self._add_clips(row, new.clips, now)
        return speaker_of(row)

    def add_clips(
        self,
        speaker_id: str,
        encoder_id: str,
        clips: Sequence[ClipRecord],
        report: Mapping[str, object] | None,
        revision: int,
    ) -> Speaker:
        """The speaker with the clips it did not have yet. Raises: SpeakerNotFound, BadVector."""
        row = self._row(speaker_id)
        if row.encoder_id != encoder_id:
            message = f"the speaker's clips were embedded by {row.encoder_id}, these by {encoder_id}: enrol it again"
            raise BadVector("wrong_encoder", message, expected=row.encoder_id, measured=encoder_id)
        self._register(encoder_id, len(clips[0].vector))
        known = set(self._session.scalars(select(ClipRow.sha256).where(ClipRow.speaker_id == row.id)))
        fresh = [clip for clip in clips if clip.sha256 not in known]
        if fresh:
            row.updated_at = datetime.now(UTC)
            row.revision = revision
            row.report = row.report if report is None else dict(report)
            self._add_clips(row, fresh, row.updated_at)
            self._renew(row)
        return speaker_of(row)

    def reembed(
        self,
        speaker_id: str,
        encoder_id: str,
        clips: Sequence[ClipRecord],
        report: Mapping[str, object] | None,
        revision: int,
    ) -> Speaker:
        """The speaker with each of its clips heard by this encoder. Raises: SpeakerNotFound, BadArgument, BadVector."""
        row = self._row(speaker_id)
        own = self._session.scalars(select(ClipRow).where(ClipRow.speaker_id == row.id))
        stored = {each.sha256: each for each in own}
        if stored.keys() != {clip.sha256 for clip in clips}:
            words = f"clips must be the {len(stored)} that the speaker has, each heard anew: read them again"
            raise BadArgument("bad_clip", words, expected=len(stored), measured=len(clips))
        self._register(encoder_id, len(clips[0].vector))
        for clip in clips:
            for name, value in clip_figures(clip, encoder_id).items():
                setattr(stored[clip.sha256], name, value)
        row.encoder_id, row.updated_at, row.revision = encoder_id, datetime.now(UTC), revision
        row.report = row.report if report is None else dict(report)
        self._session.flush()
        self._renew(row)
        return speaker_of(row)

    def get(self, speaker_id: str) -> Speaker:
        """The speaker. Raises: SpeakerNotFound."""
        return speaker_of(self._row(speaker_id))

    def find(self, name_or_id: str) -> Speaker:
        """The speaker of this id or, in any case, of this name; who sees all tenants finds those without one.

        Raises: SpeakerNotFound.
        """
        if as_speaker_id(name_or_id) is not None:
            return self.get(name_or_id)
        key = of_tenant(tenant_of(self._session), name_key(name_or_id))
        row = self._session.scalar(select(SpeakerRow).where(SpeakerRow.name_key == key))
        if row is None:
            raise not_found()
        return speaker_of(row)

    def page(self, cursor: str | None, limit: int, contains: str | None) -> Page:
        """At most `limit` speakers after the cursor. Raises: BadArgument (bad_cursor)."""
        named: list[ColumnElement[bool]] = []
        if contains is not None:
            named.append(_folded_name().contains(name_key(contains), autoescape=True))
        following = [] if cursor is None else [_after(*read_cursor(cursor))]
        order = (SpeakerRow.created_at, SpeakerRow.id)
        statement = select(SpeakerRow).where(*named, *following).order_by(*order).limit(limit + 1)
        rows = self._session.scalars(statement).all()
        total = self._session.scalar(select(func.count()).select_from(SpeakerRow).where(*named)) or 0
        shown = rows[:limit]
        next_cursor = write_cursor(shown[-1].created_at, shown[-1].id) if len(rows) > limit else None
        return Page(tuple(map(speaker_of, shown)), next_cursor, total)

    def change(
        self, speaker_id: str, name: str | None, labels: Mapping[str, str] | None, pinned: bool | None
    ) -> Speaker:
        """The speaker with what is not None replaced. Raises: SpeakerNotFound, NameTaken."""
        row = self._row(speaker_id)
        if name is not None:
            key = of_tenant(row.tenant, name_key(name))
            self._require_free(key, row.id)
            row.name, row.name_key = name, key
        row.labels = row.labels if labels is None else dict(labels)
        row.pinned = row.pinned if pinned is None else pinned
        row.updated_at = datetime.now(UTC)
        return speaker_of(row)

    def remove(self, speaker_ids: Sequence[str], revision: int, staying: Sequence[str] | None = None) -> int:
        """Deletes every row of these speakers and leaves their tombstones; how many clips there were.

        `staying` are all others, where the caller knows them.
        """
        if len(speaker_ids) >= MANY:
            return remove_many(self._session, speaker_ids, staying, revision)
        n_clips = 0
        for ids in chunks(speaker_ids):
            n_clips += affected(self._session, delete(ClipRow).where(ClipRow.speaker_id.in_(ids)))
            affected(self._session, delete(UsageRow).where(UsageRow.speaker_id.in_(ids)))
            affected(self._session, delete(SpeakerRow).where(SpeakerRow.id.in_(ids)))
            stones = [{"speaker_id": speaker_id, "revision": revision} for speaker_id in ids]
            self._session.execute(insert(TombstoneRow), stones)
        return n_clips

    def count_orphans(self) -> int:
        """How many clips and usage rows have no speaker."""
        counts = (select(func.count()).select_from(row).where(_no_speaker(row)) for row in (ClipRow, UsageRow))
        return sum(self._session.scalar(statement) or 0 for statement in counts)

    def remove_orphans(self) -> int:
        """Deletes clips and usage rows that have no speaker; how many there were."""
        return sum(affected(self._session, delete(row).where(_no_speaker(row))) for row in (ClipRow, UsageRow))

    def clip(self, sha256: str, encoder_id: str) -> ClipRecord | None:
        """A clip of any speaker with these bytes, embedded by this encoder."""
        same = (ClipRow.sha256 == sha256, ClipRow.encoder_id == encoder_id)
        # Joined, so that nobody learns whether another tenant has this clip.
        statement = select(ClipRow).join(SpeakerRow, SpeakerRow.id == ClipRow.speaker_id)
        row = self._session.scalar(statement.where(*same).limit(1))
        return None if row is None else clip_record(row)

    def touch(self, uses: Mapping[str, tuple[datetime, int]]) -> None:
        """Adds uses and moves the last use forward; speakers that are gone are passed over."""
        # One order for all, so that two writers never wait for each other.
        for speaker_id in sorted(filter(as_speaker_id, uses)):
            used_at, count = uses[speaker_id]
            when = literal(used_at, UtcDateTime)
            later = or_(UsageRow.last_used_at.is_(None), UsageRow.last_used_at < when)
            values = {
                UsageRow.uses: UsageRow.uses + count,
                UsageRow.last_used_at: case((later, when), else_=UsageRow.last_used_at),
            }
            statement = update(UsageRow).where(UsageRow.speaker_id == speaker_id).values(values)
            self._session.execute(statement, execution_options={"synchronize_session": False})

    def candidates(self, policy: PrunePolicy) -> Candidates:
        """Every speaker, as pruning sees it."""
        return read_candidates(self._session, policy)

    def _row(self, speaker_id: str) -> SpeakerRow:
        row = self._session.get(SpeakerRow, required_id(speaker_id))
        if row is None:
            raise not_found()
        return row

    def _require_free(self, key: str, owner_id: str | None) -> None:
        holder = self._session.scalar(select(SpeakerRow.id).where(SpeakerRow.name_key == key))
        if holder not in (None, owner_id):
            raise NameTaken("name_taken", "name belongs to another speaker: choose another, or delete that one first")

    def _register(self, encoder_id: str, width: int) -> None:
        encoder = self._session.get(EncoderRow, encoder_id)
        if encoder is None:
            self._session.add(EncoderRow(id=encoder_id, width=width))
            self._session.flush()
        elif encoder.width != width:
            message = f"vectors of {encoder_id} are {encoder.width} wide, but this one is {width}"
            raise BadVector("bad_vector", message, expected=encoder.width, measured=width)

    def _add_clips(self, row: SpeakerRow, clips: Sequence[ClipRecord], now: datetime) -> None:
        self._session.add_all(
            ClipRow(
                id=str(uuid.uuid4()),
                speaker_id=row.id,
                sha256=clip.sha256,
                created_at=now,
                **clip_figures(clip, row.encoder_id),
            )
            for clip in clips
        )
        self._session.flush()

    def _renew(self, row: SpeakerRow) -> None:
        statement = (
            select(ClipRow.vector, ClipRow.voiced_s).where(ClipRow.speaker_id == row.id).order_by(ClipRow.sha256)
        )
        clips = self._session.execute(statement).all()
        row.vector = to_bytes(mean_vector([to_vector(vector) for vector, _ in clips]))
        row.n_clips = len(clips)
        row.speech_s = sum(voiced_s for _, voiced_s in clips)


def _no_speaker(row: type[ClipRow] | type[UsageRow]) -> ColumnElement[bool]:
    return row.speaker_id.not_in(select(SpeakerRow.id))


def _folded_name() -> ColumnElement[str]:
    """The name's part of `name_key`."""
    begin = case((SpeakerRow.tenant == "", 1), else_=func.length(SpeakerRow.tenant) + 2)
    return func.substr(SpeakerRow.name_key, begin)


def _after(created_at: datetime, speaker_id: str) -> ColumnElement[bool]:
    return tuple_(SpeakerRow.created_at, SpeakerRow.id) > (created_at, speaker_id)
