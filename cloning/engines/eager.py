"""The networks as they are written, run by torch: the oracle of all other engines, and the default on a CPU."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from cloning.engines.base import Planned
from cloning.model import PriorInput, YourTTS
from cloning.types import FloatArray, Sentence

GPU_BATCH = 16


@dataclass(frozen=True, slots=True)
class DevicePrior:
    """A batch's prior on the device. Shapes: m_p, logs_p float32 (B, C, T_text), d_vectors float32 (B, d)."""

    m_p: Tensor
    logs_p: Tensor
    d_vectors: Tensor


class EagerEngine:
    """One call of torch for each operation.

    On a CPU each sentence runs alone, which is as fast there and makes a sentence bit for bit the same whatever
    shares its batch; on a GPU sentences are padded together.
    """

    name = "eager"

    def __init__(self, model: YourTTS, device: torch.device) -> None:
        self.device = str(device)
        self.max_batch = GPU_BATCH if device.type == "cuda" else 1
        self._model, self._device = model, device
        self._speech = model.config.speech
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]

    def prior(self, sentences: Sequence[Sentence]) -> list[Planned]:
        """First phase; the host waits for the durations, which shape the second."""
        with torch.inference_mode(), torch.cuda.stream(self._stream):
            batch = self._input(sentences)
            m_p, logs_p, durations = self._model.prior(batch)
            on_host = durations.cpu().numpy()
        held = DevicePrior(m_p, logs_p, batch.d_vectors)
        return [Planned(s, on_host[i, : len(s.token_ids)], held, i) for i, s in enumerate(sentences)]

    def decode(self, planned: Sequence[Planned]) -> list[FloatArray]:
        """Second phase of sentences that may come from several first phases."""
        width = max(len(p.durations) for p in planned)
        n_frames = max(p.n_frames for p in planned)
        with torch.inference_mode(), torch.cuda.stream(self._stream):
            held = [(p, p.prior) for p in planned]
            m_p = torch.stack([_fit(h.m_p[p.row], width) for p, h in held if isinstance(h, DevicePrior)])
            logs_p = torch.stack([_fit(h.logs_p[p.row], width) for p, h in held if isinstance(h, DevicePrior)])
            d_vectors = torch.stack([h.d_vectors[p.row] for p, h in held if isinstance(h, DevicePrior)])
            durations = pad_sequence([torch.from_numpy(p.durations) for p in planned], batch_first=True)
            noise = torch.stack([_fit(self._noise(p), n_frames) for p in planned])
            samples = self._model.decode(m_p, logs_p, durations.to(self._device), d_vectors, noise.to(self._device))
            on_host = samples.cpu().numpy()
        hop = self._model.config.audio.hop_length
        return [on_host[i, : p.n_frames * hop] for i, p in enumerate(planned)]

    def close(self) -> None:
        """Gives the device's memory back."""
        self._model.to("meta")

    def _input(self, sentences: Sequence[Sentence]) -> PriorInput:
        ids = [torch.from_numpy(s.token_ids) for s in sentences]
        padded = pad_sequence(ids, batch_first=True)
        scale = [s.options.length_scale * self._speech.length_scale for s in sentences]
        noise = [_fit(self._noise_dp(s), padded.shape[1]) for s in sentences]
        tensors = (
            padded,
            torch.tensor([len(i) for i in ids]),
            torch.from_numpy(np.stack([s.d_vector for s in sentences])),
            torch.tensor([s.language_id for s in sentences]),
            torch.tensor(scale),
            torch.stack(noise),
        )
        return PriorInput(*(t.to(self._device) for t in tensors))

    def _noise(self, planned: Planned) -> Tensor:
        """Drawn on the host, so that a seed means the same on every device. Shapes: float32 (C, n_frames)."""
        options, channels = planned.sentence.options, self._model.config.text_encoder.hidden
        scale = self._speech.noise_scale if options.noise_scale is None else options.noise_scale
        generator = torch.Generator().manual_seed(options.seed)
        return torch.randn(channels, planned.n_frames, generator=generator) * scale

    def _noise_dp(self, sentence: Sentence) -> Tensor:
        options = sentence.options
        scale = self._speech.noise_scale_dp if options.noise_scale_dp is None else options.noise_scale_dp
        generator = torch.Generator().manual_seed(options.seed ^ 0x5DEECE66D)
        return torch.randn(2, len(sentence.token_ids), generator=generator) * scale


def _fit(x: Tensor, width: int) -> Tensor:
    """The last axis padded with zeros or cut to a width."""
    return torch.nn.functional.pad(x, (0, width - x.shape[-1]))
