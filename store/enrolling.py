"""One enrolment, inside a transaction that others may share: who may not be enrolled is refused before any writing."""

from dataclasses import dataclass

from store.consent_rules import compare
from store.consenting import note_consent
from store.types import NewSpeaker, Owner, RequestKey, Speaker, StoreConfig
from store.unit_of_work import UnitOfWork


@dataclass(frozen=True, slots=True)
class Enrolling:
    """A checked enrolment that waits for its transaction."""

    speaker_id: str
    new: NewSpeaker
    key: RequestKey | None
    actor: str
    owner: Owner
    consent_id: str | None


def enrol(unit: UnitOfWork, asked: Enrolling, config: StoreConfig) -> Speaker:
    """The new speaker, or the one that this request's key has enrolled before.

    Raises: NameTaken, BadVector, KeyReused, QuotaExceeded, ConsentNotFound, ConsentRefused, VoiceProtected, before
    anything of it is written.
    """
    earlier = None if asked.key is None else unit.ledger.answered(asked.key)
    if earlier is not None:
        return unit.speakers.get(earlier)
    if asked.owner.key_id is not None:
        unit.key_usage.check_room(asked.owner.key_id)
    new, policy, vectors = asked.new, config.consent, [clip.vector for clip in asked.new.clips]
    unit.protection.check(vectors, new.encoder_id, config.protected_cosine)
    consent = unit.consents.usable(asked.consent_id, asked.owner.tenant, policy)
    voice = None if consent is None else compare(consent, vectors, new.encoder_id, policy.cosine)
    speaker = unit.speakers.add(asked.speaker_id, new, unit.revision, asked.owner)
    if consent is not None:
        note_consent(unit, asked.actor, "consent_use", unit.consents.use(consent, speaker.id, voice))
    if asked.key is not None:
        unit.ledger.remember(asked.key, speaker.id)
    unit.ledger.note(asked.actor, "enrol", 1, speaker.n_clips)
    return speaker
