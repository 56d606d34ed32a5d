"""The adversaries of the decoder: several views of a waveform, each judged by a small convolutional network.

Each judges whether a piece is a recording, and of the person whom a d-vector names: what a text leaves open must be
made up, and an adversary that does not know the person takes it from anybody.

Sources: periods, HiFi-GAN (Kong et al. 2020), section 2.3; spectrograms at several resolutions, UnivNet (Jang et al.
2021), section 3.2; conditions by projection, Miyato and Koyama (2018), equation 3.
"""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

Judgement = tuple[Tensor, list[Tensor]]


@dataclass(frozen=True, slots=True)
class DiscriminatorConfig:
    """Widths of the first layers and of the listener, the periods in samples, and (n_fft, hop) of the spectrograms."""

    period_width: int = 32
    spectrum_width: int = 32
    periods: tuple[int, ...] = (2, 3, 5, 7, 11)
    resolutions: tuple[tuple[int, int], ...] = ((512, 128), (1024, 256), (2048, 512))
    listener_width: int = 256


class Judge(nn.Module):
    """Convolutions whose every output is kept for feature matching, and what they find like a person.

    Shapes: (B, 1, H, W), vectors float32 (B, d) -> (score, features).
    """

    def __init__(self, layers: list[nn.Conv2d], last: nn.Conv2d, d_vector: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(weight_norm(layer) for layer in layers)
        self.last = weight_norm(last)
        self.person = nn.Linear(d_vector, last.in_channels, bias=False)
        # At first all people are alike, as they were to judges of earlier slices.
        nn.init.zeros_(self.person.weight)
        # Brings the entries of a vector of norm 1 to about unit size.
        self.scale = d_vector**0.5

    def forward(self, x: Tensor, vectors: Tensor) -> Judgement:
        x, features = x.contiguous(memory_format=torch.channels_last), []
        for layer in self.layers:
            x = F.leaky_relu(layer(x), 0.1)
            features.append(x)
        return self.score(x, vectors), features

    def score(self, heard: Tensor, vectors: Tensor) -> Tensor:
        """Of the last features, for one person each. Shapes: (B, C, H, W), (B, d) -> (B, 1, H, W)."""
        likeness = (heard * self.person(self.scale * vectors)[:, :, None, None]).sum(1, keepdim=True)
        score: Tensor = self.last(heard) + likeness / heard.shape[1] ** 0.5
        return score


class PeriodDiscriminator(nn.Module):
    """Samples that lie one period apart, as columns. Shapes: audio (B, n), vectors (B, d) -> (score, features)."""

    def __init__(self, period: int, width: int, d_vector: int) -> None:
        super().__init__()
        self.period = period
        widths = (1, width, 2 * width, 4 * width, 8 * width)
        layers = [nn.Conv2d(a, b, (5, 1), (3, 1), (2, 0)) for a, b in pairwise(widths)]
        layers.append(nn.Conv2d(widths[-1], widths[-1], (5, 1), 1, (2, 0)))
        self.judge = Judge(layers, nn.Conv2d(widths[-1], 1, (3, 1), 1, (1, 0)), d_vector)

    def forward(self, audio: Tensor, vectors: Tensor) -> Judgement:
        padded = F.pad(audio[:, None], (0, -audio.shape[1] % self.period), mode="reflect")
        judged: Judgement = self.judge(padded.view(len(audio), 1, -1, self.period), vectors)
        return judged


class SpectrumDiscriminator(nn.Module):
    """Log power at one resolution. Shapes: audio (B, n), vectors (B, d) -> (score, features)."""

    window: Tensor

    def __init__(self, n_fft: int, hop: int, width: int, d_vector: int) -> None:
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft), persistent=False)
        layers = [
            nn.Conv2d(1, width, (9, 3), (2, 1), (4, 1)),
            nn.Conv2d(width, width, (9, 3), (2, 1), (4, 1)),
            nn.Conv2d(width, width, (9, 3), (2, 2), (4, 1)),
            nn.Conv2d(width, width, (9, 3), (2, 2), (4, 1)),
            nn.Conv2d(width, width, 3, 1, 1),
        ]
        self.judge = Judge(layers, nn.Conv2d(width, 1, 3, 1, 1), d_vector)

    def forward(self, audio: Tensor, vectors: Tensor) -> Judgement:
        with torch.autocast(audio.device.type, enabled=False):
            spectrum = torch.stft(audio.float(), self.n_fft, self.hop, window=self.window, return_complex=True)
            power = spectrum.real.square() + spectrum.imag.square()
            # A quarter brings log power to about unit range.
            image = 0.25 * (power + 1e-5).log()[:, None]
        judged: Judgement = self.judge(image, vectors)
        return judged


class SoundListener(nn.Module):
    """Which symbol each frame is, as heard from it and eight frames on either side.

    It learns on recordings alone, so that speech which it mishears is speech that lost its sounds.

    Shapes: log magnitudes float32 (B, n_bins, T) -> (B, n_symbols, T).
    Source: the auxiliary classifier of AC-GAN (Odena et al. 2017), section 3, here taught on what is real only.
    """

    def __init__(self, n_bins: int, n_symbols: int, width: int) -> None:
        super().__init__()
        widths = (n_bins, width, width, width, width)
        self.layers = nn.ModuleList(nn.Conv1d(a, b, 5, padding=2) for a, b in pairwise(widths))
        self.last = nn.Conv1d(width, n_symbols, 1)

    def forward(self, spectrogram: Tensor) -> Tensor:
        x = 0.25 * spectrogram
        for layer in self.layers:
            x = F.leaky_relu(layer(x), 0.1)
        logits: Tensor = self.last(x)
        return logits


class Discriminators(nn.Module):
    """All of them, and beside them the listener.

    Shapes: audio float32 (B, n), vectors float32 (B, d) -> one (score, features) for each.
    """

    def __init__(self, config: DiscriminatorConfig, n_bins: int, n_symbols: int, d_vector: int) -> None:
        super().__init__()
        self.periods = nn.ModuleList(PeriodDiscriminator(p, config.period_width, d_vector) for p in config.periods)
        self.spectra = nn.ModuleList(
            SpectrumDiscriminator(n, hop, config.spectrum_width, d_vector) for n, hop in config.resolutions
        )
        self.sounds = SoundListener(n_bins, n_symbols, config.listener_width)

    def forward(self, audio: Tensor, vectors: Tensor) -> list[Judgement]:
        return [judge(audio, vectors) for judge in (*self.periods, *self.spectra)]

    def taken_for(self, judgements: list[Judgement], vectors: Tensor) -> list[Tensor]:
        """The scores of the first pieces that were judged, had they been said to be these people's.

        Shapes: vectors float32 (k, d) -> (k, 1, H, W) for each judge.
        """
        judges = [judge.judge for judge in (*self.periods, *self.spectra)]
        last = (features[-1][: len(vectors)] for _, features in judgements)
        return [judge.score(heard, vectors) for judge, heard in zip(judges, last, strict=True)]
