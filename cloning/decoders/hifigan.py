"""The HiFi-GAN decoder: latents to samples by transposed convolutions."""

import math
from functools import reduce

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cloning.config import DecoderConfig
from cloning.layers.convolutions import Conv1d, Upsample

EDGE_KERNEL = 7
SLOPE = 0.1
# The published network ends on torch's default slope, and its weights were trained with that.
LAST_SLOPE = 0.01


class ResidualBlock(nn.Module):
    """Dilated convolutions, each added to its input; type "1" follows each with an undilated one.

    A step depends on `reach` steps on each side.

    Shapes: x (B, C, T), mask (B, 1, T) or None -> (B, C, T).
    Source: HiFi-GAN (Kong et al. 2020), figure 1 and appendix A.1.
    """

    def __init__(self, channels: int, kernel: int, dilations: tuple[int, ...], paired: bool) -> None:
        super().__init__()
        dilated = [Conv1d(channels, channels, kernel, d) for d in dilations]
        plain = [Conv1d(channels, channels, kernel) for _ in dilations if paired]
        self.dilated, self.plain = nn.ModuleList(dilated), nn.ModuleList(plain)
        self.reach = sum(conv.padding for conv in dilated + plain)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        for i, dilated in enumerate(self.dilated):
            y = dilated(F.leaky_relu(x, SLOPE))
            if self.plain:
                y = self.plain[i](_masked(F.leaky_relu(y, SLOPE), mask))
            x = _masked(x + y, mask)
        return x


class Stage(nn.Module):
    """Lengthens, then takes the mean of residual blocks of several kernels.

    Shapes: x (B, C, T), mask (B, 1, T) or None -> (B, C / 2, T * rate), mask (B, 1, T * rate) or None.
    """

    def __init__(self, channels: int, kernel: int, rate: int, config: DecoderConfig) -> None:
        super().__init__()
        self.upsample = Upsample(channels, channels // 2, kernel, rate)
        blocks = [
            ResidualBlock(channels // 2, k, dilations, config.resblock == "1")
            for k, dilations in zip(config.resblock_kernels, config.resblock_dilations, strict=True)
        ]
        self.reach = max(block.reach for block in blocks)
        self.blocks = nn.ModuleList(blocks)

    def sources(self, first: int, last: int) -> tuple[int, int]:
        """The first and the last step of the input that the steps `first` to `last` of the output depend on."""
        return self.upsample.sources(first - self.reach, last + self.reach)

    def forward(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        mask = None if mask is None else mask.repeat_interleave(self.upsample.rate, 2)
        x = _masked(self.upsample(F.leaky_relu(x, SLOPE)), mask)
        return reduce(torch.add, [block(x, mask) for block in self.blocks]) / len(self.blocks), mask


class HifiGanDecoder(nn.Module):
    """Stages of transposed convolutions and residual blocks.

    A mask makes each row of a padded batch sound as it does alone; without one all frames count. The samples of a
    frame depend on `receptive_field_frames` latent frames on each side of it.

    Shapes: z (B, C, T), g (B, G), mask (B, 1, T) -> samples float32 (B, T * hop).
    Source: HiFi-GAN (Kong et al. 2020), section 2.2; the speaker's condition: VITS (Kim et al. 2021), section 2.5.3.
    """

    def __init__(self, hidden: int, g_width: int, config: DecoderConfig) -> None:
        super().__init__()
        self.pre = Conv1d(hidden, config.hidden, EDGE_KERNEL)
        self.condition = nn.Linear(g_width, config.hidden)
        sizes = zip(config.upsample_kernels, config.upsample_rates, strict=True)
        stages = [Stage(config.hidden >> i, kernel, rate, config) for i, (kernel, rate) in enumerate(sizes)]
        self.stages = nn.ModuleList(stages)
        self.post = Conv1d(config.hidden >> len(stages), 1, EDGE_KERNEL, bias=False)
        first, last = -self.post.padding, math.prod(config.upsample_rates) - 1 + self.post.padding
        for stage in reversed(stages):
            first, last = stage.sources(first, last)
        self.receptive_field_frames = max(-first, last) + self.pre.padding

    def forward(self, z: Tensor, g: Tensor, mask: Tensor | None = None) -> Tensor:
        x = _masked(self.pre(z) + self.condition(g)[:, :, None], mask)
        for stage in self.stages:
            x, mask = stage(x, mask)
        samples: Tensor = self.post(F.leaky_relu(x, LAST_SLOPE)).float().tanh().squeeze(1)
        return samples


def _masked(x: Tensor, mask: Tensor | None) -> Tensor:
    return x if mask is None else x * mask.to(x.dtype)
