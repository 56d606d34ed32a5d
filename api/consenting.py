"""Consents and protected voices: the encoder, the recogniser and the store, joined. Knows nothing of HTTP."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from api.errors import RequestRefused, TooLarge, WordsRefused
from store.checks import clean_text
from store.consent_types import Consent, NewConsent, ProtectedVoice, Recording, WordsCheck

if TYPE_CHECKING:
    from collections.abc import Sequence

    from api.consent_words import WordsChecker
    from api.enrolment import Enrolment
    from encoder.engine import SpeakerEncoder
    from store.types import FloatArray, Match

MAX_RECORDING_BYTES = 10 * 2**20
_MAX_NEAR = 20


@dataclass(frozen=True, slots=True)
class ConsentOrder:
    """A consent as it is handed in. What is None follows: the service's sentence, the person's name, now.

    `speaker_id` is a speaker who is there already; without it the consent waits for an enrolment that names it.
    """

    person: str
    recording: bytes | None = None
    statement: str | None = None
    name: str | None = None
    language: str = "en"
    granted_at: datetime | None = None
    speaker_id: str | None = None


@dataclass(frozen=True, slots=True)
class Protected:
    """A voice that is protected from now on, and the speakers who sound like it, for a person to look at."""

    voice: ProtectedVoice
    near: tuple[Match, ...]


@dataclass(frozen=True, slots=True)
class Consenting:
    """Takes consents and protected voices in. `words` is None where nobody asks what a recording says."""

    enrolment: Enrolment
    sentence: str
    words: WordsChecker | None
    protected_cosine: float

    def add(self, order: ConsentOrder, actor: str) -> Consent:
        """The new consent, with every check made that the settings ask for.

        Raises: EncoderError for a recording that cannot be used, WordsRefused, RecogniserMissing, TooLarge,
        SpeakerNotFound, ConsentRefused, BadArgument (bad_consent).
        """
        statement = order.statement or self.sentence
        new = NewConsent(
            person=order.person,
            name=order.name or order.person,
            statement=statement,
            language=order.language,
            granted_at=order.granted_at or datetime.now(UTC),
            recording=None if order.recording is None else self._heard(order.recording, order.speaker_id),
            words=self._words(order, statement),
        )
        return self.enrolment.store.add_consent(new, order.speaker_id, actor)

    def protect(self, name: str, clips: Sequence[bytes], actor: str) -> Protected:
        """A new protected voice, as the encoder of every installed voice hears it. Nothing of the clips is kept.

        Raises: EncoderError, BadName.
        """
        enrolment, store = self.enrolment, self.enrolment.store
        heard: dict[str, Sequence[FloatArray]] = {}
        near: list[Match] = []
        for encoder in enrolment.encoders.every():
            reference = enrolment.embed(clips, encoder)
            heard[encoder.encoder_id] = [clip.vector for clip in reference.clips]
            matches = store.similar(reference.embedding.vector, encoder.encoder_id, _MAX_NEAR)
            near += [match for match in matches if match.cosine >= self.protected_cosine]
        return Protected(store.protect(name, heard, actor), tuple(near))

    def _heard(self, recording: bytes, speaker_id: str | None) -> Recording:
        if len(recording) > MAX_RECORDING_BYTES:
            words = f"recording has {len(recording)} bytes, the limit is {MAX_RECORDING_BYTES}: send a shorter one"
            raise TooLarge("too_large", words, field="recording", limit_bytes=MAX_RECORDING_BYTES)
        encoder = self._encoder(speaker_id)
        return Recording(recording, self.enrolment.embed([recording], encoder).embedding.vector, encoder.encoder_id)

    def _encoder(self, speaker_id: str | None) -> SpeakerEncoder:
        encoders, store = self.enrolment.encoders, self.enrolment.store
        return encoders.of_voice() if speaker_id is None else encoders.by_id(store.get(speaker_id).encoder_id)

    def _words(self, order: ConsentOrder, statement: str) -> WordsCheck | None:
        if self.words is None or order.recording is None:
            return None
        if clean_text(statement) != clean_text(self.sentence):
            # Else any recording of somebody would do, with what is said in it as the statement.
            words = f"statement must be the sentence of this service, whose words are checked: {self.sentence!r}"
            raise WordsRefused("consent_statement", words, field="statement")
        decoded = self.enrolment.decoder.decode(order.recording, self.enrolment.limits)
        return self.words.check(decoded.waveform.samples, self.sentence, order.language)


def read_time(spelt: str) -> datetime:
    """When a consent was given. Raises: RequestRefused."""
    try:
        return datetime.fromisoformat(spelt.strip())
    except ValueError:
        words = "granted_at must be a time with its offset from UTC, such as 2026-11-30T09:30:00+00:00"
        raise RequestRefused("bad_field", words, field="granted_at") from None
