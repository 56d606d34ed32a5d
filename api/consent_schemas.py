"""The shapes of consents and protected voices, ours and OpenAI's."""

import base64
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from api.admin_schemas import AuditLineOut, AuditOut
from api.consenting import Protected
from api.schemas import EXAMPLE_ID, MatchesOut, MatchOut
from store.consent_types import Consent, ConsentExport, ConsentPage, ProtectedVoice
from store.types import Speaker


class VoiceCheckOut(BaseModel):
    """The recording was compared with every clip of the speaker; the least cosine, and what it had to reach."""

    cosine: float
    threshold: float


class WordsCheckOut(BaseModel):
    """A recogniser was heard; the share of wrong words, and how many there might be."""

    error_rate: float
    limit: float


class ChecksOut(BaseModel):
    """The checks that were made; null is not made."""

    voice: VoiceCheckOut | None
    words: WordsCheckOut | None


class ConsentOut(BaseModel):
    """A consent, without its recording."""

    consent_id: str = Field(examples=[EXAMPLE_ID])
    person: str = Field(description="Who agreed.", examples=["Ada Lovelace"])
    name: str = Field(description="What lists show.")
    statement: str
    language: str = Field(examples=["en"])
    granted_at: datetime
    created_at: datetime
    revoked_at: datetime | None
    state: Literal["unused", "in_use", "revoked"]
    speaker_id: str | None
    recording_sha256: str | None = Field(description="Null where no recording was sent.")
    checks: ChecksOut
    tenant: str

    @classmethod
    def fields_of(cls, consent: Consent) -> dict[str, Any]:
        voice, words = consent.voice, consent.words
        checks = ChecksOut(
            voice=None if voice is None else VoiceCheckOut(cosine=voice.cosine, threshold=voice.threshold),
            words=None if words is None else WordsCheckOut(error_rate=words.error_rate, limit=words.limit),
        )
        own = {name: getattr(consent, name) for name in cls.model_fields if hasattr(consent, name)}
        return own | {"consent_id": consent.id, "checks": checks}

    @classmethod
    def of(cls, consent: Consent) -> "ConsentOut":
        return cls(**ConsentOut.fields_of(consent))


class ConsentPageOut(BaseModel):
    """Consents, oldest first."""

    consents: list[ConsentOut]
    next_cursor: str | None
    total: int

    @classmethod
    def of(cls, page: ConsentPage) -> "ConsentPageOut":
        return cls(
            consents=[ConsentOut.of(each) for each in page.consents], next_cursor=page.next_cursor, total=page.total
        )


class ConsentExportOut(ConsentOut):
    """All that is stored of a consent: the record, the recording in base64, and who did what with it."""

    recording: str | None
    audit: list[AuditLineOut]

    @classmethod
    def of_export(cls, found: ConsentExport) -> "ConsentExportOut":
        recording = None if found.recording is None else base64.b64encode(found.recording).decode("ascii")
        lines = AuditOut.of(found.audit).lines
        return cls(**ConsentOut.fields_of(found.consent), recording=recording, audit=lines)


class ProtectedOut(BaseModel):
    """A voice that may not be enrolled, and the encoders that can tell it."""

    protected_id: str = Field(examples=[EXAMPLE_ID])
    name: str
    created_at: datetime
    encoder_ids: list[str]

    @classmethod
    def fields_of(cls, voice: ProtectedVoice) -> dict[str, Any]:
        return {
            "protected_id": voice.id,
            "name": voice.name,
            "created_at": voice.created_at,
            "encoder_ids": list(voice.encoder_ids),
        }


class NewProtectedOut(ProtectedOut):
    """A voice that is protected from now on."""

    near: list[MatchOut] = Field(description="Speakers who sound like it; they stay until somebody deletes them.")

    @classmethod
    def of(cls, protected: Protected) -> "NewProtectedOut":
        return cls(**ProtectedOut.fields_of(protected.voice), near=MatchesOut.of(protected.near).matches)


class ProtectedListOut(BaseModel):
    """All protected voices, oldest first."""

    protected: list[ProtectedOut]

    @classmethod
    def of(cls, voices: Sequence[ProtectedVoice]) -> "ProtectedListOut":
        return cls(protected=[ProtectedOut(**ProtectedOut.fields_of(voice)) for voice in voices])


class OpenAIConsentOut(BaseModel):
    """A consent in OpenAI's shape."""

    id: str
    object: Literal["audio.voice_consent"] = "audio.voice_consent"
    created_at: int
    language: str
    name: str

    @classmethod
    def of(cls, consent: Consent) -> "OpenAIConsentOut":
        created_at = int(consent.created_at.timestamp())
        return cls(id=consent.id, created_at=created_at, language=consent.language, name=consent.name)


class OpenAIConsentsOut(BaseModel):
    """A page of consents in OpenAI's shape; the next one begins `after` the last."""

    object: Literal["list"] = "list"
    data: list[OpenAIConsentOut]
    first_id: str | None
    last_id: str | None
    has_more: bool

    @classmethod
    def of(cls, page: ConsentPage) -> "OpenAIConsentsOut":
        data = [OpenAIConsentOut.of(each) for each in page.consents]
        ends = (data[0].id, data[-1].id) if data else (None, None)
        return cls(data=data, first_id=ends[0], last_id=ends[1], has_more=page.next_cursor is not None)


class OpenAIVoiceOut(BaseModel):
    """A speaker in OpenAI's shape."""

    id: str
    object: Literal["audio.voice"] = "audio.voice"
    created_at: int
    name: str
    type: Literal["audio_sample"] = "audio_sample"

    @classmethod
    def of(cls, speaker: Speaker) -> "OpenAIVoiceOut":
        return cls(id=speaker.id, created_at=int(speaker.created_at.timestamp()), name=speaker.name)


class OpenAIConsentChange(BaseModel):
    """What OpenAI's clients may change of a consent."""

    name: str = Field(max_length=200)


class OpenAIDeletedOut(BaseModel):
    """It is gone."""

    id: str
    object: Literal["audio.voice_consent", "audio.voice.deleted"]
    deleted: Literal[True] = True
