"""Which networks may run in half precision, and how far that may change what is heard.

- text encoder and durations: float32. They are little of the work, and a rounded duration moves all that follows.
- flow: float16 in its WaveNets, whose tanh and sigmoid bound what they pass on; the latents and the sums stay float32.
- decoder: float16 up to its last layer; the spectrum, the inverse transform and the sums over frames stay float32.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from cloning.engines.base import Engine, Planned
from cloning.model import YourTTS
from cloning.types import FloatArray, Sentence

# The largest mean distance of log spectra, and the largest share of the signal's power that may be error.
MOST_DB = 1.0
MOST_ERROR_DB = -30.0
# The least cosine of the speaker encoder's vectors of what both engines said.
LEAST_LIKENESS = 0.99
# A duration is rounded: where a change of its length by this share moves it, either side of the border is right.
BORDER = 1e-4
_FLOOR_DB = -80.0
_N_FFT = 1024


# Samples of two engines and their rate, to how alike their speakers are: a cosine.
Likeness = Callable[[FloatArray, FloatArray, int], float]


@dataclass(frozen=True, slots=True)
class Verdict:
    """How an engine's speech differs from its oracle's, the worst of all sentences.

    `spectral_db` is the mean distance of log spectra, `error_db` the power of the difference against the signal's,
    `likeness` the speaker encoder's cosine, 1 where none listened. `n_on_border` durations were rounded to the other
    side of a border that they lay on.
    """

    finite: bool
    same_durations: bool
    spectral_db: float
    error_db: float
    likeness: float = 1.0
    n_on_border: int = 0
    n_sentences: int = 1

    @property
    def passed(self) -> bool:
        same = self.finite and self.same_durations
        near = self.spectral_db <= MOST_DB and self.error_db <= MOST_ERROR_DB
        return same and near and self.likeness >= LEAST_LIKENESS


def to_half(model: YourTTS) -> YourTTS:
    """The same voice with the weights of flow and decoder in float16, changed in place."""
    for network in (model.flow, model.decoder):
        # Buffers hold windows and matrices that are used in float32.
        for parameter in network.parameters():
            parameter.data = parameter.data.half()
    return model


def compare(
    engine: Engine, oracle: Engine, sentences: Sequence[Sentence], likeness: Likeness | None = None, rate_hz: int = 0
) -> Verdict:
    """Speaks the sentences with both, each planned by its own first phase, in batches as large as the engine takes."""
    found = []
    for first in range(0, len(sentences), engine.max_batch):
        ours = engine.prior(sentences[first : first + engine.max_batch])
        for plan, samples in zip(ours, engine.decode([plan.whole() for plan in ours]), strict=True):
            verdict, expected = _verdict(plan, samples, oracle)
            if likeness and verdict.passed:
                verdict = replace(verdict, likeness=likeness(samples, expected, rate_hz))
            found.append(verdict)
    return worst(found)


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """The worst of each measure."""
    return Verdict(
        all(v.finite for v in verdicts),
        all(v.same_durations for v in verdicts),
        max(v.spectral_db for v in verdicts),
        max(v.error_db for v in verdicts),
        min(v.likeness for v in verdicts),
        sum(v.n_on_border for v in verdicts),
        sum(v.n_sentences for v in verdicts),
    )


def at_all_shapes(model: YourTTS, oracle: Engine, max_batch: int, most_frames: int) -> list[list[Sentence]]:
    """Batches of the least, a common and the largest shape of an engine, and one that is longer than its longest.

    An engine that has windows of `most_frames` must divide the last into several.
    """
    drawn = drawn_sentences(model, max_batch)

    def lasting(sentence: Sentence, n_frames: float) -> Sentence:
        (plan,) = oracle.prior([sentence])
        scale = sentence.options.length_scale * n_frames / plan.n_frames
        return replace(sentence, options=replace(sentence.options, length_scale=scale))

    longest = drawn[-1]
    # A little less than the longest: whole frames are not divided evenly.
    full = [lasting(replace(longest, d_vector=s.d_vector), 0.95 * most_frames) for s in drawn]
    return [[drawn[0]], [drawn[len(drawn) // 2]], full, [lasting(longest, 1.5 * most_frames)]]


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


def _verdict(ours: Planned, samples: FloatArray, oracle: Engine) -> tuple[Verdict, FloatArray]:
    """The verdict on one sentence, and the oracle's samples for the durations of ours."""
    (theirs,) = oracle.prior([ours.sentence])
    finite, moved = bool(np.isfinite(samples).all()), int((ours.durations != theirs.durations).sum())
    same = not moved or _on_border(ours, oracle)
    if not (finite and same):
        return Verdict(finite, same, float("inf"), float("inf")), samples
    (expected,) = oracle.decode([replace(theirs, durations=ours.durations).whole()])
    error = float(np.square(samples - expected).mean() / max(1e-12, float(np.square(expected).mean())))
    spectral_db = float(np.abs(_log_spectrum(samples) - _log_spectrum(expected)).mean())
    return Verdict(True, True, spectral_db, 10 * float(np.log10(max(1e-12, error))), n_on_border=moved), expected


def _on_border(ours: Planned, oracle: Engine) -> bool:
    """Whether each duration is one that the oracle gives for a length that hardly differs."""
    sentence = ours.sentence
    least, most = (
        oracle.prior([replace(sentence, options=replace(sentence.options, length_scale=scale))])[0].durations
        for scale in (sentence.options.length_scale * (1 - BORDER), sentence.options.length_scale * (1 + BORDER))
    )
    return bool(((least <= ours.durations) & (ours.durations <= most)).all())


def _log_spectrum(samples: FloatArray) -> FloatArray:
    """Levels in dB, no lower than `_FLOOR_DB` under the loudest. Shapes: float32 (n,) -> float32 (n_bins, T)."""
    x = torch.nn.functional.pad(torch.from_numpy(samples.copy()), (0, _N_FFT))
    magnitude = torch.stft(x, _N_FFT, _N_FFT // 4, window=torch.hann_window(_N_FFT), return_complex=True).abs()
    level: FloatArray = (20 * (magnitude + 1e-9).log10()).numpy()
    floored: FloatArray = np.maximum(level, level.max() + _FLOOR_DB)
    return floored
