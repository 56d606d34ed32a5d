"""Duration predictors: how many frames each symbol lasts."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cloning.config import DurationConfig
from cloning.layers.convolutions import Conv1d, LayerNorm, Pointwise


class PlainDurations(nn.Module):
    """Log frames by regression.

    Shapes: hidden (B, H, T_text), mask (B, 1, T_text), g (B, G) -> log frames float32 (B, T_text).
    Source: FastSpeech (Ren et al. 2019), section 3.3, with a speaker condition.
    """

    def __init__(self, hidden: int, g_width: int, config: DurationConfig) -> None:
        super().__init__()
        self.condition = nn.Linear(g_width, hidden)
        self.conv1 = Conv1d(hidden, config.filter, config.kernel)
        self.conv2 = Conv1d(config.filter, config.filter, config.kernel)
        self.norm1, self.norm2 = LayerNorm(config.filter), LayerNorm(config.filter)
        self.out = Pointwise(config.filter, 1)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, hidden: Tensor, mask: Tensor, g: Tensor) -> Tensor:
        keep = mask.to(hidden.dtype)
        x = hidden + self.condition(g)[:, :, None].to(hidden.dtype)
        x = self.dropout(self.norm1(F.relu(self.conv1(x * keep))))
        x = self.dropout(self.norm2(F.relu(self.conv2(x * keep))))
        return (self.out(x * keep).float() * mask).squeeze(1)

    def loss(self, hidden: Tensor, mask: Tensor, g: Tensor, durations: Tensor) -> Tensor:
        """Squared error of log frames, for each symbol. Shapes: durations int64 (B, T_text) -> float32 (B, T_text)."""
        wanted = durations.clamp(min=1).float().log()
        return (self(hidden, mask, g) - wanted).square() * mask.squeeze(1)

    def frames(self, hidden: Tensor, mask: Tensor, g: Tensor, length_scale: Tensor, noise: Tensor) -> Tensor:
        """Whole frames of each symbol; the noise is not read. Shapes: -> int64 (B, T_text)."""
        return whole_frames(self(hidden, mask, g), mask, length_scale)


def whole_frames(log_frames: Tensor, mask: Tensor, length_scale: Tensor) -> Tensor:
    """Log durations as whole frames, at least one for each symbol.

    Shapes: log_frames float32 (B, T_text), mask (B, 1, T_text), length_scale (B,) -> int64 (B, T_text) frames.
    """
    keep = mask.squeeze(1)
    frames = log_frames.exp() * length_scale[:, None]
    return (torch.clamp(frames.round(), min=1) * keep).long()


def build_durations(hidden: int, g_width: int, config: DurationConfig) -> PlainDurations:
    """The predictor that the configuration names."""
    return PlainDurations(hidden, g_width, config)
