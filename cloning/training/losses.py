"""What training minimises."""

import math
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cloning.training.discriminators import Judgement

# n_fft, hop and mel bands of each spectrogram. Coarse: what a text decides, sounds and loudness, and not the pitch.
MEL_RESOLUTIONS = ((512, 128, 40), (1024, 256, 80), (2048, 512, 128))
COARSE_RESOLUTIONS = ((512, 128, 24),)


class SpeakerNetwork(Protocol):
    """A d-vector network that gradients pass through. Shapes: audio float32 (B, n) at 16 kHz."""

    def mels(self, audio: Tensor) -> Tensor:
        """Shapes: -> (B, frames, n_mels)."""

    def embed_mels(self, mels: Tensor) -> Tensor:
        """Shapes: (P, 160, n_mels) -> float32 (P, d), L2 norm 1."""


def mel_filters(sample_rate: int, n_fft: int, n_mels: int) -> Tensor:
    """Triangles of equal area on the mel scale, up to half the rate. Shapes: float32 (n_fft // 2 + 1, n_mels).

    Source: O'Shaughnessy 1987, mel = 2595 log10(1 + f / 700).
    """
    top = 2595 * math.log10(1 + sample_rate / 2 / 700)
    edges_hz = 700 * (10 ** (torch.linspace(0, top, n_mels + 2, dtype=torch.float64) / 2595) - 1)
    bins_hz = torch.linspace(0, sample_rate / 2, n_fft // 2 + 1, dtype=torch.float64)[:, None]
    low, centre, high = edges_hz[:-2], edges_hz[1:-1], edges_hz[2:]
    triangles = torch.minimum((bins_hz - low) / (centre - low), (high - bins_hz) / (high - centre)).clamp(min=0)
    return (triangles * 2 / (high - low)).float()


class LogMels(nn.Module):
    """Log mel spectrograms at several resolutions. Shapes: float32 (B, n) -> for each float32 (B, T, n_mels)."""

    def __init__(self, sample_rate: int, resolutions: tuple[tuple[int, int, int], ...]) -> None:
        super().__init__()
        self.resolutions = resolutions
        for n_fft, _, n_mels in resolutions:
            self.register_buffer(f"filters_{n_fft}", mel_filters(sample_rate, n_fft, n_mels), persistent=False)
            self.register_buffer(f"window_{n_fft}", torch.hann_window(n_fft), persistent=False)

    def forward(self, audio: Tensor) -> list[Tensor]:
        return [self._at(audio.float(), n_fft, hop) for n_fft, hop, _ in self.resolutions]

    def _at(self, audio: Tensor, n_fft: int, hop: int) -> Tensor:
        window, filters = getattr(self, f"window_{n_fft}"), getattr(self, f"filters_{n_fft}")
        spectrum = torch.stft(audio, n_fft, hop, window=window, return_complex=True)
        magnitude = (spectrum.real.square() + spectrum.imag.square() + 1e-9).sqrt().transpose(1, 2)
        mels: Tensor = (magnitude @ filters).clamp(min=1e-5).log()
        return mels


def mel_loss(spoken: Sequence[Tensor], recorded: Sequence[Tensor]) -> Tensor:
    """Mean distance of log mels over all resolutions. Shapes: float32 (B, T, n_mels) each -> ()."""
    return torch.stack([(ours - theirs).abs().mean() for ours, theirs in zip(spoken, recorded, strict=True)]).mean()


def movement_loss(spoken: Sequence[Tensor], recorded: Sequence[Tensor]) -> Tensor:
    """How much less, or more, log mels change from frame to frame and from band to band than those of recordings do.

    What is nearest to all that a text may sound like is smoother than any of it, and a smooth voice is nobody's.

    Shapes: float32 (B, T, n_mels) each -> ().
    Source: the global variance of parametric synthesis (Toda and Tokuda 2007), section 3, here of differences and as
        a loss.
    """
    pairs = [pair for both in zip(spoken, recorded, strict=True) for pair in zip(*map(_movements, both), strict=True)]
    return torch.stack([(ours.log() - theirs.log()).abs().mean() for ours, theirs in pairs]).mean()


def _movements(mels: Tensor) -> tuple[Tensor, Tensor]:
    """Mean change over time and over bands, of each band. Shapes: float32 (B, T, n) -> (B, n), (B, n - 1)."""
    # The least that counts: in digital silence nothing moves.
    return mels.diff(dim=1).abs().mean(1) + 0.05, mels.diff(dim=2).abs().mean(1) + 0.05


def kl_loss(z_p: Tensor, logs_q: Tensor, m_p: Tensor, logs_p: Tensor, mask: Tensor) -> Tensor:
    """Divergence of the posterior from the prior of the aligned symbols, by frame.

    Shapes: all float32 (B, C, T), mask (B, 1, T) -> (). Source: VITS (Kim et al. 2021), equation 4.
    """
    kl = logs_p - logs_q - 0.5 + 0.5 * (z_p - m_p).square() * (-2 * logs_p).exp()
    return (kl * mask).sum() / mask.sum()


def discriminator_loss(judgements: list[Judgement], strangers: Sequence[Tensor], n_real: int) -> tuple[Tensor, Tensor]:
    """Least squares of the first `n_real` rows, recordings (1), and the others, spoken (0); and of `strangers` (0).

    Those are the scores of recordings that were said to be somebody else's.
    Source: the third kind of pair of GAN-CLS (Reed et al. 2016), section 4.2.
    """
    losses = [((s[:n_real].float() - 1) ** 2).mean() + (s[n_real:].float() ** 2).mean() for s, _ in judgements]
    taken = [(s.float() ** 2).mean() for s in strangers]
    return torch.stack(losses).sum(), torch.stack(taken).sum()


def generator_losses(judgements: list[Judgement], n_real: int, n_heard: int) -> tuple[Tensor, Tensor]:
    """The decoder's side of the game, and twice the distance of features of speech and recording.

    Features are compared in the first `n_heard` pieces only: the others do not follow their recordings so closely.
    """
    adversarial = torch.stack([((s[n_real:].float() - 1) ** 2).mean() for s, _ in judgements]).sum()
    features = [f.float() for _, of_judge in judgements for f in of_judge]
    heard = [(f[:n_heard].detach(), f[n_real : n_real + n_heard]) for f in features]
    matching = torch.stack([(ours - theirs).abs().mean() for theirs, ours in heard])
    return adversarial, 2 * matching.sum()


def features_apart(spoken: Sequence[Tensor], recorded: Sequence[Tensor]) -> Tensor:
    """How far features lie from those of the recordings, as a share of these, mean over the stages."""
    shares = [
        (ours.float() - theirs.float()).abs().mean() / theirs.float().abs().mean().clamp(min=1e-6)
        for ours, theirs in zip(spoken, recorded, strict=True)
    ]
    return torch.stack(shares).mean()


class Resampler(nn.Module):
    """A windowed-sinc change of rate with gradients. Shapes: float32 (B, n) -> (B, about n * new / old)."""

    kernel: Tensor

    def __init__(self, old_hz: int, new_hz: int, n_zeros: int = 16) -> None:
        super().__init__()
        divisor = math.gcd(old_hz, new_hz)
        self.old, self.new = old_hz // divisor, new_hz // divisor
        # The pass band ends 3 % under the lower Nyquist frequency, so that the slope folds nothing back.
        cutoff = 0.97 * min(self.old, self.new)
        self.reach = math.ceil(n_zeros * self.old / cutoff)
        taps = torch.arange(-self.reach, self.reach + self.old, dtype=torch.float64)[None] / self.old
        phases = torch.arange(self.new, dtype=torch.float64)[:, None] / self.new
        t = ((taps - phases) * cutoff).clamp(-n_zeros, n_zeros)
        kernel = torch.sinc(t) * torch.cos(t * math.pi / n_zeros / 2) ** 2 * cutoff / self.old
        self.register_buffer("kernel", kernel[:, None].float(), persistent=False)

    def forward(self, audio: Tensor) -> Tensor:
        if self.old == self.new:
            return audio
        padded = F.pad(audio[:, None], (self.reach, self.reach + self.old))
        y = F.conv1d(padded, self.kernel, stride=self.old)
        return y.transpose(1, 2).flatten(1)[:, : audio.shape[1] * self.new // self.old]
