"""Peaks that a recording cut off, guessed back from the sparse spectrum of what is left."""

import math

import numpy as np
from numpy.typing import NDArray

from encoder.types import FloatArray

_FRAME_SAMPLES, _HOP_SAMPLES, _FFT = 1024, 512, 2048
_ROUNDS, _MORE_PARTIALS_PER_ROUND = 150, 4
# Speech falls with frequency, and so do the partials that are believed first.
_BELIEVED_HZ = 3000.0
_HIGHEST_OVER_CEILING = 10.0
# Resampling and lossy coding after the clipping leave ripples on what was flat.
_AT_CEILING = 0.95
_LOWEST_CEILING = 0.6  # of the highest ripple
_CEILING_BINS = 25


def declip(samples: FloatArray, sample_rate: int) -> FloatArray:
    """The recording with its cut peaks restored; whatever lies under the ceiling stays as it is.

    Peaks can come out above 1. Shapes: float32 (n,) -> float32 (n,).
    Source: A-SPADE (S. Kitić, N. Bertin, R. Gribonval, "Sparsity and cosparsity for audio declipping", 2015), with
    partials ranked after a weight that falls with frequency, as P. Záviška et al. do ("A survey and an extensive
    evaluation of popular audio declipping methods", 2021).
    """
    top, bottom = _ceiling(samples), -_ceiling(-samples)
    edge = _FRAME_SAMPLES
    padded = np.pad(samples, (edge, edge + -len(samples) % _HOP_SAMPLES))
    window = np.sin(np.pi * (np.arange(_FRAME_SAMPLES, dtype=np.float32) + 0.5) / _FRAME_SAMPLES)
    frames = np.lib.stride_tricks.sliding_window_view(padded, _FRAME_SAMPLES)[::_HOP_SAMPLES]
    over, under = frames >= top * _AT_CEILING, frames <= bottom * _AT_CEILING
    cut = np.flatnonzero((over | under).any(axis=1))
    repaired = frames.clip(bottom, top) * window
    repaired[cut] = _repair(repaired[cut], over[cut], under[cut], _weights(sample_rate))
    whole = np.zeros_like(padded)
    for index, frame in enumerate(repaired * window):
        # The squares of two sine windows that overlap by half sum to one.
        whole[index * _HOP_SAMPLES : index * _HOP_SAMPLES + _FRAME_SAMPLES] += frame
    return whole[edge : edge + len(samples)]


def _repair(frames: FloatArray, over: NDArray[np.bool_], under: NDArray[np.bool_], weights: FloatArray) -> FloatArray:
    """Shapes: float32 (F, 1024), bool (F, 1024) twice, float32 (1025,) -> float32 (F, 1024)."""
    lowest = np.where(under, frames * _HIGHEST_OVER_CEILING, frames)
    highest = np.where(over, frames * _HIGHEST_OVER_CEILING, frames)
    estimate = frames
    dual = np.zeros((len(frames), _FFT // 2 + 1), np.complex64)
    for n_partials in range(1, _ROUNDS * _MORE_PARTIALS_PER_ROUND, _MORE_PARTIALS_PER_ROUND):
        spectrum = np.fft.rfft(estimate, _FFT, axis=1) + dual
        size = np.abs(spectrum) * weights
        weakest = np.partition(size, -n_partials, axis=1)[:, -n_partials, None]
        sparse = np.where(size >= weakest, spectrum, np.complex64(0.0))
        estimate = np.fft.irfft(sparse - dual, _FFT, axis=1)[:, :_FRAME_SAMPLES].clip(lowest, highest)
        dual += np.fft.rfft(estimate, _FFT, axis=1) - sparse
    return estimate


def _ceiling(samples: FloatArray) -> float:
    """The level that positive samples were cut to: near the top, the one that most of them have."""
    highest = float(samples.max())
    if highest <= 0.0:
        return math.inf
    count, edges = np.histogram(samples, _CEILING_BINS, (_LOWEST_CEILING * highest, highest))
    fullest = int(count.argmax())
    return float(edges[fullest] + edges[fullest + 1]) / 2.0


def _weights(sample_rate: int) -> FloatArray:
    frequency = np.fft.rfftfreq(_FFT, 1.0 / sample_rate)
    return (1.0 / (1.0 + frequency / _BELIEVED_HZ)).astype(np.float32)
