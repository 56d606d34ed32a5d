"""Which windows of an utterance the d-vector network hears; pure arithmetic on a length."""

import math
from dataclasses import dataclass

HOP_SAMPLES = 160
PARTIAL_FRAMES = 160
PARTIALS_PER_S = 1.3
MIN_COVERAGE = 0.75

PARTIAL_SAMPLES = PARTIAL_FRAMES * HOP_SAMPLES
SAMPLE_RATE = 16_000
STEP_FRAMES = round(SAMPLE_RATE / PARTIALS_PER_S / HOP_SAMPLES)


@dataclass(frozen=True, slots=True)
class Windows:
    """First mel frame of each partial, and how long the audio must be once zero-padded to cover the last one."""

    starts_frames: tuple[int, ...]
    padded_samples: int


def windows(n_samples: int) -> Windows:
    """The partials of an utterance of 16 kHz audio, at least one; a last one that is mostly padding is dropped.

    Raises: ValueError for a negative length.
    Source: L. Wan et al., "Generalized End-to-End Loss for Speaker Verification", 2018, section 3.2 (sliding
    windows), with Resemblyzer's rate of 1.3 partials a second and minimum coverage of 0.75.
    """
    if n_samples < 0:
        raise ValueError(f"n_samples must not be negative, got {n_samples}")
    n_frames = math.ceil((n_samples + 1) / HOP_SAMPLES)
    starts = list(range(0, max(1, n_frames - PARTIAL_FRAMES + STEP_FRAMES + 1), STEP_FRAMES))
    if len(starts) > 1 and (n_samples - starts[-1] * HOP_SAMPLES) / PARTIAL_SAMPLES < MIN_COVERAGE:
        starts.pop()
    end = starts[-1] * HOP_SAMPLES + PARTIAL_SAMPLES
    return Windows(tuple(starts), max(n_samples, end))
