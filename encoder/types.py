"""Data that the encoder room takes and gives; all of it frozen."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Waveform:
    """Mono audio. Shapes: samples float32 (n,) in [-1, 1]."""

    samples: FloatArray
    sample_rate: int

    @property
    def duration_s(self) -> float:
        return len(self.samples) / self.sample_rate


@dataclass(frozen=True, slots=True)
class Segment:
    """A half-open span of samples: [start, stop)."""

    start: int
    stop: int

    @property
    def n_samples(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class Embedding:
    """A speaker's vector. Shapes: vector float32 (d,), L2 norm 1.

    `coherence` is the mean cosine of the partials' vectors to their mean: one steady voice is near 1.
    """

    vector: FloatArray
    encoder_id: str
    speech_s: float
    n_partials: int
    coherence: float


@dataclass(frozen=True, slots=True)
class AudioFacts:
    """What decoding found out about a clip; rates and channels are those of the upload."""

    container: str
    source_sample_rate: int
    channels: int
    duration_s: float
    clipped_share: float
    damaged: bool
    channels_differ: bool


@dataclass(frozen=True, slots=True)
class Notice:
    """A warning in a stable code and in words; `clip` is the index of the upload it is about, None for all."""

    code: str
    message: str
    clip: int | None = None


@dataclass(frozen=True, slots=True)
class ClipReport:
    """What was found in one clip. `snr_db` is None where it cannot be estimated.

    `voiced_spans_s` are the stretches of speech that are used, from and to, in seconds of the clip, in order.
    """

    index: int
    sha256: str
    container: str
    source_sample_rate: int
    channels: int
    duration_s: float
    voiced_s: float
    level_dbfs: float
    clipped_share: float
    snr_db: float | None
    bandwidth_hz: float
    cosine_to_mean: float
    voiced_spans_s: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class EnrolmentReport:
    """The quality of a reference, for people to read and for scripts to act on."""

    clips: tuple[ClipReport, ...]
    voiced_s: float
    used_s: float
    coherence: float
    outlier_clips: tuple[int, ...] = ()
    suspected_speakers: int = 1
    notices: tuple[Notice, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Reference:
    """One speaker's reference: the mean embedding, one embedding per clip, and the report."""

    embedding: Embedding
    clips: tuple[Embedding, ...]
    report: EnrolmentReport


@dataclass(frozen=True, slots=True)
class AudioLimits:
    """Caps that hold while decoding, per clip, and what counts as enough speech."""

    max_bytes: int = 32 * 2**20
    max_duration_s: float = 1800.0
    max_decode_s: float = 20.0
    used_s: float = 60.0
    min_voiced_s: float = 1.6
    recommended_voiced_s: float = 5.0


DEFAULT_LIMITS = AudioLimits()
