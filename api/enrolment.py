"""Clips to speakers: the encoder and the store, joined. Knows nothing of HTTP."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from pydantic import TypeAdapter

from api.errors import RequestRefused
from encoder.types import AudioLimits, ClipReport, Embedding, EnrolmentReport, Reference
from store.types import ClipRecord, FloatArray, Match, NewSpeaker, RequestKey, Speaker

if TYPE_CHECKING:
    from encoder.audio import Decoder
    from encoder.engine import SpeakerEncoder
    from store.service import Store

_REPORT = TypeAdapter(EnrolmentReport)


@dataclass(frozen=True, slots=True)
class Enrolled:
    """A stored speaker and what was found in the clips of this call."""

    speaker: Speaker
    report: EnrolmentReport


@dataclass(frozen=True, slots=True)
class Enrolment:
    """Turns clips into stored speakers, and into matches with those that are stored."""

    store: Store
    encoder: SpeakerEncoder
    decoder: Decoder
    limits: AudioLimits
    max_clips: int

    def enrol(
        self, name: str, clips: Sequence[bytes], labels: Mapping[str, str], request_key: str | None = None
    ) -> Enrolled:
        """A new speaker from clips; all of them are used or none is. A key that was answered gives the speaker of then.

        Raises: EncoderError for a clip that cannot be used, NameTaken, BadName, KeyReused.
        """
        key = None if request_key is None else RequestKey(request_key, _digest(name, clips, labels))
        known = None if key is None else self.store.enrolled_before(key)
        if known is not None:
            return Enrolled(known, _REPORT.validate_python(known.report))
        reference = self._embed(clips)
        new = NewSpeaker(
            name=name,
            encoder_id=self.encoder.encoder_id,
            clips=_records(reference),
            labels=labels,
            report=report_document(reference.report),
        )
        return Enrolled(self.store.enrol(new, key), reference.report)

    def add_clips(self, speaker_id: str, clips: Sequence[bytes]) -> Enrolled:
        """A stored speaker with more clips: the mean is renewed and the revision rises.

        Raises: SpeakerNotFound, EncoderError.
        """
        self.store.get(speaker_id)
        reference = self._embed(clips)
        speaker = self.store.add_clips(
            speaker_id, self.encoder.encoder_id, _records(reference), report=report_document(reference.report)
        )
        return Enrolled(speaker, reference.report)

    def search(self, clip: bytes, k: int) -> tuple[Match, ...]:
        """The stored speakers whose voices are nearest to a clip; the clip itself is not kept."""
        return self.store.similar(self._vector_of(clip), self.encoder.encoder_id, k)

    def _vector_of(self, clip: bytes) -> FloatArray:
        known = self.store.cached_embedding(hashlib.sha256(clip).hexdigest(), self.encoder.encoder_id)
        return known.vector if known else self._embed([clip]).embedding.vector

    def _embed(self, clips: Sequence[bytes]) -> Reference:
        from encoder.reference import embed_clips

        self._check_count(clips)
        return embed_clips(clips, self.encoder, self.decoder, self.limits)

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


def _digest(name: str, clips: Sequence[bytes], labels: Mapping[str, str]) -> str:
    parts = [name, dict(labels), [hashlib.sha256(clip).hexdigest() for clip in clips]]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def report_document(report: EnrolmentReport) -> dict[str, object]:
    """The report as plain JSON values."""
    return cast(dict[str, object], _REPORT.dump_python(report, mode="json"))


def _records(reference: Reference) -> tuple[ClipRecord, ...]:
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
