"""The part of the store's front that keeps consents. Each change is in the audit, by the consent's id.

Every look asks SQL, so a consent that was revoked anywhere is revoked everywhere.
"""

from datetime import UTC, datetime, timedelta

from store import checks
from store.consent_rules import compare
from store.consent_types import Consent, ConsentExport, ConsentPage, NewConsent
from store.consents import check_new, clean_consent_name
from store.keyring import Keyring
from store.types import FloatArray, Speaker
from store.unit_of_work import Reading, UnitOfWork


class Consenting(Keyring):
    """Verbs about consents."""

    def add_consent(self, new: NewConsent, speaker_id: str | None = None, actor: str = "api") -> Consent:
        """The new consent, of a speaker who is there already or for one to come.

        Raises: BadArgument (bad_consent), BadVector, SpeakerNotFound, ConsentRefused, StorageFull, StoreUnavailable.
        """
        checked = check_new(new)
        with self._database.write() as unit:
            consent = unit.consents.add(checked)
            if speaker_id is not None:
                consent = self._give(unit, consent, unit.speakers.get(speaker_id))
            note_consent(unit, actor, "consent_add", consent)
        return consent

    def consent(self, consent_id: str) -> Consent:
        """The consent. Raises: ConsentNotFound, StoreUnavailable."""
        return self._database.read_all(lambda unit: unit.consents.get(consent_id))

    def consents(self, cursor: str | None = None, limit: int = 100, speaker_id: str | None = None) -> ConsentPage:
        """One page, of all or of one speaker, oldest consent first.

        Raises: BadArgument (bad_cursor, bad_limit), StoreUnavailable.
        """
        checks.check_limit(limit, "limit")
        return self._database.read_all(lambda unit: unit.consents.page(cursor, limit, speaker_id))

    def consents_of(self, speaker_id: str) -> list[Consent]:
        """The speaker's consents, the revoked ones too. Raises: SpeakerNotFound, StoreUnavailable."""
        return self._database.read_all(lambda unit: unit.consents.of_speaker(unit.speakers.voice_key(speaker_id)[0]))

    def consent_recording(self, consent_id: str) -> bytes | None:
        """The recorded statement as it was sent, None where there is none. Raises: ConsentNotFound."""
        return self._database.read_all(lambda unit: unit.consents.recording(consent_id))

    def check_consent(self, consent_id: str | None) -> Consent | None:
        """What enrolment will check in its transaction, so that nobody is listened to in vain.

        Raises: ConsentNotFound, ConsentRefused, StoreUnavailable.
        """
        owner, policy = self._owner, self._config.consent
        return self._database.read_all(lambda unit: unit.consents.usable(consent_id, owner.tenant, policy))

    def rename_consent(self, consent_id: str, name: str, actor: str = "api") -> Consent:
        """The consent under another name in lists; what it says stays.

        Raises: ConsentNotFound, BadArgument (bad_consent), StorageFull, StoreUnavailable.
        """
        cleaned = clean_consent_name(name)
        with self._database.write() as unit:
            consent = unit.consents.rename(consent_id, cleaned)
            note_consent(unit, actor, "consent_rename", consent)
        return consent

    def rehear_consent(self, consent_id: str, vector: FloatArray, encoder_id: str) -> Consent:
        """The consent with its recording heard by this encoder. Shapes: vector float32 (d,), L2 norm 1.

        Raises: ConsentNotFound, BadVector, StorageFull, StoreUnavailable.
        """
        checked, name = checks.check_vector(vector), checks.check_encoder_id(encoder_id)
        with self._database.write() as unit:
            return unit.consents.rehear(consent_id, checked, name)

    def revoke_consent(self, consent_id: str, actor: str = "api") -> Consent:
        """The consent, ended for good: its speaker is spoken with no more, and its jobs and kept speeches are gone.

        Raises: ConsentNotFound, StorageFull, StoreUnavailable.
        """
        with self._database.write() as unit:
            consent, is_first = unit.consents.revoke(consent_id)
            speakers = [consent.speaker_id] if consent.speaker_id else []
            if is_first:
                note_consent(unit, actor, "consent_revoke", consent)
                self.jobs.end_of_speakers(unit, speakers)
        self._erasures.add_revoked([consent.id])
        self._hide(speakers)
        return consent

    def delete_consent(self, consent_id: str, actor: str = "api") -> None:
        """Forgets a consent that no speaker uses, with its recording.

        Raises: ConsentNotFound, ConsentRefused where a speaker uses it, StorageFull, StoreUnavailable.
        """
        with self._database.write() as unit:
            consent = unit.consents.remove(consent_id)
            note_consent(unit, actor, "consent_delete", consent)
        self._erasures.add([consent.id])
        self._overwrite_removed()

    def expire_consents(self, now: datetime | None = None, actor: str = "api") -> int:
        """Forgets consents that were recorded long ago and never used, as `delete_consent`; how many.

        Raises: StorageFull, StoreUnavailable.
        """
        before = (now or datetime.now(UTC)) - timedelta(seconds=self._config.consent_unused_s)
        # Only a look, most times: it takes no writer's turn.
        if not self._database.read_all(lambda unit: unit.consents.unused_since(before)):
            return 0
        with self._database.write() as unit:
            gone = unit.consents.unused_since(before)
            unit.consents.remove_listed(gone)
            unit.ledger.note_each(actor, "consent_expire", "consent_id", gone)
        self._erasures.add(gone)
        self._overwrite_removed()
        return len(gone)

    def export_consent(self, consent_id: str, actor: str = "api") -> ConsentExport:
        """All that is stored of a consent; that it was taken out is noted first.

        Raises: ConsentNotFound, StorageFull, StoreUnavailable.
        """
        with self._database.write() as unit:
            note_consent(unit, actor, "consent_export", unit.consents.get(consent_id))

        def look(unit: Reading) -> ConsentExport:
            consent = unit.consents.get(consent_id)
            lines = unit.ledger.lines_about("consent_id", consent.id)
            return ConsentExport(consent, unit.consents.recording(consent.id), lines)

        return self._database.read_all(look)

    def _give(self, unit: UnitOfWork, consent: Consent, speaker: Speaker) -> Consent:
        """The consent as this speaker's. Raises: ConsentRefused, before anything of the speaker is written."""
        policy = self._config.consent
        unit.consents.usable(consent.id, speaker.tenant, policy)
        vectors = unit.speakers.clip_vectors(speaker.id)
        voice = compare(consent, vectors, speaker.encoder_id, policy.cosine)
        return unit.consents.use(consent, speaker.id, voice)


def note_consent(unit: UnitOfWork, actor: str, action: str, consent: Consent) -> None:
    """Adds a line about the consent to the audit."""
    unit.ledger.note(actor, action, 0, receipt={"consent_id": consent.id})
