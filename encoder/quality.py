"""How good a reference is: noise, bandwidth, clips that do not fit, and the suspicion of a second speaker."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from encoder.audio import level_dbfs
from encoder.types import FloatArray, Segment

_FRAME_SAMPLES = 512
_MIN_NOISE_FRAMES = 6
_QUIET_POWER = 1e-12
_BANDWIDTH_DB = 65.0
_MAX_ROUNDS = 20
_MIN_GROUP, _MIN_GROUP_SHARE = 2, 0.2
# On 25 speakers of the training corpus: the halves of one voice stay above, those of two voices below; likewise
# a clip against the mean of the same speaker's others (above) and of another speaker's (95 of 100 below).
_SAME_VOICE_COSINE = 0.73


@dataclass(frozen=True, slots=True)
class ClipQuality:
    """What was measured in the part of a clip's speech that is used."""

    level_dbfs: float
    snr_db: float | None
    bandwidth_hz: float


def measure_quality(voiced: FloatArray, pauses: FloatArray, sample_rate: int) -> ClipQuality:
    """Level, noise and bandwidth of the speech. Shapes: voiced float32 (v,), pauses float32 (p,)."""
    return ClipQuality(
        level_dbfs=level_dbfs(voiced),
        snr_db=snr_db(voiced, pauses),
        bandwidth_hz=bandwidth_hz(voiced, sample_rate),
    )


def split_voiced(samples: FloatArray, segments: Sequence[Segment]) -> tuple[FloatArray, FloatArray]:
    """The voiced part joined, and the rest joined. Shapes: float32 (n,) -> float32 (v,), float32 (n - v,)."""
    voiced = np.zeros(len(samples), bool)
    for segment in segments:
        voiced[segment.start : segment.stop] = True
    return samples[voiced], samples[~voiced]


def snr_db(voiced: FloatArray, rest: FloatArray) -> float | None:
    """Power of the speech over that of the pauses, in dB; None where the clip has no pause of 0.2 s to measure."""
    pauses = _frame_power(rest)
    if len(pauses) < _MIN_NOISE_FRAMES or not len(voiced):
        return None
    noise = max(float(np.median(pauses)), _QUIET_POWER)
    speech = max(float(np.mean(np.square(voiced, dtype=np.float64))) - noise, _QUIET_POWER)
    return 10.0 * float(np.log10(speech / noise))


def bandwidth_hz(voiced: FloatArray, sample_rate: int) -> float:
    """The highest frequency that the speech reaches within 65 dB of its strongest band. Shapes: float32 (n,)."""
    n_frames = len(voiced) // _FRAME_SAMPLES
    if not n_frames:
        return 0.0
    frames = voiced[: n_frames * _FRAME_SAMPLES].reshape(-1, _FRAME_SAMPLES) * np.blackman(_FRAME_SAMPLES)
    power = np.square(np.abs(np.fft.rfft(frames, axis=1))).mean(axis=0)
    smooth = np.convolve(power, np.full(5, 0.2), mode="same")
    heard = np.flatnonzero(smooth > smooth.max() * 10.0 ** (-_BANDWIDTH_DB / 10.0))
    return float(heard[-1] * sample_rate / _FRAME_SAMPLES) if len(heard) else 0.0


def _frame_power(samples: FloatArray) -> NDArray[np.float64]:
    n_frames = len(samples) // _FRAME_SAMPLES
    frames = samples[: n_frames * _FRAME_SAMPLES].reshape(n_frames, _FRAME_SAMPLES)
    return np.asarray(np.einsum("ij,ij->i", frames, frames) / _FRAME_SAMPLES, np.float64)


def find_outliers(vectors: FloatArray) -> list[int]:
    """Clips unlike the mean of the others; of one clip or two none can be called the wrong one.

    Shapes: vectors float32 (n_clips, d), L2 norm 1.
    """
    if len(vectors) < 3:
        return []
    others = vectors.sum(axis=0) - vectors
    cosines = (vectors * others).sum(axis=1) / np.linalg.norm(others, axis=1)
    worst = int(cosines.argmin())
    if cosines[worst] >= _SAME_VOICE_COSINE:
        return []
    # One stranger also lowers the others' cosines: judge them again without it.
    rest = [index for index in range(len(vectors)) if index != worst]
    return sorted([worst, *(rest[index] for index in find_outliers(vectors[rest]))])


def count_speakers(partials: Sequence[FloatArray], vectors: FloatArray) -> int:
    """2 where a clip falls into two voices or two clips are two voices, else 1.

    Shapes: partials float32 (P, d) for each clip; vectors float32 (n_clips, d); L2 norm 1.
    """
    within = min(two_voices(clip) for clip in partials)
    between = float(vectors[0] @ vectors[1]) if len(vectors) == 2 else 1.0
    return 2 if min(within, between) < _SAME_VOICE_COSINE else 1


def two_voices(partials: FloatArray) -> float:
    """How alike the two groups are that the partials fall into best: the cosine of the groups' means, 1 for one group.

    Shapes: partials float32 (P, d), L2 norm 1.
    Source: spherical 2-means (I. Dhillon and D. Modha, "Concept Decompositions for Large Sparse Text Data", 2001),
    started from the two partials that are least alike.
    """
    alike = partials @ partials.T
    first, second = np.unravel_index(int(alike.argmin()), alike.shape)
    means = partials[[first, second]]
    for _ in range(_MAX_ROUNDS):
        group = (partials @ means.T).argmax(axis=1)
        if min(np.bincount(group, minlength=2)) < max(_MIN_GROUP, _MIN_GROUP_SHARE * len(partials)):
            return 1.0
        renewed = np.stack([_direction(partials[group == index]) for index in (0, 1)])
        if np.allclose(renewed, means):
            break
        means = renewed
    return float(means[0] @ means[1])


def _direction(vectors: FloatArray) -> FloatArray:
    mean = vectors.mean(axis=0)
    return np.asarray(mean / np.linalg.norm(mean), np.float32)
