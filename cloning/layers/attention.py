"""Self-attention that knows relative positions within a window."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cloning.layers.convolutions import Conv1d, LayerNorm, Pointwise


def relative_to_absolute(x: Tensor) -> Tensor:
    """Scores by distance turned into scores by position. Shapes: (B, H, T, 2T - 1) -> (B, H, T, T)."""
    b, h, t, _ = x.shape
    flat = F.pad(F.pad(x, (0, 1)).reshape(b, h, 2 * t * t), (0, t - 1))
    return flat.view(b, h, t + 1, 2 * t - 1)[:, :, :t, t - 1 :]


def absolute_to_relative(x: Tensor) -> Tensor:
    """Weights by position turned into weights by distance. Shapes: (B, H, T, T) -> (B, H, T, 2T - 1)."""
    b, h, t, _ = x.shape
    flat = F.pad(F.pad(x, (0, t - 1)).reshape(b, h, t * (2 * t - 1)), (t, 0))
    return flat.view(b, h, t, 2 * t)[:, :, :, 1:]


class Shifts(nn.Module):
    """Entries by distance, from -window to window, brought to entries by position and back, by padding and shifting."""

    def __init__(self, window: int) -> None:
        super().__init__()
        self.window = window

    def to_positions(self, by_distance: Tensor) -> Tensor:
        """Shapes: (B, H, T, 2 * window + 1) -> (B, H, T, T), 0 outside the window."""
        extra = by_distance.shape[2] - 1 - self.window
        spread = F.pad(by_distance, (extra, extra)) if extra >= 0 else by_distance[..., -extra : extra or None]
        return relative_to_absolute(spread)

    def to_distances(self, by_position: Tensor) -> Tensor:
        """Shapes: (B, H, T, T) -> (B, H, T, 2 * window + 1)."""
        extra = by_position.shape[2] - 1 - self.window
        near = absolute_to_relative(by_position)
        return near[..., extra : near.shape[-1] - extra] if extra >= 0 else F.pad(near, (-extra, -extra))


class RelativeAttention(nn.Module):
    """Multi-head attention with learned keys and values for distances up to `window`.

    Shapes: x (B, C, T), mask (B, 1, T) -> (B, C, T).
    Source: Shaw et al. 2018, equations 3 and 4, as used by VITS (Kim et al. 2021), appendix B.1.
    """

    def __init__(self, channels: int, n_heads: int, window: int, dropout: float) -> None:
        super().__init__()
        self.n_heads, self.window, self.d_head = n_heads, window, channels // n_heads
        self.shifts = Shifts(window)
        self.query, self.key, self.value = (Pointwise(channels, channels) for _ in range(3))
        self.out = Pointwise(channels, channels)
        self.dropout = nn.Dropout(dropout)
        scale = self.d_head**-0.5
        self.relative_key = nn.Parameter(torch.randn(2 * window + 1, self.d_head) * scale)
        self.relative_value = nn.Parameter(torch.randn(2 * window + 1, self.d_head) * scale)

    def _heads(self, x: Tensor) -> Tensor:
        b, _, t = x.shape
        return x.transpose(1, 2).reshape(b, t, self.n_heads, self.d_head).transpose(1, 2)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        b, c, t = x.shape
        q = self._heads(self.query(x)) / math.sqrt(self.d_head)
        k, v = self._heads(self.key(x)), self._heads(self.value(x))
        by_distance = q @ self.relative_key.to(q.dtype).T
        scores = q @ k.transpose(2, 3) + self.shifts.to_positions(by_distance)
        scores = scores.float().masked_fill(mask[:, None] == 0, -1e4)
        weights = self.dropout(torch.softmax(scores, -1).to(v.dtype))
        near = self.shifts.to_distances(weights)
        y = weights @ v + near @ self.relative_value.to(near.dtype)
        out: Tensor = self.out(y.transpose(1, 2).reshape(b, t, c).transpose(1, 2))
        return out


class TransformerLayer(nn.Module):
    """Attention, then two convolutions, each added and normed. Shapes: x (B, C, T), mask (B, 1, T) -> (B, C, T)."""

    def __init__(self, channels: int, filters: int, n_heads: int, kernel: int, window: int, dropout: float) -> None:
        super().__init__()
        self.attention = RelativeAttention(channels, n_heads, window, dropout)
        self.up, self.down = Conv1d(channels, filters, kernel), Conv1d(filters, channels, kernel)
        self.norm1, self.norm2 = LayerNorm(channels), LayerNorm(channels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        mask = mask.to(x.dtype)
        x = self.norm1(x + self.dropout(self.attention(x, mask)))
        y = self.dropout(F.relu(self.up(x * mask))) * mask
        z: Tensor = self.norm2(x + self.dropout(self.down(y) * mask))
        return z
