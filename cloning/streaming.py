"""From spoken sentences, whole or in parts, to one signal: edges trimmed, joins faded, pauses put in."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cloning.errors import SynthesisFailed
from cloning.types import FloatArray, Speech

LEAD_S = 0.04
TAIL_S = 0.12
FADE_S = 0.008
# Sound under this level, against the sentence's loudest 10 ms, is the breath and hiss of the edges.
EDGE_DB = -42.0
# The start is given before the end is known: against the loudest 10 ms of the time after something louder than this.
ONSET_DBFS = -40.0
ONSET_DB = 20.0
HEAD_S = 0.2
# Sound before that is speech if it stands out of the hiss so much, or is no weaker than the weakest consonants.
ABOVE_HISS_DB = 6.0
WEAKEST_DB = -26.0
SILENCE_DBFS = -60.0


@dataclass(frozen=True, slots=True)
class Finished:
    """A sentence as it is heard: `n_cut` samples were left out before it, `n_spoken` come before its pause.

    Shapes: samples float32 (n,) in [-1, 1].
    """

    samples: FloatArray
    n_cut: int
    n_spoken: int


class SentenceEdges:
    """Takes a sentence in parts and gives it without the silence that the network puts around it, faded at both ends.

    What it gives is the same however the sentence is cut. It holds back what may still turn out to be an edge: all of
    it until the speech has begun for `HEAD_S`, then the silence after the last sound and the length of a fade.
    """

    def __init__(self, sample_rate: int) -> None:
        self._rate, self._width, self._fade = sample_rate, sample_rate // 100, round(FADE_S * sample_rate)
        self._lead, self._tail = round(LEAD_S * sample_rate), round(TAIL_S * sample_rate)
        self._samples = np.zeros(0, np.float32)
        # Level of each 10 ms in dBFS, from the sentence's first sample on.
        self._power = np.zeros(0)
        self._start: int | None = None
        self._given = 0

    def push(self, samples: FloatArray) -> FloatArray:
        """What is sure after some more samples; may be empty. Shapes: float32 (n,) -> float32 (m,) in [-1, 1].

        Raises: SynthesisFailed where the network gave numbers that are not finite.
        """
        if not np.isfinite(samples).all():
            words = "the network gave values that are not numbers; the sentence is broken off"
            raise SynthesisFailed("synthesis_failed", words)
        self._samples = np.concatenate([self._samples, samples])
        self._measure()
        if self._start is None:
            self._start = self._begin(at_end=False)
        if self._start is None:
            return np.zeros(0, np.float32)
        sure = min(len(self._samples), self._stop()) - self._fade
        # With a whole fade before what is held back, no end can reach into what has been given.
        return self._take(sure) if sure - self._start >= self._fade else np.zeros(0, np.float32)

    def finish(self, pause_after_s: float) -> Finished:
        """The rest, with the pause after the sentence; the counts are those of the whole sentence.

        Raises: SynthesisFailed where the network gave nothing that can be heard.
        """
        if self._start is None:
            self._start = self._begin(at_end=True)
        if self._start is None:
            raise SynthesisFailed("synthesis_failed", "the network gave silence; nothing was spoken")
        stop = min(len(self._samples), self._stop())
        self._fade = min(self._fade, (stop - self._start) // 2)
        cut = self._take(stop)
        cut[len(cut) - self._fade :] *= _ramp(self._fade)[::-1]
        paused = np.concatenate([cut, np.zeros(round(pause_after_s * self._rate), np.float32)])
        return Finished(paused, self._start, stop - self._start)

    def _measure(self) -> None:
        first, n_whole = len(self._power), len(self._samples) // self._width
        new = self._samples[first * self._width : n_whole * self._width].reshape(-1, self._width).astype(np.float64)
        self._power = np.concatenate([self._power, 10 * np.log10((new**2).mean(1) + 1e-12)])

    def _begin(self, at_end: bool) -> int | None:
        """The first sample that is kept, shortly before the speech; None where that cannot be told yet, or never."""
        if not len(self._power) or (at_end and self._power.max() < SILENCE_DBFS):
            return None
        # Only the end of a sentence tells that it is a quiet one.
        is_quiet = at_end and self._power.max() < ONSET_DBFS
        onset_db = self._power.max() - ONSET_DB if is_quiet else ONSET_DBFS
        sounding, n_head = np.flatnonzero(self._power >= onset_db), round(HEAD_S * 100)
        if not len(sounding) or not (at_end or len(self._power) >= sounding[0] + n_head):
            return None
        onset = int(sounding[0])
        loudest = self._power[onset : onset + n_head].max()
        hiss = np.quantile(self._power[:onset], 0.2) + ABOVE_HISS_DB if onset else -np.inf
        first = int(np.flatnonzero(self._power >= max(loudest + EDGE_DB, min(hiss, loudest + WEAKEST_DB)))[0])
        return max(0, first * self._width - self._lead)

    def _stop(self) -> int:
        """The end of what is kept, as far as is known; it only moves on."""
        last = int(np.flatnonzero(self._power >= self._power.max() + EDGE_DB)[-1])
        return (last + 1) * self._width + self._tail

    def _take(self, stop: int) -> FloatArray:
        start = self._start or 0
        begin = max(start, self._given)
        cut: FloatArray = np.clip(self._samples[begin:stop], -1.0, 1.0)
        self._given = max(begin, stop)
        if begin == start:
            cut[: self._fade] *= _ramp(self._fade)
        return cut


def finish_sentence(samples: FloatArray, sample_rate: int, pause_after_s: float) -> Finished:
    """A whole sentence without the silence around it, faded at both ends, and the pause after it.

    Shapes: float32 (n,).
    Raises: SynthesisFailed where the network gave numbers that are not finite, or nothing that can be heard.
    """
    edges = SentenceEdges(sample_rate)
    first = edges.push(samples)
    rest = edges.finish(pause_after_s)
    return Finished(np.concatenate([first, rest.samples]), rest.n_cut, rest.n_spoken)


def _ramp(length: int) -> FloatArray:
    return np.linspace(0, 1, length, dtype=np.float32)


def join(pieces: Sequence[Speech]) -> Speech:
    """One speech from all its pieces, in order. Raises: ValueError for no piece."""
    if not pieces:
        raise ValueError("join needs at least one piece")
    return Speech(
        samples=np.concatenate([piece.samples for piece in pieces]),
        sample_rate=pieces[0].sample_rate,
        durations=np.concatenate([piece.durations for piece in pieces]),
        n_sentences=sum(piece.n_sentences for piece in pieces),
        skipped=tuple(dict.fromkeys(sign for piece in pieces for sign in piece.skipped)),
        notices=tuple(dict.fromkeys(notice for piece in pieces for notice in piece.notices)),
        pause_s=sum(piece.pause_s for piece in pieces),
        n_slowed=sum(piece.n_slowed for piece in pieces),
        sentences=tuple(sentence for piece in pieces for sentence in piece.sentences),
    )
