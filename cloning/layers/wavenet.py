"""Gated convolutions with a global condition."""

import torch
from torch import Tensor, nn

from cloning.config import WaveNetConfig
from cloning.layers.convolutions import Conv1d, Pointwise


class WaveNet(nn.Module):
    """Residual gated convolutions whose skips are summed. A step depends on `reach` steps on each side.

    Shapes: x (B, C, T), mask (B, 1, T), g (B, G) -> (B, C, T).
    Source: VITS (Kim et al. 2021), section 2.5.2; WaveNet (van den Oord et al. 2016), equation 2.
    """

    def __init__(self, channels: int, g_width: int, config: WaveNetConfig) -> None:
        super().__init__()
        self.channels, n = channels, config.n_layers
        narrow = config.condition_width
        width = 2 * channels * n
        self.condition: nn.Module = (
            nn.Sequential(nn.Linear(g_width, narrow), nn.SiLU(), nn.Linear(narrow, width))
            if narrow
            else nn.Linear(g_width, width)
        )
        gates = [Conv1d(channels, 2 * channels, config.kernel, config.dilation_rate**i) for i in range(n)]
        self.gates, self.reach = nn.ModuleList(gates), sum(gate.padding for gate in gates)
        self.outs = nn.ModuleList(Pointwise(channels, channels * (2 if i < n - 1 else 1)) for i in range(n))

    def forward(self, x: Tensor, mask: Tensor, g: Tensor) -> Tensor:
        mask = mask.to(x.dtype)
        conditions = self.condition(g)[:, :, None].chunk(len(self.gates), 1)
        x, skips = x * mask, torch.zeros_like(x)
        for gate, out, condition in zip(self.gates, self.outs, conditions, strict=True):
            filtered, opened = (gate(x) + condition).chunk(2, 1)
            y = out(torch.tanh(filtered) * torch.sigmoid(opened))
            if y.shape[1] == self.channels:
                total: Tensor = (skips + y) * mask
                return total
            residual, skip = y.chunk(2, 1)
            x, skips = (x + residual) * mask, skips + skip
        raise AssertionError("the last layer has only a skip")
