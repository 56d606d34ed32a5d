"""The iSTFT decoder: latents to frames of a spectrogram, and those to samples."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cloning.config import DecoderConfig
from cloning.layers.convolutions import Conv1d, LayerNorm, Pointwise
from cloning.types import AudioConfig


class ConvNeXtBlock(nn.Module):
    """A depthwise convolution and a wide pointwise pair; the speaker scales and shifts its norm.

    Shapes: x (B, C, T), g (B, G), mask (B, 1, T) -> (B, C, T).
    Source: ConvNeXt (Liu et al. 2022), figure 4; Vocos (Siuzdak 2023), section 3.2.
    """

    def __init__(self, channels: int, filters: int, g_width: int, n_blocks: int) -> None:
        super().__init__()
        self.depthwise = Conv1d(channels, channels, 7, groups=channels)
        self.norm = LayerNorm(channels, affine=False)
        self.condition = nn.Linear(g_width, 2 * channels)
        nn.init.zeros_(self.condition.weight)
        nn.init.zeros_(self.condition.bias)
        self.up, self.down = Pointwise(channels, filters), Pointwise(filters, channels)
        self.scale = nn.Parameter(torch.full((channels,), 1 / n_blocks))

    def forward(self, x: Tensor, g: Tensor, mask: Tensor | None) -> Tensor:
        scale, shift = self.condition(g)[:, :, None].chunk(2, 1)
        y = self.norm(self.depthwise(x)) * (1 + scale) + shift
        x = x + self.scale[:, None] * self.down(F.gelu(self.up(y)))
        return x if mask is None else x * mask


class InverseTransform(nn.Module):
    """Samples of frames from their spectrum. Shapes: real, imaginary float32 (B, T, n_fft / 2 + 1) -> (B, T, n_fft)."""

    def __init__(self, n_fft: int) -> None:
        super().__init__()
        self.n_fft = n_fft

    def forward(self, real: Tensor, imaginary: Tensor) -> Tensor:
        frames: Tensor = torch.fft.irfft(torch.complex(real, imaginary), self.n_fft)
        return frames


class IstftDecoder(nn.Module):
    """Frames of a complex spectrogram, joined by the inverse short-time Fourier transform.

    A mask makes each row of a padded batch sound as it does alone; without one all frames count. The samples of a
    frame depend on `receptive_field_frames` latent frames on each side of it.

    Shapes: z (B, C, T), g (B, G), mask (B, 1, T) -> samples float32 (B, T * hop).
    Source: Vocos (Siuzdak 2023), section 3; frame t is centred on sample (t + 1/2) * hop.
    """

    window: Tensor
    audible: Tensor

    def __init__(self, hidden: int, g_width: int, config: DecoderConfig, audio: AudioConfig) -> None:
        super().__init__()
        c, narrow = config.hidden, config.condition_width or g_width
        self.hop = audio.hop_length
        self.to_frames = InverseTransform(audio.n_fft)
        self.condition = nn.Sequential(nn.Linear(g_width, narrow), nn.SiLU())
        self.pre = Conv1d(hidden, c, 7)
        self.norm_in, self.norm_out = LayerNorm(c), LayerNorm(c)
        blocks = [ConvNeXtBlock(c, config.filter, narrow, config.n_blocks) for _ in range(config.n_blocks)]
        self.blocks = nn.ModuleList(blocks)
        self.head = Pointwise(c, audio.n_fft + 2)
        # A window around the middle of a frame reaches into as many frames on each side.
        neighbours = (audio.win_length + audio.hop_length - 1) // (2 * audio.hop_length)
        self.receptive_field_frames = self.pre.padding + sum(b.depthwise.padding for b in blocks) + neighbours
        window = torch.hann_window(audio.win_length)
        edge = (audio.n_fft - audio.win_length) // 2
        self.register_buffer("window", F.pad(window, (edge, audio.n_fft - audio.win_length - edge)), persistent=False)
        # Speech has nothing at 0 Hz nor at half the rate, and no loss on mel bands hears these two bins: left to
        # themselves they grow to the cap.
        audible = torch.ones(audio.n_bins)
        audible[0] = audible[-1] = 0
        self.register_buffer("audible", audible, persistent=False)

    def forward(self, z: Tensor, g: Tensor, mask: Tensor | None = None) -> Tensor:
        x, g = self.norm_in(self.pre(z)), self.condition(g)
        x = x if mask is None else x * mask
        for block in self.blocks:
            x = block(x, g, mask)
        log_magnitude, phase = self.head(self.norm_out(x)).float().transpose(1, 2).chunk(2, -1)
        # exp(5) is far above any level of speech; without the cap one bad frame could overflow.
        magnitude = log_magnitude.clamp(max=5.0).exp() * self.audible
        weight = magnitude.new_ones(1, magnitude.shape[1], 1) if mask is None else mask.transpose(1, 2)
        frames = self.to_frames(magnitude * phase.cos(), magnitude * phase.sin())
        return overlap_add(frames, weight, self.window, self.hop)


def overlap_add(frames: Tensor, weight: Tensor, window: Tensor, hop: int) -> Tensor:
    """Frames windowed and summed at their places, divided by the sum of the squared windows of those that count.

    Shapes: frames float32 (B, T, n_fft), weight float32 (B or 1, T, 1), 0 or 1, window float32 (n_fft,)
        -> float32 (B, T * hop).
    """
    b, t, n_fft = frames.shape
    total, energy = _shift_sum(frames * (window * weight), hop), _shift_sum(window**2 * weight, hop)
    edge = (n_fft - hop) // 2
    return (total / energy.clamp(min=1e-4)).reshape(b, -1)[:, edge : edge + t * hop]


def _shift_sum(frames: Tensor, hop: int) -> Tensor:
    """Hop-sized slices of each frame added to those of its neighbours. Shapes: (B, T, n_fft) -> (B, T + k - 1, hop)."""
    b, t, n_fft = frames.shape
    k = n_fft // hop
    slices = frames.reshape(b, t, k, hop)
    total = F.pad(slices[:, :, 0], (0, 0, 0, k - 1))
    for i in range(1, k):
        total = total + F.pad(slices[:, :, i], (0, 0, i, k - 1 - i))
    return total
