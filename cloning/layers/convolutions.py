"""Convolutions and norms over (B, C, T) tensors whose channels lie next to each other in memory.

A one-dimensional convolution of that layout is slow in the vendor's libraries; the same one as a two-dimensional
convolution of height 1 is not, and norms and linear layers need no copy.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def channels_last(x: Tensor) -> Tensor:
    """The same (B, C, T) tensor with its channels contiguous."""
    return x.transpose(1, 2).contiguous().transpose(1, 2)


def concatenate(parts: list[Tensor]) -> Tensor:
    """Channels of several (B, C, T) tensors joined, channels-last."""
    return torch.cat([p.transpose(1, 2) for p in parts], -1).transpose(1, 2)


class Conv1d(nn.Module):
    """A convolution that keeps the length. Shapes: (B, C_in, T) -> (B, C_out, T); weight (C_out, C_in / groups, k).

    On a CPU torch chooses its algorithm by the length, and sums in another order for short inputs; with
    `by_one_algorithm` a step has the same bits whatever the length is.
    """

    def __init__(
        self, c_in: int, c_out: int, kernel: int = 1, dilation: int = 1, groups: int = 1, bias: bool = True
    ) -> None:
        super().__init__()
        self.dilation, self.groups = dilation, groups
        self.padding = dilation * (kernel - 1) // 2
        self.by_one_algorithm = False
        self.weight = nn.Parameter(torch.empty(c_out, kernel, c_in // groups).transpose(1, 2))
        self.bias = nn.Parameter(torch.zeros(c_out)) if bias else None
        bound = math.sqrt(groups / (c_in * kernel))
        nn.init.uniform_(self.weight, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        if self.by_one_algorithm:
            return self._by_one_dnn(x)
        y = F.conv2d(
            x.unsqueeze(2), self.weight.unsqueeze(2), self.bias,
            padding=(0, self.padding), dilation=(1, self.dilation), groups=self.groups,
        )  # fmt: skip
        return y.squeeze(2)

    def _by_one_dnn(self, x: Tensor) -> Tensor:
        """The library that torch uses for long inputs, asked for by name."""
        y: Tensor = torch.mkldnn_convolution(
            x.unsqueeze(2), self.weight.unsqueeze(2), self.bias,
            (0, self.padding), (1, 1), (1, self.dilation), self.groups,
        )  # fmt: skip
        return y.squeeze(2)


class Upsample(nn.Module):
    """A transposed convolution that makes `rate` steps of each. Shapes: (B, C_in, T) -> (B, C_out, T * rate).

    The weight is (C_in, C_out, kernel); `kernel - rate` is even and not negative.
    """

    def __init__(self, c_in: int, c_out: int, kernel: int, rate: int) -> None:
        super().__init__()
        self.rate, self.padding = rate, (kernel - rate) // 2
        self.weight = nn.Parameter(torch.empty(c_in, kernel, c_out).transpose(1, 2))
        self.bias = nn.Parameter(torch.zeros(c_out))
        bound = math.sqrt(rate / (c_in * kernel))
        nn.init.uniform_(self.weight, -bound, bound)

    def sources(self, first: int, last: int) -> tuple[int, int]:
        """The first and the last step of the input that the steps `first` to `last` of the output depend on."""
        kernel = self.weight.shape[2]
        return -((kernel - 1 - self.padding - first) // self.rate), (last + self.padding) // self.rate

    def forward(self, x: Tensor) -> Tensor:
        y = F.conv_transpose2d(
            x.unsqueeze(2), self.weight.unsqueeze(2), self.bias, stride=(1, self.rate), padding=(0, self.padding)
        )
        return y.squeeze(2)


class Pointwise(nn.Module):
    """A linear layer over channels. Shapes: (B, C_in, T) -> (B, C_out, T); weight (C_out, C_in)."""

    def __init__(self, c_in: int, c_out: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(c_out, c_in))
        self.bias = nn.Parameter(torch.zeros(c_out))
        nn.init.uniform_(self.weight, -1 / math.sqrt(c_in), 1 / math.sqrt(c_in))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x.transpose(1, 2), self.weight, self.bias).transpose(1, 2)


class LayerNorm(nn.Module):
    """Layer norm over channels. Shapes: (B, C, T) -> (B, C, T)."""

    def __init__(self, channels: int, affine: bool = True, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.channels, self.epsilon = channels, epsilon
        self.weight = nn.Parameter(torch.ones(channels)) if affine else None
        self.bias = nn.Parameter(torch.zeros(channels)) if affine else None

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x.transpose(1, 2), (self.channels,), self.weight, self.bias, self.epsilon).transpose(1, 2)


def sequence_mask(lengths: Tensor, width: int) -> Tensor:
    """1 inside each sequence and 0 in its padding. Shapes: lengths int64 (B,) -> float32 (B, 1, width)."""
    return (torch.arange(width, device=lengths.device)[None] < lengths[:, None])[:, None].float()
