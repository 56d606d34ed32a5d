"""Sentences and parts of them made into padded tensors, the same way for every engine that runs torch's networks."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from cloning.config import VoiceConfig
from cloning.engines.base import Part, Planned
from cloning.engines.windows import Span, divided, durations_within
from cloning.model import PriorInput
from cloning.noise import normal
from cloning.types import FloatArray, Sentence, SpeechOptions

_SILENCE = np.zeros(0, np.float32)
# The noise of the durations must not be that of the frames.
_RHYTHM = 0x5DEECE66D


@dataclass(frozen=True, slots=True)
class DevicePrior:
    """A batch's prior on the device. Shapes: m_p, logs_p float32 (B, C, T_text), d_vectors float32 (B, d)."""

    m_p: Tensor
    logs_p: Tensor
    d_vectors: Tensor

    def planned(self, sentences: Sequence[Sentence], durations: Tensor) -> list[Planned]:
        """The sentences with their durations, which the host waits for. Shapes: int64 (B or more, T_text) frames."""
        on_host = durations.cpu().numpy()
        return [Planned(s, on_host[i, : len(s.token_ids)].copy(), self, i) for i, s in enumerate(sentences)]


@dataclass(frozen=True, slots=True)
class NoiseInput:
    """Which noise each row is given. Shapes: seeds, first int64 (B,), first being a frame; scale float32 (B,)."""

    seeds: Tensor
    first: Tensor
    scale: Tensor

    def to(self, device: torch.device) -> "NoiseInput":
        """The same on a device."""
        return NoiseInput(self.seeds.to(device), self.first.to(device), self.scale.to(device))

    def drawn(self, n_channels: int, n_frames: int) -> Tensor:
        """Shapes: -> float32 (B, n_channels, n_frames)."""
        return normal(self.seeds, self.first, n_channels, n_frames) * self.scale[:, None, None]


def prior_input(sentences: Sequence[Sentence], config: VoiceConfig) -> PriorInput:
    """The first phase's inputs, on the host."""
    ids = [torch.from_numpy(s.token_ids) for s in sentences]
    padded = pad_sequence(ids, batch_first=True)
    seeds = torch.tensor([s.options.seed ^ _RHYTHM for s in sentences])
    scale = [_or(s.options.noise_scale_dp, config.speech.noise_scale_dp) for s in sentences]
    rhythm = NoiseInput(seeds, torch.zeros_like(seeds), torch.tensor(scale))
    return PriorInput(
        padded,
        torch.tensor([len(i) for i in ids]),
        torch.from_numpy(np.stack([s.d_vector for s in sentences])),
        torch.tensor([s.language_id for s in sentences]),
        torch.tensor([s.options.length_scale * config.speech.length_scale for s in sentences]),
        rhythm.drawn(2, padded.shape[1]),
    )


def statistics(parts: Sequence[Part], width: int) -> tuple[Tensor, Tensor, Tensor]:
    """m_p, logs_p and d-vectors of each part's sentence, from whichever batches they were planned in.

    Shapes: -> float32 (B, C, width) twice, float32 (B, d), on the device of the priors.
    """
    held = [(part.plan.prior, part.plan.row) for part in parts]
    rows = [(h.m_p[i], h.logs_p[i], h.d_vectors[i]) for h, i in held if isinstance(h, DevicePrior)]
    m_p, logs_p = (torch.stack([_fit(row[k].T, width) for row in rows]).transpose(1, 2) for k in (0, 1))
    return m_p, logs_p, torch.stack([row[2] for row in rows])


def durations_of(parts: Sequence[Part], windows: Sequence[Span]) -> Tensor:
    """Frames of each symbol within each window, on the host. Shapes: -> int64 (B, T_text) frames."""
    inside = (durations_within(p.plan.durations, w) for p, w in zip(parts, windows, strict=True))
    return pad_sequence([torch.from_numpy(d) for d in inside], batch_first=True)


def noise_of(parts: Sequence[Part], windows: Sequence[Span], config: VoiceConfig) -> NoiseInput:
    """Which noise the windows are given, on the host."""
    options: list[SpeechOptions] = [part.plan.sentence.options for part in parts]
    return NoiseInput(
        torch.tensor([o.seed for o in options]),
        torch.tensor([w.start for w in windows]),
        torch.tensor([_or(o.noise_scale, config.speech.noise_scale) for o in options]),
    )


def cut(samples: FloatArray, parts: Sequence[Part], windows: Sequence[Span], hop: int) -> list[FloatArray]:
    """The samples of each part out of those of its window. Shapes: float32 (B or more, T * hop)."""
    return [
        row[(part.span.start - window.start) * hop : (part.span.stop - window.start) * hop]
        for row, part, window in zip(samples, parts, windows, strict=False)
    ]


def in_pieces(
    parts: Sequence[Part], most_frames: int, groups: Callable[[Sequence[Part]], Iterable[list[int]]],
    decode: Callable[[Sequence[Part]], list[FloatArray]],
) -> list[FloatArray]:  # fmt: skip
    """Samples of each part, decoded in pieces of at most so many frames; `groups` says which share a call."""
    pieces = [(i, Part(part.plan, span)) for i, part in enumerate(parts) for span in divided(part.span, most_frames)]
    sounds: list[FloatArray] = [_SILENCE] * len(pieces)
    for group in groups([piece for _, piece in pieces]):
        for k, samples in zip(group, decode([pieces[k][1] for k in group]), strict=True):
            sounds[k] = samples
    of_part = [[s for (j, _), s in zip(pieces, sounds, strict=True) if i == j] for i in range(len(parts))]
    return [sound[0] if len(sound) == 1 else np.concatenate(sound) for sound in of_part]


def _fit(rows: Tensor, width: int) -> Tensor:
    """The first axis padded with zeros or cut to a width, the second left as it lies in memory."""
    return rows[:width] if len(rows) >= width else F.pad(rows, (0, 0, 0, width - len(rows)))


def _or(value: float | None, default: float) -> float:
    return default if value is None else value
