"""The posterior encoder: recorded speech to latents; training and voice conversion use it, speaking does not."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cloning.config import WaveNetConfig
from cloning.layers.convolutions import Pointwise, channels_last
from cloning.layers.wavenet import WaveNet
from cloning.types import AudioConfig


class PosteriorEncoder(nn.Module):
    """Statistics of the latents of a spectrogram.

    Shapes: spec (B, n_bins, T), mask (B, 1, T), g (B, G) -> m_q, logs_q float32 (B, C, T).
    Source: VITS (Kim et al. 2021), section 2.5.1.
    """

    def __init__(self, n_bins: int, hidden: int, g_width: int, config: WaveNetConfig) -> None:
        super().__init__()
        self.pre = Pointwise(n_bins, hidden)
        self.wavenet = WaveNet(hidden, g_width, config)
        self.statistics = Pointwise(hidden, 2 * hidden)

    def forward(self, spec: Tensor, mask: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
        x = self.wavenet(self.pre(spec), mask, g)
        m_q, logs_q = (self.statistics(x).float() * mask).chunk(2, 1)
        return m_q, logs_q


def sample(m: Tensor, logs: Tensor, mask: Tensor, noise: Tensor | None = None) -> Tensor:
    """A draw from normal distributions. Shapes: all (B, C, T), mask (B, 1, T)."""
    noise = torch.randn_like(m) if noise is None else noise
    return (m + noise * logs.exp()) * mask


class LogSpectrogram(nn.Module):
    """Log magnitudes whose frame t is centred on sample (t + 1/2) * hop.

    Shapes: samples float32 (B, T * hop) -> float32 (B, n_bins, T).
    """

    window: Tensor

    def __init__(self, audio: AudioConfig) -> None:
        super().__init__()
        self.audio = audio
        self.register_buffer("window", torch.hann_window(audio.win_length), persistent=False)

    def forward(self, samples: Tensor) -> Tensor:
        edge = (self.audio.n_fft - self.audio.hop_length) // 2
        padded = F.pad(samples[:, None], (edge, edge), mode="reflect").squeeze(1)
        spectrum = torch.stft(
            padded, self.audio.n_fft, self.audio.hop_length, self.audio.win_length, self.window,
            center=False, return_complex=True,
        )  # fmt: skip
        power = spectrum.real.square() + spectrum.imag.square()
        # The floor lies 60 dB under quiet speech: digital silence must not become minus infinity.
        return channels_last(0.5 * (power + 1e-6).log())
