"""Consents and protected voices as the store takes and gives them; all of it frozen."""

from dataclasses import dataclass
from datetime import datetime

from store.types import AuditLine, FloatArray


@dataclass(frozen=True, slots=True)
class VoiceCheck:
    """A recording was compared with every clip of its speaker: the least cosine, and what it had to reach."""

    cosine: float
    threshold: float


@dataclass(frozen=True, slots=True)
class WordsCheck:
    """A recogniser was heard on a recording: its share of wrong words, and how many there might be."""

    error_rate: float
    limit: float


@dataclass(frozen=True, slots=True)
class Recording:
    """A statement as it was recorded. Shapes: vector float32 (d,), L2 norm 1."""

    audio: bytes
    vector: FloatArray
    encoder_id: str


@dataclass(frozen=True, slots=True)
class NewConsent:
    """Who agrees to what, and since when; `name` is what lists show. `words` is None where they were not checked."""

    person: str
    name: str
    statement: str
    language: str
    granted_at: datetime
    recording: Recording | None = None
    words: WordsCheck | None = None


@dataclass(frozen=True, slots=True)
class Consent:
    """A stored consent. It is one speaker's, once that is enrolled, and goes with it. A check that is None was
    not made.

    Shapes: vector float32 (d,), L2 norm 1, of its recording.
    """

    id: str
    person: str
    name: str
    statement: str
    language: str
    granted_at: datetime
    created_at: datetime
    revoked_at: datetime | None
    speaker_id: str | None
    recording_sha256: str | None
    encoder_id: str | None
    vector: FloatArray | None
    voice: VoiceCheck | None
    words: WordsCheck | None
    tenant: str = ""

    @property
    def state(self) -> str:
        """What it can be used for: `unused`, `in_use` by its speaker, or `revoked`."""
        return "revoked" if self.revoked_at else "in_use" if self.speaker_id else "unused"


@dataclass(frozen=True, slots=True)
class ConsentPage:
    """Consents in order of (created_at, id), and the cursor of the next page, None at the end."""

    consents: tuple[Consent, ...]
    next_cursor: str | None
    total: int


@dataclass(frozen=True, slots=True)
class ConsentExport:
    """All that is stored of a consent: the record, the recording as it was sent, and who did what with it."""

    consent: Consent
    recording: bytes | None
    audit: tuple[AuditLine, ...]


@dataclass(frozen=True, slots=True)
class ProtectedVoice:
    """A voice that may not be enrolled, and the encoders that can tell it."""

    id: str
    name: str
    created_at: datetime
    encoder_ids: tuple[str, ...]
