"""The GE2E speaker encoder with Resemblyzer's pretrained weights, differentiable and batched."""

import hashlib
import importlib.util
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from encoder.partials import PARTIAL_FRAMES, windows

SAMPLE_RATE = 16_000
N_FFT = 400
HOP_SAMPLES = 160
N_MELS = 40
HIDDEN = 256
LAYERS = 3
MAX_BATCH_PARTIALS = 256
# On a GPU: the weights, and of the largest batch its mel frames, what two layers give, and the four gates of one.
N_WEIGHTS = 1_423_616
DEVICE_BYTES = 4 * (N_WEIGHTS + MAX_BATCH_PARTIALS * PARTIAL_FRAMES * (N_MELS + (2 + 4) * HIDDEN))


def mel_filters(sample_rate: int, n_fft: int, n_mels: int) -> NDArray[np.float32]:
    """Triangular filters of unit area from 0 Hz to Nyquist. Shapes: float32 (n_mels, n_fft // 2 + 1).

    Source: M. Slaney, "Auditory Toolbox", 1998: linear below 1 kHz, then logarithmic with 27 steps per factor 6.4.
    """
    break_mel, log_step = 15.0, np.log(6.4) / 27.0
    top_mel = break_mel + np.log(sample_rate / 2 / 1000.0) / log_step
    mels = np.linspace(0.0, top_mel, n_mels + 2)
    linear_hz = mels * (1000.0 / break_mel)
    edges = np.where(mels < break_mel, linear_hz, 1000.0 * np.exp(log_step * (mels - break_mel)))
    bins = np.fft.rfftfreq(n_fft, 1.0 / sample_rate)
    rise = (bins - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    fall = (edges[2:, None] - bins) / (edges[2:] - edges[1:-1])[:, None]
    triangles = np.maximum(0.0, np.minimum(rise, fall))
    return np.asarray(triangles * (2.0 / (edges[2:] - edges[:-2]))[:, None], np.float32)


class GE2E(nn.Module):
    """A d-vector of 256 numbers from 1.6 s of a 40-band mel spectrogram.

    Source: L. Wan et al., "Generalized End-to-End Loss for Speaker Verification", 2018; the ReLU before the
    norm and the linear (not logarithmic) mel are Resemblyzer's.
    """

    window: Tensor
    filters: Tensor
    dim = HIDDEN

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(N_MELS, HIDDEN, LAYERS, batch_first=True)
        self.linear = nn.Linear(HIDDEN, HIDDEN)
        self.register_buffer("window", torch.hann_window(N_FFT), persistent=False)
        self.register_buffer("filters", torch.from_numpy(mel_filters(SAMPLE_RATE, N_FFT, N_MELS)), persistent=False)

    def mels(self, audio: Tensor) -> Tensor:
        """Mel power of 16 kHz audio. Shapes: audio float32 (B, n) -> float32 (B, n // 160 + 1, 40)."""
        spectrum = torch.stft(
            audio, N_FFT, HOP_SAMPLES, window=self.window, center=True, pad_mode="constant", return_complex=True
        )
        power = spectrum.real.square() + spectrum.imag.square()
        return (self.filters @ power).transpose(1, 2)

    def embed_mels(self, mels: Tensor) -> Tensor:
        """d-vectors of L2 norm 1. Shapes: mels float32 (P, 160, 40) -> float32 (P, 256)."""
        _, (hidden, _) = self.lstm(mels)
        return nn.functional.normalize(torch.relu(self.linear(hidden[-1])), dim=1)

    def forward(self, mels: Tensor) -> Tensor:
        """The same as `embed_mels`."""
        return self.embed_mels(mels)

    def embed_clips(self, clips: Sequence[Tensor]) -> list[Tensor]:
        """The d-vectors of each clip's partials. Shapes: float32 (n,) at 16 kHz each -> float32 (P, 256) each."""
        mels = [self._partial_mels(clip) for clip in clips]
        batches = torch.split(torch.cat(mels), MAX_BATCH_PARTIALS)
        vectors = torch.cat([self(batch) for batch in batches])
        return list(torch.split(vectors, [len(mel) for mel in mels]))

    def _partial_mels(self, clip: Tensor) -> Tensor:
        span = windows(len(clip))
        padded = nn.functional.pad(clip, (0, span.padded_samples - len(clip)))
        mel = self.mels(padded[None])[0]
        return torch.stack([mel[start : start + PARTIAL_FRAMES] for start in span.starts_frames])


def pretrained_path() -> Path:
    """Where the weights lie inside the installed `resemblyzer` package, which is found but not imported.

    Raises: FileNotFoundError where the package or its weights are missing.
    """
    spec = importlib.util.find_spec("resemblyzer")
    for folder in spec.submodule_search_locations or () if spec else ():
        path = Path(folder) / "pretrained.pt"
        if path.is_file():
            return path
    raise FileNotFoundError("the speaker encoder's weights are missing: install the package resemblyzer 0.1.4 or later")


def load_pretrained() -> tuple[GE2E, str]:
    """The network on the CPU in evaluation mode without gradients on its weights, and the SHA-256 of the weights' file.

    Raises: FileNotFoundError where the weights are missing; RuntimeError where they do not fit the network.
    """
    blob = pretrained_path().read_bytes()
    state = torch.load(io.BytesIO(blob), map_location="cpu", weights_only=True)["model_state"]
    network = GE2E()
    network.load_state_dict({name: state[name] for name in network.state_dict()})
    return network.eval().requires_grad_(False), hashlib.sha256(blob).hexdigest()
