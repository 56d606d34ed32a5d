"""The H/ASP speaker encoder of Coqui's YourTTS: a residual network with attentive statistics pooling."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

WINDOW_FRAMES = 250
N_WINDOWS = 10
ATTENTION_WIDTH = 128
_BUFFERS = "torch_spec."
_SPREAD_FLOOR = 1e-5
# Above any encoder's; what is beyond would only fill the memory.
_MOST = 65_536


@dataclass(frozen=True, slots=True)
class HaspConfig:
    """Widths, depths and the mel front end; `dim` is the width of the d-vector."""

    dim: int
    n_mels: int
    filters: tuple[int, ...]
    layers: tuple[int, ...]
    sample_rate: int
    n_fft: int
    win_length: int
    hop_samples: int
    preemphasis: float
    logarithmic: bool


class SqueezeExcitation(nn.Module):
    """Channels weighed by what the whole picture holds. Shapes: (B, C, H, W) -> (B, C, H, W).

    Source: Hu et al. 2018, "Squeeze-and-Excitation Networks", equations 2 to 4.
    """

    def __init__(self, channels: int, reduction: int = 8) -> None:
        super().__init__()
        narrow = channels // reduction
        self.fc = nn.Sequential(nn.Linear(channels, narrow), nn.ReLU(), nn.Linear(narrow, channels), nn.Sigmoid())

    def forward(self, x: Tensor) -> Tensor:
        weights: Tensor = self.fc(x.mean((2, 3)))
        return x * weights[:, :, None, None]


class Block(nn.Module):
    """Two convolutions added to their input. Shapes: (B, C_in, H, W) -> (B, C, H / stride, W / stride).

    Source: He et al. 2016, figure 2, with the norm after the rectifier as in Heo et al. 2020.
    """

    def __init__(self, c_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, channels, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.se = SqueezeExcitation(channels)
        changes = stride != 1 or c_in != channels
        self.downsample = (
            nn.Sequential(nn.Conv2d(c_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))
            if changes
            else None
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn1(F.relu(self.conv1(x)))
        y = self.se(self.bn2(self.conv2(y)))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class Hasp(nn.Module):
    """d-vectors of 16 kHz audio; parameters have the names of the published checkpoints.

    Source: Heo et al. 2020, "Clova Baseline System for the VoxCeleb Speaker Recognition Challenge 2020", section 2;
    attentive statistics pooling: Okabe et al. 2018, equations 3 to 6.
    """

    window: Tensor
    mel: Tensor

    def __init__(self, config: HaspConfig) -> None:
        super().__init__()
        self.config, self.dim = config, config.dim
        filters = config.filters
        self.conv1, self.bn1 = nn.Conv2d(1, filters[0], 3, padding=1), nn.BatchNorm2d(filters[0])
        for i, (width, depth) in enumerate(zip(filters, config.layers, strict=True)):
            first = Block(filters[max(0, i - 1)], width, 1 if i == 0 else 2)
            self.add_module(f"layer{i + 1}", nn.Sequential(first, *(Block(width, width, 1) for _ in range(depth - 1))))
        flat = filters[-1] * (config.n_mels // 8)
        self.attention = nn.Sequential(
            nn.Conv1d(flat, ATTENTION_WIDTH, 1), nn.ReLU(), nn.BatchNorm1d(ATTENTION_WIDTH),
            nn.Conv1d(ATTENTION_WIDTH, flat, 1), nn.Softmax(2),
        )  # fmt: skip
        self.fc = nn.Linear(2 * flat, config.dim)
        self.register_buffer("window", torch.hamming_window(config.win_length), persistent=False)
        self.register_buffer("mel", torch.from_numpy(htk_filters(config)), persistent=False)

    def mels(self, audio: Tensor) -> Tensor:
        """Mel power of pre-emphasised audio. Shapes: float32 (B, n) -> float32 (B, n_mels, n // hop + 1)."""
        before = F.pad(audio[:, None], (1, 0), mode="reflect")[:, 0, :-1]
        spectrum = torch.stft(
            audio - self.config.preemphasis * before, self.config.n_fft, self.config.hop_samples,
            self.config.win_length, self.window, return_complex=True,
        )  # fmt: skip
        return self.mel @ (spectrum.real.square() + spectrum.imag.square())

    def forward(self, audio: Tensor) -> Tensor:
        """d-vectors of L2 norm 1. Shapes: float32 (B, n) -> float32 (B, dim)."""
        x = self.mels(audio)
        x = F.instance_norm((x + 1e-6).log() if self.config.logarithmic else x)[:, None]
        x = self.bn1(F.relu(self.conv1(x)))
        for i in range(len(self.config.layers)):
            x = self.get_submodule(f"layer{i + 1}")(x)
        x = x.flatten(1, 2)
        weights: Tensor = self.attention(x)
        mean = (x * weights).sum(2)
        spread = ((x.square() * weights).sum(2) - mean.square()).clamp(min=_SPREAD_FLOOR).sqrt()
        return F.normalize(self.fc(torch.cat([mean, spread], 1)), dim=1)

    def embed_clips(self, clips: Sequence[Tensor]) -> list[Tensor]:
        """The d-vectors of each clip's windows. Shapes: float32 (n,) each -> float32 (10, dim) each."""
        return [self(self._windows(clip)) for clip in clips]

    def _windows(self, clip: Tensor) -> Tensor:
        """Windows at even distances, as the published voices were conditioned on; a short clip is one of them all."""
        least = self.config.n_fft  # below this the edges cannot be mirrored
        clip = F.pad(clip, (0, max(0, least - len(clip))))
        width = min(WINDOW_FRAMES * self.config.hop_samples, len(clip))
        starts = np.linspace(0, len(clip) - width, N_WINDOWS).astype(int)
        return torch.stack([clip[start : start + width] for start in starts.tolist()])


def htk_filters(config: HaspConfig) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Triangular filters of height 1, even on HTK's mel scale. Shapes: float32 (n_mels, n_fft // 2 + 1).

    Source: The HTK Book 3.4, section 5.4: mel = 2595 log10(1 + f / 700).
    """
    top = 2595.0 * np.log10(1.0 + config.sample_rate / 2 / 700.0)
    edges = 700.0 * (10.0 ** (np.linspace(0.0, top, config.n_mels + 2) / 2595.0) - 1.0)
    bins = np.linspace(0, config.sample_rate // 2, config.n_fft // 2 + 1)
    rise = (bins - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    fall = (edges[2:, None] - bins) / (edges[2:] - edges[1:-1])[:, None]
    return np.maximum(0.0, np.minimum(rise, fall)).astype(np.float32)


def read_coqui(description: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Hasp:
    """The network of a config_se.json and of the tensors of its model_se.pth.

    Raises: ValueError, naming the field or the tensors that do not fit, with both numbers.
    """
    parameters, audio = _section(description, "model_params"), _section(description, "audio")
    kind = str(parameters.get("model_name", "")).lower()
    if kind != "resnet" or not parameters.get("use_torch_spec"):
        spec = bool(parameters.get("use_torch_spec"))
        raise ValueError(
            f"config_se.json: model_name {kind!r} with use_torch_spec {spec}; only 'resnet' with true is read"
        )
    found = {name: tensor for name, tensor in tensors.items() if not name.startswith(_BUFFERS)}
    network = Hasp(_config(parameters, audio, found))
    _fill(network, found)
    return network.eval().requires_grad_(False)


def build(description: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Hasp:
    """The network of a saved description and its tensors. Raises: ValueError where they do not fit."""
    try:
        fields = {**description, "filters": tuple(description["filters"]), "layers": tuple(description["layers"])}
        network = Hasp(HaspConfig(**fields))
    except (TypeError, KeyError) as error:
        raise ValueError(f"the speaker encoder's description cannot be read: {error}") from None
    _fill(network, tensors)
    return network.eval().requires_grad_(False)


def describe(network: Hasp) -> dict[str, Any]:
    """Plain values, as `build` reads them."""
    return dataclasses.asdict(network.config)


def _config(parameters: Mapping[str, Any], audio: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> HaspConfig:
    """Widths and depths are constants of their code; the tensors say them."""
    stages = [[name for name in tensors if name.startswith(f"layer{i}.")] for i in range(1, 5)]
    return HaspConfig(
        dim=_number(parameters, "proj_dim"),
        n_mels=_number(audio, "num_mels"),
        filters=tuple(_width(tensors, f"layer{i}.0.conv1.weight") for i in range(1, 5)),
        layers=tuple(max(1, len({name.split(".")[1] for name in stage})) for stage in stages),
        sample_rate=_number(audio, "sample_rate"),
        n_fft=_number(audio, "fft_size"),
        win_length=_number(audio, "win_length"),
        hop_samples=_number(audio, "hop_length"),
        preemphasis=_share(audio, "preemphasis"),
        logarithmic=bool(parameters.get("log_input")),
    )


def _width(tensors: Mapping[str, Tensor], name: str) -> int:
    if name not in tensors:
        raise ValueError(f"the speaker encoder's tensors do not fit: missing {name}")
    return int(tensors[name].shape[0])


def _fill(network: Hasp, tensors: Mapping[str, Tensor]) -> None:
    wanted = network.state_dict()
    missing, unknown = sorted(wanted.keys() - tensors.keys()), sorted(tensors.keys() - wanted.keys())
    if missing or unknown:
        raise ValueError(f"the speaker encoder's tensors do not fit: missing {missing[:5]}, unknown {unknown[:5]}")
    for name, tensor in tensors.items():
        if tensor.shape != wanted[name].shape:
            found, asked = tuple(tensor.shape), tuple(wanted[name].shape)
            raise ValueError(f"the speaker encoder's {name} has shape {found}, its description asks for {asked}")
    network.load_state_dict(dict(tensors))


def _share(fields: Mapping[str, Any], name: str) -> float:
    found = fields.get(name) or 0.0
    if type(found) not in (int, float) or not 0 <= found <= 1:
        raise ValueError(f"config_se.json: {name}: {found!r} is not a number from 0 to 1")
    return float(found)


def _section(description: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = description.get(name)
    if not isinstance(found, Mapping):
        raise ValueError(f"config_se.json: the section {name} is missing")
    return found


def _number(fields: Mapping[str, Any], name: str) -> int:
    found = fields.get(name)
    if type(found) is not int or not 1 <= found <= _MOST:
        raise ValueError(f"config_se.json: {name}: {found!r} is not a whole number from 1 to {_MOST}")
    return found
