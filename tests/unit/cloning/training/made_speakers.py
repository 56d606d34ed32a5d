"""Made-up speakers for tests of training: buzzes with formants of their own."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import soundfile

from cloning.training.corpus import Utterance

RATE = 24000


def made_speakers(folder: Path, numbers: Iterable[int], n_clips: int) -> list[Utterance]:
    """Clips of 1.2 s, written into the folder."""
    utterances = []
    for number in numbers:
        for clip in range(n_clips):
            path = folder / f"s{number}-{clip}.wav"
            soundfile.write(path, _buzz(number, clip), RATE)
            utterances.append(Utterance(str(path), None, f"s{number}", "a short line of text", "full-band", 1.2))
    return utterances


def _buzz(number: int, clip: int) -> np.ndarray:
    t = np.arange(int(1.2 * RATE)) / RATE
    rng = np.random.default_rng((number, clip))
    f0_hz = (90 + 35 * number) * (1 + 0.05 * np.sin(2 * np.pi * (2 + clip) * t))
    phase = 2 * np.pi * np.cumsum(f0_hz) / RATE
    formants_hz = 400 + 150 * number, 1300 + 300 * number, 2500 + 250 * number
    sound = np.zeros(len(t))
    for k in range(1, 40):
        gain = sum(np.exp(-(((k * f0_hz.mean() - f) / 200) ** 2)) for f in formants_hz)
        sound += gain * np.sin(k * phase) / k**0.5
    swell = 0.5 + 0.5 * np.sin(2 * np.pi * (3 + clip) * t) ** 2
    return 0.05 * sound * swell + rng.normal(0, 0.001, len(t))


def no_vectors(clips: Sequence[np.ndarray], sample_rate: int) -> np.ndarray:
    """d-vectors that say nothing."""
    return np.full((len(list(clips)), 256), 1 / 16, np.float32)
