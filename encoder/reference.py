"""One enrolment from bytes to a speaker's reference: the whole room in order."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from encoder.activity import SpeechDetector
from encoder.audio import SAMPLE_RATE, Decoded, Decoder, condition_speech, level_dbfs
from encoder.declipping import declip
from encoder.engine import EmbeddedClip, SpeakerEncoder
from encoder.errors import EncoderError, UnusableSpeech
from encoder.notices import clip_notices, reference_notices
from encoder.quality import ClipQuality, count_speakers, find_outliers, measure_quality, split_voiced
from encoder.types import (
    DEFAULT_LIMITS,
    AudioFacts,
    AudioLimits,
    ClipReport,
    Embedding,
    EnrolmentReport,
    FloatArray,
    Notice,
    Reference,
    Segment,
    Waveform,
)

# Fewer cut peaks than this leave no trace in a voice's vector.
_REPAIRED_SHARE = 0.005
# Every loudspeaker of a room has its place among the first eight.
_COMPARED_CHANNELS = 8


@dataclass(frozen=True, slots=True)
class _Heard:
    """One clip up to its voiced part. Shapes: used float32 (n,) at 16 kHz, the part that will be embedded."""

    sha256: str
    facts: AudioFacts
    voiced_s: float
    quality: ClipQuality
    used: FloatArray
    spans_s: tuple[tuple[float, float], ...]


def embed_clips(
    clips: Sequence[bytes], encoder: SpeakerEncoder, decoder: Decoder, limits: AudioLimits = DEFAULT_LIMITS
) -> Reference:
    """The reference of one speaker from one clip or several; if one clip cannot be used, none is.

    Raises: UnreadableAudio, AudioTooLong as `Decoder.decode`, and UnusableSpeech (`no_speech`, `too_little_speech`);
    `details["clip"]` is the index of the clip that is to blame. ValueError for no clip.
    """
    if not clips:
        raise ValueError("embed_clips needs at least one clip")
    heard = [_hear(index, data, encoder, decoder, limits) for index, data in enumerate(clips)]
    _refuse_too_little(heard, limits)
    embedded = encoder.analyse([Waveform(condition_speech(clip.used), SAMPLE_RATE) for clip in heard])
    mean = _mean([clip.embedding for clip in embedded])
    return Reference(mean, tuple(clip.embedding for clip in embedded), _report(heard, embedded, mean, limits))


def _hear(index: int, data: bytes, encoder: SpeakerEncoder, decoder: Decoder, limits: AudioLimits) -> _Heard:
    try:
        decoded = _decode(data, encoder.detector, decoder, limits)
    except EncoderError as error:
        error.details["clip"] = index
        raise
    samples = decoded.waveform.samples
    segments = encoder.detector.find_speech(decoded.waveform)
    voiced, pauses = split_voiced(samples, segments)
    if not len(voiced):
        level = level_dbfs(samples)
        raise UnusableSpeech(
            "no_speech",
            f"clip {index} holds no speech (its level is {level:.0f} dBFS): upload a recording of one person speaking",
            clip=index,
            level_dbfs=round(level, 1),
        )
    used = voiced[: round(limits.used_s * SAMPLE_RATE)]
    if decoded.facts.clipped_share > _REPAIRED_SHARE:
        used = declip(used, SAMPLE_RATE)
    quality = measure_quality(used, pauses, SAMPLE_RATE)
    spans_s = _spans_s(segments, len(used))
    return _Heard(hashlib.sha256(data).hexdigest(), decoded.facts, len(voiced) / SAMPLE_RATE, quality, used, spans_s)


def _spans_s(segments: Sequence[Segment], n_used: int) -> tuple[tuple[float, float], ...]:
    """From and to of the segments, in seconds to a millisecond, as far as the used samples go."""
    spans: list[tuple[float, float]] = []
    for segment in segments:
        stop = segment.start + min(segment.n_samples, n_used)
        n_used -= stop - segment.start
        if stop > segment.start:
            spans.append((round(segment.start / SAMPLE_RATE, 3), round(stop / SAMPLE_RATE, 3)))
    return tuple(spans)


def _decode(data: bytes, detector: SpeechDetector, decoder: Decoder, limits: AudioLimits) -> Decoded:
    """The clip; where its channels hold different sounds, the one in which the most is spoken."""
    mixed = decoder.decode(data, limits)
    if not mixed.facts.channels_differ:
        return mixed
    channels = range(min(mixed.facts.channels, _COMPARED_CHANNELS))
    apart = (decoder.decode(data, limits, channel) for channel in channels)
    return max(apart, key=lambda decoded: float(detector.probabilities(decoded.waveform.samples).sum()))


def _refuse_too_little(heard: Sequence[_Heard], limits: AudioLimits) -> None:
    voiced_s = sum(clip.voiced_s for clip in heard)
    if voiced_s < limits.min_voiced_s:
        least = min(range(len(heard)), key=lambda index: heard[index].voiced_s)
        raise UnusableSpeech(
            "too_little_speech",
            f"only {voiced_s:.2f} s of speech were found, at least {limits.min_voiced_s:g} s are needed: "
            f"record {limits.recommended_voiced_s:g} to 30 s",
            clip=least,
            voiced_s=round(voiced_s, 3),
            min_voiced_s=limits.min_voiced_s,
        )


def _mean(clips: Sequence[Embedding]) -> Embedding:
    total = np.sum([clip.vector for clip in clips], axis=0)
    n_partials = sum(clip.n_partials for clip in clips)
    coherence = sum(clip.coherence * clip.n_partials for clip in clips) / n_partials
    vector = (total / np.linalg.norm(total)).astype(np.float32)
    return Embedding(vector, clips[0].encoder_id, sum(clip.speech_s for clip in clips), n_partials, coherence)


def _report(
    heard: Sequence[_Heard], embedded: Sequence[EmbeddedClip], mean: Embedding, limits: AudioLimits
) -> EnrolmentReport:
    vectors = np.stack([clip.embedding.vector for clip in embedded])
    reports = tuple(_clip_report(index, clip, float(vectors[index] @ mean.vector)) for index, clip in enumerate(heard))
    outliers = find_outliers(vectors)
    speakers = count_speakers([clip.partials for clip in embedded], vectors)
    voiced_s = sum(report.voiced_s for report in reports)
    notices: list[Notice] = []
    for clip, report in zip(heard, reports, strict=True):
        notices += clip_notices(report, clip.facts, limits)
    notices += reference_notices(voiced_s, outliers, speakers, limits)
    return EnrolmentReport(reports, voiced_s, mean.speech_s, mean.coherence, tuple(outliers), speakers, tuple(notices))


def _clip_report(index: int, clip: _Heard, cosine_to_mean: float) -> ClipReport:
    return ClipReport(
        index=index,
        sha256=clip.sha256,
        container=clip.facts.container,
        source_sample_rate=clip.facts.source_sample_rate,
        channels=clip.facts.channels,
        duration_s=clip.facts.duration_s,
        voiced_s=clip.voiced_s,
        level_dbfs=clip.quality.level_dbfs,
        clipped_share=clip.facts.clipped_share,
        snr_db=clip.quality.snr_db,
        bandwidth_hz=clip.quality.bandwidth_hz,
        cosine_to_mean=cosine_to_mean,
        voiced_spans_s=clip.spans_s,
    )
