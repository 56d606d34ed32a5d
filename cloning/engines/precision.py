"""Which networks may run in half precision, and how far that may change what is heard.

- text encoder and durations: float32. They are little of the work, and a rounded duration moves all that follows.
- flow: float16 in its WaveNets, whose tanh and sigmoid bound what they pass on; the latents and the sums stay float32.
- decoder: float16 up to its last layer; the spectrum, the inverse transform and the sums over frames stay float32.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from cloning.engines.base import Engine, Planned
from cloning.model import YourTTS
from cloning.types import FloatArray, Sentence

# The largest mean distance of log spectra, and the largest share of the signal's power that may be error.
MOST_DB = 1.0
MOST_ERROR_DB = -30.0
_FLOOR_DB = -80.0
_N_FFT = 1024


@dataclass(frozen=True, slots=True)
class Verdict:
    """How an engine's speech differs from its oracle's, the worst of all sentences.

    `spectral_db` is the mean distance of log spectra, `error_db` the power of the difference against the signal's.
    """

    finite: bool
    same_durations: bool
    spectral_db: float
    error_db: float

    @property
    def passed(self) -> bool:
        return self.finite and self.same_durations and self.spectral_db <= MOST_DB and self.error_db <= MOST_ERROR_DB


def to_half(model: YourTTS) -> YourTTS:
    """The same voice with the weights of flow and decoder in float16, changed in place."""
    for network in (model.flow, model.decoder):
        # Buffers hold windows and matrices that are used in float32.
        for parameter in network.parameters():
            parameter.data = parameter.data.half()
    return model


def compare(engine: Engine, oracle: Engine, sentences: Sequence[Sentence]) -> Verdict:
    """Speaks the sentences with both, each planned by its own first phase, in batches as large as the engine takes."""
    found = []
    for first in range(0, len(sentences), engine.max_batch):
        batch = sentences[first : first + engine.max_batch]
        ours, theirs = engine.prior(batch), [oracle.prior([sentence])[0] for sentence in batch]
        sounds = engine.decode([plan.whole() for plan in ours])
        found += [_verdict(a, b, x, oracle) for a, b, x in zip(ours, theirs, sounds, strict=True)]
    return Verdict(
        all(v.finite for v in found),
        all(v.same_durations for v in found),
        max(v.spectral_db for v in found),
        max(v.error_db for v in found),
    )


def drawn_sentences(model: YourTTS, n: int) -> list[Sentence]:
    """Sentences of no meaning and of all lengths, by speakers of no name, always the same."""
    from cloning.types import SpeechOptions

    config, rng = model.config, np.random.default_rng(0)
    drawn = []
    for i, length in enumerate(np.linspace(1, config.text.max_symbols, n).astype(int)):
        vector = rng.standard_normal(config.speaker.d_vector).astype(np.float32)
        ids = rng.integers(0, config.text.n_symbols, length)
        language = i % max(1, len(config.text.languages))
        drawn.append(Sentence(ids, vector / np.linalg.norm(vector), language, SpeechOptions(seed=i)))
    return drawn


def _verdict(ours: Planned, theirs: Planned, samples: FloatArray, oracle: Engine) -> Verdict:
    if not np.array_equal(ours.durations, theirs.durations) or not np.isfinite(samples).all():
        same = np.array_equal(ours.durations, theirs.durations)
        return Verdict(bool(np.isfinite(samples).all()), same, float("inf"), float("inf"))
    (expected,) = oracle.decode([theirs.whole()])
    error = float(np.square(samples - expected).mean() / max(1e-12, float(np.square(expected).mean())))
    spectral_db = float(np.abs(_log_spectrum(samples) - _log_spectrum(expected)).mean())
    return Verdict(True, True, spectral_db, 10 * float(np.log10(max(1e-12, error))))


def _log_spectrum(samples: FloatArray) -> FloatArray:
    """Levels in dB, no lower than `_FLOOR_DB` under the loudest. Shapes: float32 (n,) -> float32 (n_bins, T)."""
    x = torch.nn.functional.pad(torch.from_numpy(samples.copy()), (0, _N_FFT))
    magnitude = torch.stft(x, _N_FFT, _N_FFT // 4, window=torch.hann_window(_N_FFT), return_complex=True).abs()
    level: FloatArray = (20 * (magnitude + 1e-9).log10()).numpy()
    floored: FloatArray = np.maximum(level, level.max() + _FLOOR_DB)
    return floored
