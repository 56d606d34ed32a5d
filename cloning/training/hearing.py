"""What is measured in one piece of speech: words, naturalness, pitch, pace and faults."""

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import soxr

from cloning.training.judges import RATE_HZ, Judges
from cloning.types import FloatArray

FRAME_SAMPLES = 160
SPEECH_RANGE_DB = 40.0
VOICED_SHARE_OF_LEVEL = 0.25
PITCH_RANGE_HZ = (60.0, 400.0)

MAX_WORD_ERROR_RATE = 0.5
MAX_WORDS_IN_A_ROW = 2
MAX_SILENCE_S = 1.0
MAX_CLIPPED_SHARE = 1e-4
MAX_OUTSIDE_SHARE = 0.1
CHARACTERS_PER_S = (5.0, 30.0)


@dataclass(frozen=True, slots=True)
class Hearing:
    """One piece of speech as the judges heard it; errors count against the text that was to be said.

    `skipped_words` and `added_words` are the longest runs of them. `spoken_s` leaves out silence at both ends;
    `silence_s` is the longest one inside; `f0_hz` is the median pitch. `outside_share` is the share of the power where
    speech has none: under 50 Hz and in the top 3 % of the band, which no judge names.
    """

    heard: str
    words: int
    word_errors: int
    characters: int
    character_errors: int
    duration_s: float
    skipped_words: int = 0
    added_words: int = 0
    spoken_s: float = 0.0
    silence_s: float = 0.0
    clipped_share: float = 0.0
    outside_share: float = 0.0
    f0_hz: float | None = None
    opinions: Mapping[str, float] = field(default_factory=dict)
    failures: tuple[str, ...] = ()


def plain_words(text: str) -> str:
    """Text as recognisers are compared: lower case, without punctuation, single spaces."""
    kept = re.sub(r"[^a-z0-9' ]", " ", text.lower().replace("’", "'"))
    return " ".join(word for word in (w.strip("'") for w in kept.split()) if word)


def hear(samples: FloatArray, sample_rate: int, text: str, judges: Judges) -> Hearing:
    """Everything about one piece of speech. Shapes: samples float32 (n,), not silent."""
    audio = at_16_khz(samples, sample_rate)
    hearing = _compare(plain_words(text), judges.recognise(audio), len(audio) / RATE_HZ)
    spoken_s, silence_s = speech_and_silence_s(audio)
    return _with_failures(
        dataclasses.replace(
            hearing,
            spoken_s=spoken_s,
            silence_s=silence_s,
            clipped_share=float(np.mean(np.abs(samples) >= 0.999)),
            outside_share=outside_share(samples, sample_rate),
            f0_hz=median_f0_hz(audio),
            opinions=_opinions(audio, judges),
        )
    )


def not_spoken(text: str, reason: str) -> Hearing:
    """A sentence that gave no speech: all of its words are missing."""
    said = plain_words(text)
    n_words = len(said.split())
    return Hearing("", n_words, n_words, len(said), len(said), 0.0, n_words, failures=(reason,))


def at_16_khz(samples: FloatArray, sample_rate: int) -> FloatArray:
    """What the judges hear, its peaks at most 1."""
    if sample_rate == RATE_HZ:
        return samples
    return np.clip(np.asarray(soxr.resample(samples, sample_rate, RATE_HZ), np.float32), -1, 1)


def speech_and_silence_s(samples: FloatArray) -> tuple[float, float]:
    """Seconds from the first to the last sound, and the longest silence between.

    Silence lies 40 dB or more below the loud frames. Shapes: samples float32 (n,) at 16 kHz.
    """
    level = _frame_level(samples)
    loud = np.flatnonzero(level > np.percentile(level, 95) * 10 ** (-SPEECH_RANGE_DB / 20))
    if not len(loud):
        return 0.0, 0.0
    frame_s = FRAME_SAMPLES / RATE_HZ
    longest = int(np.diff(loud).max(initial=1)) - 1
    return float(loud[-1] - loud[0] + 1) * frame_s, longest * frame_s


def median_f0_hz(samples: FloatArray) -> float | None:
    """The median pitch of the loud frames, which are nearly all vowels; None for less than 0.2 s of them."""
    import librosa

    low, high = PITCH_RANGE_HZ
    f0 = librosa.yin(samples, fmin=low, fmax=high, sr=RATE_HZ, frame_length=1024, hop_length=FRAME_SAMPLES)
    level = _frame_level(samples)[: len(f0)]
    voiced = f0[: len(level)][level > np.percentile(level, 95) * VOICED_SHARE_OF_LEVEL]
    inside = voiced[(voiced > low * 1.02) & (voiced < high * 0.98)]
    return float(np.median(inside)) if len(inside) >= 20 else None


def outside_share(samples: FloatArray, sample_rate: int) -> float:
    """Share of the power under 50 Hz and in the top 3 % of the band. Shapes: samples float32 (n,)."""
    power = np.abs(np.fft.rfft(samples)) ** 2
    hz = np.fft.rfftfreq(len(samples), 1 / sample_rate)
    outside = (hz < 50) | (hz > 0.97 * sample_rate / 2)
    return float(power[outside].sum() / max(power.sum(), 1e-12))


def _frame_level(samples: FloatArray) -> FloatArray:
    """Root mean square of each 10 ms; a short rest is left out."""
    frames = samples[: len(samples) // FRAME_SAMPLES * FRAME_SAMPLES].reshape(-1, FRAME_SAMPLES)
    level: FloatArray = np.sqrt(np.mean(frames**2, axis=1))
    return level


def _compare(said: str, heard: str, duration_s: float) -> Hearing:
    """The words that were heard beside those that were to be said."""
    import jiwer

    words, characters = (
        compare(said, plain_words(heard)) for compare in (jiwer.process_words, jiwer.process_characters)
    )
    runs = {"delete": 0, "insert": 0}
    for part in words.alignments[0]:
        longest = max(part.ref_end_idx - part.ref_start_idx, part.hyp_end_idx - part.hyp_start_idx)
        if part.type in runs:
            runs[part.type] = max(runs[part.type], longest)
    errors = [x.substitutions + x.deletions + x.insertions for x in (words, characters)]
    return Hearing(
        heard, len(said.split()), errors[0], len(said), errors[1], duration_s, runs["delete"], runs["insert"]
    )


def _opinions(samples: FloatArray, judges: Judges) -> dict[str, float]:
    return {name: score for opinion in judges.opinions.values() for name, score in opinion(samples).items()}


def _with_failures(hearing: Hearing) -> Hearing:
    """The hearing with its faults in words."""
    faults = []
    if hearing.word_errors > MAX_WORD_ERROR_RATE * hearing.words:
        faults.append(f"{hearing.word_errors} errors in {hearing.words} words")
    if hearing.skipped_words > MAX_WORDS_IN_A_ROW:
        faults.append(f"{hearing.skipped_words} words in a row are missing")
    if hearing.added_words > MAX_WORDS_IN_A_ROW:
        faults.append(f"{hearing.added_words} words in a row are repeated or added")
    if hearing.silence_s > MAX_SILENCE_S:
        faults.append(f"{hearing.silence_s:.1f} s of silence inside")
    if hearing.clipped_share > MAX_CLIPPED_SHARE:
        faults.append(f"{hearing.clipped_share:.2%} of the samples clip")
    if hearing.outside_share > MAX_OUTSIDE_SHARE:
        faults.append(f"{hearing.outside_share:.0%} of the power is rumble or hiss outside the band of speech")
    pace = hearing.characters / hearing.spoken_s if hearing.spoken_s else 0.0
    if not CHARACTERS_PER_S[0] <= pace <= CHARACTERS_PER_S[1]:
        faults.append(f"{pace:.0f} characters a second")
    return dataclasses.replace(hearing, failures=tuple(faults))
