"""Where somebody speaks, by Silero's voice activity network."""

import numpy as np
import torch

from encoder.audio import SAMPLE_RATE, resample
from encoder.networks.silero import CHUNK_SAMPLES, Silero, load_silero
from encoder.types import FloatArray, Segment, Waveform

_ENTER, _LEAVE = 0.5, 0.35
# Music and hum lift the probability a little now and then; every stretch of real speech comes close to 1.
_SURE = 0.8
_MARGIN_SAMPLES = SAMPLE_RATE // 10


class SpeechDetector:
    """Finds speech on the CPU; it keeps no state between clips, so many threads may call it."""

    def __init__(self, network: Silero) -> None:
        self._network = network

    @classmethod
    def load(cls) -> "SpeechDetector":
        """The detector with Silero's weights.

        Raises: FileNotFoundError where the weights are missing.
        """
        return cls(load_silero())

    def find_speech(self, waveform: Waveform) -> tuple[Segment, ...]:
        """Stretches of speech in samples at 16 kHz, with margins of 0.1 s, merged, in order."""
        samples = resample(waveform.samples, waveform.sample_rate, SAMPLE_RATE)
        return merge_chunks(self.probabilities(samples), len(samples))

    @torch.inference_mode()
    def probabilities(self, samples: FloatArray) -> FloatArray:
        """How likely each chunk of 512 samples holds speech. Shapes: float32 (n,) at 16 kHz -> (ceil(n / 512),)."""
        if not len(samples):
            return np.zeros(0, np.float32)
        return np.asarray(
            self._network(torch.from_numpy(np.require(samples, requirements=["C", "W"]))).numpy(), np.float32
        )


def merge_chunks(probability: FloatArray, n_samples: int) -> tuple[Segment, ...]:
    """Segments from the chunks' probabilities, entered at 0.5, left under 0.35, kept where 0.8 is reached."""
    segments: list[Segment] = []
    for start, stop in _runs(probability):
        if probability[start:stop].max() < _SURE:
            continue
        first = max(0, start * CHUNK_SAMPLES - _MARGIN_SAMPLES)
        last = min(n_samples, stop * CHUNK_SAMPLES + _MARGIN_SAMPLES)
        if segments and first <= segments[-1].stop:
            first = segments.pop().start
        segments.append(Segment(first, last))
    return tuple(segments)


def _runs(probability: FloatArray) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    start: int | None = None
    for index, value in enumerate(probability):
        if start is None and value >= _ENTER:
            start = index
        elif start is not None and value < _LEAVE:
            runs.append((start, index))
            start = None
    return runs if start is None else [*runs, (start, len(probability))]
