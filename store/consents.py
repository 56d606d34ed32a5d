"""The repository of consents, inside a transaction that someone else opened."""

import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from sqlalchemy import delete, func, literal, select, tuple_
from sqlalchemy.orm import Session

from store.bulk import MANY
from store.checks import as_speaker_id, check_vector, clean_text, is_visible, read_cursor, write_cursor
from store.consent_rules import check_spoken, check_worth, compare, missing
from store.consent_tables import ConsentRecordingRow, ConsentRow
from store.consent_types import Consent, ConsentPage, NewConsent, VoiceCheck, WordsCheck
from store.errors import BadArgument, ConsentNotFound, ConsentRefused
from store.tables import UtcDateTime
from store.tenants import tenant_of
from store.types import OFF, ConsentPolicy, FloatArray
from store.voices import affected, chunks, to_bytes, to_vector

# Of each text, in characters.
LONGEST = {"person": 200, "name": 200, "statement": 2000, "language": 35}


class ConsentRepository:
    """Consents, their recordings, and whose they are."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, new: NewConsent) -> Consent:
        """The new consent, which nobody uses yet."""
        recording, words = new.recording, new.words
        row = ConsentRow(
            id=str(uuid.uuid4()),
            tenant=tenant_of(self._session) or "",
            **{name: getattr(new, name) for name in (*LONGEST, "granted_at")},
            created_at=datetime.now(UTC),
            word_error_rate=None if words is None else words.error_rate,
            word_error_limit=None if words is None else words.limit,
        )
        self._session.add(row)
        if recording is not None:
            row.recording_sha256 = hashlib.sha256(recording.audio).hexdigest()
            row.encoder_id, row.vector = recording.encoder_id, to_bytes(recording.vector)
        self._session.flush()
        if recording is not None:
            self._session.add(ConsentRecordingRow(consent_id=row.id, audio=recording.audio))
            self._session.flush()
        return _consent(row)

    def get(self, consent_id: str) -> Consent:
        """The consent. Raises: ConsentNotFound."""
        return _consent(self._row(consent_id))

    def recording(self, consent_id: str) -> bytes | None:
        """The recorded statement as it was sent, None where there is none. Raises: ConsentNotFound."""
        row = self._session.get(ConsentRecordingRow, self._row(consent_id).id)
        return None if row is None else row.audio

    def page(self, cursor: str | None, limit: int, speaker_id: str | None = None) -> ConsentPage:
        """At most `limit` consents after the cursor, of all or of one speaker, oldest first.

        Raises: BadArgument (bad_cursor).
        """
        whose = [] if speaker_id is None else [ConsentRow.speaker_id == (as_speaker_id(speaker_id) or "")]
        statement = select(ConsentRow).where(*whose).order_by(ConsentRow.created_at, ConsentRow.id).limit(limit + 1)
        if cursor is not None:
            statement = statement.where(tuple_(ConsentRow.created_at, ConsentRow.id) > read_cursor(cursor))
        rows = self._session.scalars(statement).all()
        shown = rows[:limit]
        next_cursor = write_cursor(shown[-1].created_at, shown[-1].id) if len(rows) > limit else None
        total = self._session.scalar(select(func.count()).select_from(ConsentRow).where(*whose)) or 0
        return ConsentPage(tuple(map(_consent, shown)), next_cursor, total)

    def rename(self, consent_id: str, name: str) -> Consent:
        """The consent under another name in lists. Raises: ConsentNotFound."""
        row = self._row(consent_id)
        row.name = name
        return _consent(row)

    def rehear(self, consent_id: str, vector: FloatArray, encoder_id: str) -> Consent:
        """The consent with its recording heard by this encoder. Raises: ConsentNotFound."""
        row = self._row(consent_id)
        row.vector, row.encoder_id = to_bytes(vector), encoder_id
        return _consent(row)

    def revoke(self, consent_id: str) -> tuple[Consent, bool]:
        """The consent, ended for good, and whether it was this call that ended it. Raises: ConsentNotFound."""
        row = self._row(consent_id)
        is_first = row.revoked_at is None
        row.revoked_at = row.revoked_at or datetime.now(UTC)
        return _consent(row), is_first

    def remove(self, consent_id: str) -> Consent:
        """The consent that was there. Raises: ConsentNotFound; ConsentRefused where a speaker uses it."""
        row = self._row(consent_id)
        if row.speaker_id is not None:
            raise _used("it goes when that one is deleted; revoke it to end its use")
        gone = _consent(row)
        self._delete([row.id])
        return gone

    def unused_since(self, when: datetime) -> list[str]:
        """The ids of those that were recorded before and never used."""
        unused = (ConsentRow.speaker_id.is_(None), ConsentRow.created_at <= literal(when, UtcDateTime))
        return list(self._session.scalars(select(ConsentRow.id).where(*unused).order_by(ConsentRow.id)))

    def remove_listed(self, consent_ids: Sequence[str]) -> int:
        """Deletes these consents with their recordings; how many there were."""
        return sum(self._delete(ids) for ids in chunks(consent_ids))

    def remove_of(self, speaker_ids: Sequence[str]) -> list[str]:
        """Deletes the consents of these speakers with their recordings; their ids."""
        pairs, gone = select(ConsentRow.id, ConsentRow.speaker_id), frozenset(speaker_ids)
        if len(speaker_ids) >= MANY:
            found = [consent_id for consent_id, speaker_id in self._session.execute(pairs) if speaker_id in gone]
        else:
            asked = (pairs.where(ConsentRow.speaker_id.in_(ids)) for ids in chunks(speaker_ids))
            found = [consent_id for each in asked for consent_id, _ in self._session.execute(each)]
        self.remove_listed(found)
        return found

    def of_speaker(self, speaker_id: str) -> list[Consent]:
        """The speaker's consents, the revoked ones too."""
        found = select(ConsentRow).where(ConsentRow.speaker_id == speaker_id).order_by(ConsentRow.created_at)
        return list(map(_consent, self._session.scalars(found)))

    def revoked(self) -> set[str]:
        """The ids of all that were revoked."""
        return set(self._session.scalars(select(ConsentRow.id).where(ConsentRow.revoked_at.is_not(None))))

    def existing(self) -> set[str]:
        """The ids of all that are here."""
        return set(self._session.scalars(select(ConsentRow.id)))

    def usable(self, consent_id: str | None, tenant: str | None, policy: ConsentPolicy) -> Consent | None:
        """The consent, for a new speaker of the tenant; None where none is named and none is needed.

        Raises: ConsentNotFound, ConsentRefused.
        """
        if consent_id is None:
            if policy.level != OFF:
                raise missing()
            return None
        consent = self.get(consent_id)
        if consent.tenant != (tenant or ""):
            raise _not_found()
        if consent.speaker_id is not None:
            raise _used("record one for each speaker")
        check_worth(consent, policy)
        return consent

    def use(self, consent: Consent, speaker_id: str, voice: VoiceCheck | None) -> Consent:
        """The consent, which is this speaker's from now on. Raises: ConsentRefused, where the speaker has one."""
        if any(each.revoked_at is None for each in self.of_speaker(speaker_id)):
            words = "the speaker has a consent already: revoke that one first"
            raise ConsentRefused("consent_used", words, field="speaker_id")
        row = self._row(consent.id)
        row.speaker_id = speaker_id
        if voice is not None:
            row.voice_cosine, row.voice_threshold = voice.cosine, voice.threshold
        self._session.flush()
        return _consent(row)

    def check_spoken(self, speaker_id: str, policy: ConsentPolicy) -> None:
        """Raises: ConsentRefused, where the speaker may not be spoken with."""
        check_spoken(self.of_speaker(speaker_id), policy)

    def check_added(
        self, speaker_id: str, vectors: Sequence[FloatArray], encoder_id: str, policy: ConsentPolicy
    ) -> None:
        """Raises: ConsentRefused, where these clips may not be added to the speaker."""
        consents = self.of_speaker(speaker_id)
        check_spoken(consents, policy)
        for each in consents:
            if each.revoked_at is None:
                compare(each, vectors, encoder_id, policy.cosine)

    def _row(self, consent_id: str) -> ConsentRow:
        canonical = as_speaker_id(consent_id)
        row = None if canonical is None else self._session.get(ConsentRow, canonical)
        if row is None:
            raise _not_found()
        return row

    def _delete(self, consent_ids: Sequence[str]) -> int:
        # The recordings first: where whole tables are emptied no foreign key cascades.
        of_recordings = delete(ConsentRecordingRow).where(ConsentRecordingRow.consent_id.in_(consent_ids))
        affected(self._session, of_recordings)
        return affected(self._session, delete(ConsentRow).where(ConsentRow.id.in_(consent_ids)))


def check_new(new: NewConsent) -> NewConsent:
    """The consent as it is stored. Raises: BadArgument (bad_consent), BadVector."""
    person, name, statement, language = (_text(field, getattr(new, field)) for field in LONGEST)
    if new.granted_at.tzinfo is None or new.granted_at > datetime.now(UTC):
        raise _bad("granted_at", "give a time that has passed, with its offset from UTC")
    recording = new.recording
    if recording is not None:
        recording = replace(recording, vector=check_vector(recording.vector, "recording"))
    return replace(new, person=person, name=name, statement=statement, language=language, recording=recording)


def clean_consent_name(name: str) -> str:
    """The name as it is stored. Raises: BadArgument (bad_consent)."""
    return _text("name", name)


def _text(field: str, text: str) -> str:
    cleaned = clean_text(text)
    if len(cleaned) > LONGEST[field] or not is_visible(cleaned):
        raise _bad(field, f"give 1 to {LONGEST[field]} visible characters", LONGEST[field])
    return cleaned


def _bad(field: str, remedy: str, limit: int | None = None) -> BadArgument:
    details: dict[str, object] = {"field": field} | ({} if limit is None else {"limit": limit})
    return BadArgument("bad_consent", f"{field} cannot be used: {remedy}", **details)


def _not_found() -> ConsentNotFound:
    words = "there is no consent of this id: list the consents to see those there are"
    return ConsentNotFound("consent_not_found", words, field="consent_id")


def _used(remedy: str) -> ConsentRefused:
    return ConsentRefused("consent_used", f"the consent belongs to a speaker: {remedy}", field="consent_id")


def _consent(row: ConsentRow) -> Consent:
    names = set(Consent.__slots__) - {"vector", "voice", "words"}
    voice = None if row.voice_cosine is None else VoiceCheck(row.voice_cosine, row.voice_threshold or 0.0)
    words = None if row.word_error_rate is None else WordsCheck(row.word_error_rate, row.word_error_limit or 0.0)
    vector = None if row.vector is None else to_vector(row.vector)
    return Consent(**{name: getattr(row, name) for name in names}, vector=vector, voice=voice, words=words)
