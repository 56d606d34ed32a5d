"""A second ear: a small speaker encoder on log mels. It is taught on the corpus itself and only training hears with it.

The voice is conditioned on d-vectors of a network that hears mel power, which loud low bands rule. What this one hears
besides, a voice can be held to as well.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F

from cloning.training.data import PackedCorpus
from cloning.training.losses import Resampler, mel_filters

RATE_HZ = 16000
N_FFT, WINDOW_SAMPLES, HOP_SAMPLES, N_MELS = 1024, 400, 160, 80
# 50 dB under the mean of all bands: what a room or a codec leaves down there is no part of a voice.
FLOOR = 1e-5
STEM, WIDTH, VECTOR = 32, 256, 192
CROP_S = 4.0
CROPS_AT_ONCE = 128


class Residual(nn.Module):
    """Two convolutions over bands and time beside a shortcut; the number of bands is halved.

    Shapes: (B, c_in, F, T) -> (B, c_out, F / 2, T).
    Source: He et al., Deep residual learning for image recognition (2016), figure 2.
    """

    def __init__(self, c_in: int, c_out: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(c_in, c_out, 3, (2, 1), 1, bias=False), nn.BatchNorm2d(c_out), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(c_out, c_out, 3, 1, 1, bias=False), nn.BatchNorm2d(c_out))
        self.shortcut = nn.Conv2d(c_in, c_out, 1, (2, 1), bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.second(self.first(x)) + self.shortcut(x))


class Ear(nn.Module):
    """The speaker's vector of a piece of speech. Shapes: audio float32 (B, n) at 16 kHz -> float32 (B, 192), norm 1.

    Source: convolutions over bands before those over time, CAM++ (Wang et al. 2023), section 2.1; attentive statistics
    pooling, Okabe et al. (2018).
    """

    window: Tensor
    filters: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(WINDOW_SAMPLES), persistent=False)
        self.register_buffer("filters", mel_filters(RATE_HZ, N_FFT, N_MELS), persistent=False)
        self.stem = nn.Sequential(nn.Conv2d(1, STEM, 3, 1, 1, bias=False), nn.BatchNorm2d(STEM), nn.ReLU())
        self.bands = nn.Sequential(Residual(STEM, STEM), Residual(STEM, STEM), Residual(STEM, 2 * STEM))
        self.narrow = _over_time(2 * STEM * N_MELS // 8, WIDTH, 1, 1)
        self.times = nn.ModuleList(_over_time(WIDTH, WIDTH, 3, dilation) for dilation in (1, 2, 3))
        self.attention = nn.Sequential(nn.Conv1d(WIDTH, WIDTH // 4, 1), nn.Tanh(), nn.Conv1d(WIDTH // 4, WIDTH, 1))
        self.pooled = nn.BatchNorm1d(2 * WIDTH)
        self.vector = nn.Linear(2 * WIDTH, VECTOR)

    def mels(self, audio: Tensor) -> Tensor:
        """Log mels less their mean over time, which takes the recording's own colour away.

        Shapes: audio float32 (B, n) -> float32 (B, 80, n // 160 + 1).
        """
        with torch.autocast(audio.device.type, enabled=False):
            spectrum = torch.stft(
                audio.float(), N_FFT, HOP_SAMPLES, WINDOW_SAMPLES, self.window, pad_mode="constant", return_complex=True
            )
            power = (spectrum.real.square() + spectrum.imag.square()).transpose(1, 2) @ self.filters
            logs = (power + FLOOR * power.mean((1, 2), keepdim=True) + 1e-10).log().transpose(1, 2)
            return logs - logs.mean(2, keepdim=True)

    def features(self, mels: Tensor) -> list[Tensor]:
        """What each stage makes of the mels, the last over time alone. Shapes: float32 (B, 80, T) -> (B, ..., T)."""
        made = [self.stem(mels[:, None])]
        for block in self.bands:
            made.append(block(made[-1]))
        made.append(self.narrow(made[-1].flatten(1, 2)))
        for block in self.times:
            made.append(made[-1] + block(made[-1]))
        return made

    def embed_mels(self, mels: Tensor) -> Tensor:
        """Shapes: float32 (B, 80, T) -> float32 (B, 192), norm 1."""
        x = self.features(mels)[-1]
        weights = self.attention(x).float().softmax(2)
        x = x.float()
        mean = (x * weights).sum(2)
        spread = ((x.square() * weights).sum(2) - mean.square()).clamp(min=1e-5).sqrt()
        return F.normalize(self.vector(self.pooled(torch.cat([mean, spread], 1))).float(), dim=1)

    def forward(self, audio: Tensor) -> Tensor:
        return self.embed_mels(self.mels(audio))


def _over_time(c_in: int, c_out: int, kernel: int, dilation: int) -> nn.Sequential:
    padding = dilation * (kernel - 1) // 2
    convolution = nn.Conv1d(c_in, c_out, kernel, padding=padding, dilation=dilation, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm1d(c_out), nn.ReLU())


def save_ear(path: Path, ear: Ear) -> None:
    """Everything that was learned, in full precision."""
    save_file({name: value.detach().cpu().contiguous() for name, value in ear.state_dict().items()}, path)


def load_ear(path: Path, device: torch.device) -> Ear:
    """An ear that no longer learns; gradients pass through it."""
    ear = Ear()
    ear.load_state_dict(load_file(path))
    return ear.to(device).eval().requires_grad_(False)


def crops(corpus: PackedCorpus, rows: Tensor, n_samples: int, starts: Tensor) -> Tensor:
    """Pieces of utterances, which are repeated where they are too short.

    Shapes: rows int64 (B,), starts float32 (B,) in [0, 1) of what there is room for -> float32 (B, n_samples).
    """
    first, length = corpus.table[rows, 0], corpus.table[rows, 1] * corpus.hop_length
    start = (starts * (length - n_samples).clamp(min=0)).long()
    at = (start[:, None] + torch.arange(n_samples, device=rows.device)) % length[:, None]
    return corpus.audio[first[:, None] + at].float() / 32768


@torch.no_grad()
def speaker_means(ear: Ear, corpus: PackedCorpus, sample_rate_hz: int) -> Tensor:
    """Each speaker's mean vector over all utterances. Shapes: -> float32 (n_speakers, 192), norm 1."""
    device = corpus.audio.device
    resampler = Resampler(sample_rate_hz, RATE_HZ).to(device)
    sums = torch.zeros(len(corpus.speakers), VECTOR, device=device)
    for rows in torch.split(torch.arange(len(corpus), device=device), CROPS_AT_ONCE):
        audio = crops(corpus, rows, int(CROP_S * sample_rate_hz), torch.full((len(rows),), 0.5, device=device))
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            sums.index_add_(0, corpus.table[rows, 4], ear(resampler(audio)))
    return F.normalize(sums, dim=1)


def equal_error_rate(same: Sequence[float], different: Sequence[float]) -> float:
    """The share of errors at the threshold where as many pairs are wrongly joined as are wrongly kept apart."""
    own, others = torch.tensor(same), torch.tensor(different)
    thresholds = torch.cat([own, others]).sort().values
    missed = (own[None] < thresholds[:, None]).float().mean(1)
    joined = (others[None] >= thresholds[:, None]).float().mean(1)
    at = int((missed - joined).abs().argmin())
    return float((missed[at] + joined[at]) / 2)
