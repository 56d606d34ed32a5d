"""From spoken sentences to one signal: edges trimmed, joins faded, pauses put in."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cloning.errors import SynthesisFailed
from cloning.types import FloatArray, Speech

LEAD_S = 0.04
TAIL_S = 0.12
FADE_S = 0.008
# Speech under this level, against the loudest 10 ms, is the breath and hiss of the edges.
EDGE_DB = -42.0
SILENCE_DBFS = -60.0


@dataclass(frozen=True, slots=True)
class Finished:
    """A sentence as it is heard: `n_cut` samples were left out before it, `n_spoken` come before its pause.

    Shapes: samples float32 (n,) in [-1, 1].
    """

    samples: FloatArray
    n_cut: int
    n_spoken: int


def finish_sentence(samples: FloatArray, sample_rate: int, pause_after_s: float) -> Finished:
    """A sentence without the silence that the network puts around it, faded at both ends, and the pause after it.

    Shapes: float32 (n,).
    Raises: SynthesisFailed where the network gave numbers that are not finite, or nothing that can be heard.
    """
    if not np.isfinite(samples).all():
        raise SynthesisFailed("synthesis_failed", "the network gave values that are not numbers; nothing was spoken")
    width = sample_rate // 100
    frames = samples[: len(samples) // width * width].reshape(-1, width)
    power = 10 * np.log10((frames.astype(np.float64) ** 2).mean(1) + 1e-12)
    if not len(power) or power.max() < SILENCE_DBFS:
        raise SynthesisFailed("synthesis_failed", "the network gave silence; nothing was spoken")
    loud = np.flatnonzero(power > power.max() + EDGE_DB)
    start = max(0, loud[0] * width - round(LEAD_S * sample_rate))
    stop = min(len(samples), (loud[-1] + 1) * width + round(TAIL_S * sample_rate))
    cut = np.clip(samples[start:stop], -1.0, 1.0)
    fade = np.linspace(0, 1, min(round(FADE_S * sample_rate), len(cut) // 2), dtype=np.float32)
    cut[: len(fade)] *= fade
    cut[len(cut) - len(fade) :] *= fade[::-1]
    paused = np.concatenate([cut, np.zeros(round(pause_after_s * sample_rate), np.float32)])
    return Finished(paused, int(start), len(cut))


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
        sentences=tuple(sentence for piece in pieces for sentence in piece.sentences),
    )
