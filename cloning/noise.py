"""Normal noise that can be read anywhere: each value follows from a seed and its place alone, on every device.

So a part of a sentence needs no noise but its own, a neighbour in the batch changes nothing, and a graph on the GPU
draws it from one number for each row.
"""

import math

import torch
from torch import Tensor

_STEP = 0x9E3779B97F4A7C15
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_BITS = 24


def normal(seeds: Tensor, first: Tensor, n_channels: int, n_frames: int) -> Tensor:
    """Standard normal values of `n_frames` frames of each row, from its frame `first` on.

    Shapes: seeds and first int64 (B,) -> float32 (B, n_channels, n_frames), channels-last.
    Source: the SplitMix64 generator (Steele et al. 2014), figure 14, at a counter; Box and Muller 1958.
    """
    frames = first[:, None] + torch.arange(n_frames, device=first.device)
    places = frames[:, :, None] * n_channels + torch.arange(n_channels, device=first.device)
    bits = _mixed(_mixed(seeds)[:, None, None] + places * _signed(_STEP))
    radius = (((_shifted(bits, 64 - _BITS).float() + 0.5) / 2**_BITS).log() * -2).sqrt()
    angle = (bits & (2**_BITS - 1)).float() * (2 * math.pi / 2**_BITS)
    values: Tensor = radius * angle.cos()
    return values.transpose(1, 2)


def _mixed(x: Tensor) -> Tensor:
    x = (x ^ _shifted(x, 30)) * _signed(_FIRST)
    x = (x ^ _shifted(x, 27)) * _signed(_SECOND)
    return x ^ _shifted(x, 31)


def _shifted(x: Tensor, n_bits: int) -> Tensor:
    """A shift to the right that brings in zeros; torch's own brings in the sign."""
    shifted: Tensor = (x >> n_bits) & (2 ** (64 - n_bits) - 1)
    return shifted


def _signed(constant: int) -> int:
    """The 64-bit word as torch's integers hold it."""
    return constant - 2**64 if constant >= 2**63 else constant
