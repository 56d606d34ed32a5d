"""Clips to speakers: the encoder and the store, joined. Knows nothing of HTTP."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
from pydantic import TypeAdapter

from api.errors import RequestRefused
from api.verification import Calibration, Verdict, judge, load_calibration
from encoder.types import AudioLimits, ClipReport, Embedding, EnrolmentReport, Reference
from store.types import ClipRecord, FloatArray, Match, Naming, NewSpeaker, RequestKey, Speaker

if TYPE_CHECKING:
    from api.voices import Encoders
    from encoder.audio import Decoder
    from encoder.engine import SpeakerEncoder
    from store.consent_types import Consent
    from store.service import Store

_REPORT = TypeAdapter(EnrolmentReport)
_MAX_NEAR = 5


@dataclass(frozen=True, slots=True)
class Enrolled:
    """A stored speaker and what was found in the clips of this call.

    `near` are other speakers who sound the same, for a person to look at: some of them are strangers all the same.
    """

    speaker: Speaker
    report: EnrolmentReport
    near: tuple[Match, ...] = ()


@dataclass(frozen=True, slots=True)
class Enrolment:
    """Turns clips into stored speakers, and into matches with those that are stored."""

    store: Store
    encoders: Encoders
    decoder: Decoder
    limits: AudioLimits
    max_clips: int
    calibration: Calibration | None = None
    keep_clips: bool = False

    def enrol(
        self,
        name: str,
        clips: Sequence[bytes],
        labels: Mapping[str, str],
        request_key: str | None = None,
        model: str | None = None,
        consent_id: str | None = None,
    ) -> Enrolled:
        """A new speaker from clips; all of them are used or none is. A key that was answered gives the speaker of then.

        The speaker is heard by the encoder of the voice `model`, or of the one in use.
        Raises: EncoderError for a clip that cannot be used, NameTaken, BadName, KeyReused, ModelUnknown, QuotaExceeded,
        ConsentNotFound, ConsentRefused, VoiceProtected.
        """
        key = None if request_key is None else RequestKey(request_key, _digest(name, clips, labels, consent_id))
        known = None if key is None else self.store.enrolled_before(key)
        if known is not None:
            return self._enrolled(known, _REPORT.validate_python(known.report))
        # Again in the transaction; but nobody should be listened to in vain.
        self.store.check_room()
        consent = self.store.check_consent(consent_id)
        encoder = self.encoders.of_voice(model)
        reference = self.embed(clips, encoder)
        self._hear_again([consent] if consent else [], encoder)
        new = NewSpeaker(
            name=name,
            encoder_id=encoder.encoder_id,
            clips=clip_records(reference),
            labels=labels,
            report=report_document(reference.report),
        )
        speaker = self.store.enrol(new, key, audio=self._kept(clips, reference), consent_id=consent_id)
        return self._enrolled(speaker, reference.report)

    def add_clips(self, speaker_id: str, clips: Sequence[bytes], naming: Naming | None = None) -> Enrolled:
        """A stored speaker with more clips, heard by the encoder of the first; its mean is renewed, its revision rises.

        `naming` is changed with them or not at all.
        Raises: SpeakerNotFound, EncoderError, NameTaken, BadName, ConsentRefused, VoiceProtected, BadConditioning where
        that encoder is gone.
        """
        encoder = self.encoders.by_id(self.store.get(speaker_id).encoder_id)
        reference = self.embed(clips, encoder)
        self._hear_again(self.store.consents_of(speaker_id), encoder)
        speaker = self.store.add_clips(
            speaker_id,
            encoder.encoder_id,
            clip_records(reference),
            report=report_document(reference.report),
            audio=self._kept(clips, reference),
            naming=naming or Naming(),
        )
        return self._enrolled(speaker, reference.report)

    def search(self, clip: bytes, k: int) -> tuple[Match, ...]:
        """The stored speakers whose voices are nearest to a clip, among those that the encoder in use has heard.

        The clip itself is not kept.
        """
        encoder = self.encoders.of_voice()
        return self.store.similar(self._hear(clip, encoder)[0], encoder.encoder_id, k)

    def verify(self, speaker_id: str, clip: bytes, point: str) -> Verdict:
        """Whether a clip is of this speaker, at a measured operating point; the clip itself is not kept.

        Raises: SpeakerNotFound, BadConditioning (wrong_encoder), NotCalibrated, RequestRefused, EncoderError.
        """
        vector, encoder_id, _ = self.store.d_vector(speaker_id)
        heard, voiced_s = self._hear(clip, self.encoders.by_id(encoder_id))
        return judge(self._calibrated(encoder_id), speaker_id, float(np.dot(vector, heard)), voiced_s, point)

    def _enrolled(self, speaker: Speaker, report: EnrolmentReport) -> Enrolled:
        calibration = self._calibrated(speaker.encoder_id)
        if calibration is None:
            return Enrolled(speaker, report)
        matches = self.store.similar(speaker.vector, speaker.encoder_id, _MAX_NEAR, exclude=speaker.id)
        near = tuple(match for match in matches if match.cosine >= calibration.duplicates_above)
        return Enrolled(speaker, report, near)

    def _calibrated(self, encoder_id: str) -> Calibration | None:
        own = self.calibration
        return own if own is not None and own.encoder_id == encoder_id else load_calibration(encoder_id)

    def _kept(self, clips: Sequence[bytes], reference: Reference) -> Mapping[str, bytes]:
        found = zip(reference.report.clips, clips, strict=True)
        return {report.sha256: clip for report, clip in found} if self.keep_clips else {}

    def _hear(self, clip: bytes, encoder: SpeakerEncoder) -> tuple[FloatArray, float]:
        """The clip's vector, and how much speech it holds."""
        known = self.store.cached_embedding(hashlib.sha256(clip).hexdigest(), encoder.encoder_id)
        if known is not None:
            return known.vector, known.voiced_s
        reference = self.embed([clip], encoder)
        return reference.embedding.vector, reference.report.voiced_s

    def embed(self, clips: Sequence[bytes], encoder: SpeakerEncoder) -> Reference:
        """The clips as this encoder hears them; nothing of them is kept. Raises: RequestRefused, EncoderError."""
        from encoder.reference import embed_clips

        self._check_count(clips)
        return embed_clips(clips, encoder, self.decoder, self.limits)

    def _hear_again(self, consents: Sequence[Consent], encoder: SpeakerEncoder) -> None:
        """Has recorded statements heard by the encoder of the clips that they will be compared with."""
        for consent in consents:
            if consent.revoked_at is None and consent.encoder_id not in (None, encoder.encoder_id):
                audio = self.store.consent_recording(consent.id)
                if audio is not None:
                    heard = self.embed([audio], encoder).embedding
                    self.store.rehear_consent(consent.id, heard.vector, encoder.encoder_id)

    def _check_count(self, clips: Sequence[bytes]) -> None:
        if not clips:
            raise RequestRefused("missing_field", "clips is missing; send at least one audio file", field="clips")
        if len(clips) > self.max_clips:
            raise RequestRefused(
                "too_many_clips",
                f"{len(clips)} clips are more than the limit of {self.max_clips}; send the rest to .../clips",
                field="clips",
                limit=self.max_clips,
            )


def _digest(name: str, clips: Sequence[bytes], labels: Mapping[str, str], consent_id: str | None) -> str:
    parts: list[object] = [name, dict(labels), [hashlib.sha256(clip).hexdigest() for clip in clips]]
    # Without a consent it is what it was before there were any.
    parts += [consent_id] if consent_id else []
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def report_document(report: EnrolmentReport) -> dict[str, object]:
    """The report as plain JSON values."""
    return cast(dict[str, object], _REPORT.dump_python(report, mode="json"))


def clip_records(reference: Reference) -> tuple[ClipRecord, ...]:
    """What the store keeps of each clip."""
    return tuple(_record(clip, found) for clip, found in zip(reference.clips, reference.report.clips, strict=True))


def _record(clip: Embedding, found: ClipReport) -> ClipRecord:
    return ClipRecord(
        sha256=found.sha256,
        vector=clip.vector,
        duration_s=found.duration_s,
        voiced_s=found.voiced_s,
        n_partials=clip.n_partials,
        snr_db=found.snr_db,
    )
