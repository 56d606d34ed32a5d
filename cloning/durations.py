"""Duration predictors: how many frames each symbol lasts."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cloning.config import DurationConfig
from cloning.layers.convolutions import Conv1d, LayerNorm, Pointwise, concatenate
from cloning.layers.splines import rational_quadratic

# Far above any symbol; a sum of such counts still fits its integer, so that the limit of a sentence can refuse it.
MAX_FRAMES = 1e6


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
        self.norm1, self.norm2 = (LayerNorm(config.filter, epsilon=config.norm_epsilon) for _ in range(2))
        self.out = Pointwise(config.filter, 1)
        self.rounds_up = config.rounding == "up"
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, hidden: Tensor, mask: Tensor, g: Tensor) -> Tensor:
        keep = mask.to(hidden.dtype)
        x: Tensor = hidden + self.condition(g)[:, :, None].to(hidden.dtype)
        x = self.dropout(self.norm1(F.relu(self.conv1(x * keep))))
        x = self.dropout(self.norm2(F.relu(self.conv2(x * keep))))
        log_frames: Tensor = (self.out(x * keep).float() * mask).squeeze(1)
        return log_frames

    def loss(self, hidden: Tensor, mask: Tensor, g: Tensor, durations: Tensor) -> Tensor:
        """Squared error of log frames, for each symbol. Shapes: durations int64 (B, T_text) -> float32 (B, T_text)."""
        wanted = durations.clamp(min=1).float().log()
        error: Tensor = (self(hidden, mask, g) - wanted).square() * mask.squeeze(1)
        return error

    def frames(self, hidden: Tensor, mask: Tensor, g: Tensor, length_scale: Tensor, noise: Tensor) -> Tensor:
        """Whole frames of each symbol; the noise is not read. Shapes: -> int64 (B, T_text)."""
        frames = self(hidden, mask, g).exp() * length_scale[:, None]
        return whole_frames(frames.ceil() if self.rounds_up else frames.round(), mask)


class SeparableStack(nn.Module):
    """Depthwise convolutions of growing dilation, each with a pointwise one, added to their input.

    Shapes: x (B, C, T), mask (B, 1, T) -> (B, C, T).
    Source: VITS (Kim et al. 2021), section 2.2.2 and appendix B.2, figure 5b.
    """

    def __init__(self, channels: int, kernel: int, n_layers: int, dropout: float = 0.0) -> None:
        super().__init__()
        layers = range(n_layers)
        self.depthwise = nn.ModuleList(Conv1d(channels, channels, kernel, kernel**i, channels) for i in layers)
        self.pointwise = nn.ModuleList(Pointwise(channels, channels) for _ in layers)
        self.norms1 = nn.ModuleList(LayerNorm(channels) for _ in layers)
        self.norms2 = nn.ModuleList(LayerNorm(channels) for _ in layers)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        mask = mask.to(x.dtype)
        for depthwise, pointwise, norm1, norm2 in zip(
            self.depthwise, self.pointwise, self.norms1, self.norms2, strict=True
        ):
            y = F.gelu(norm1(depthwise(x * mask)))
            x = x + self.dropout(F.gelu(norm2(pointwise(y))))
        return x * mask


class SplineCoupling(nn.Module):
    """One channel bent by a spline whose shape depends on the other channel and on a condition.

    Shapes: x float32 (B, 2, T), mask (B, 1, T), condition (B, C, T) -> float32 (B, 2, T), log determinants (B, T).
    Source: VITS (Kim et al. 2021), appendix B.2, figure 5a.
    """

    def __init__(self, config: DurationConfig) -> None:
        super().__init__()
        self.bound, self.n_bins, self.scale = config.spline_bound, config.n_bins, config.filter**-0.5
        self.pre = Pointwise(1, config.filter)
        self.stack = SeparableStack(config.filter, config.kernel, config.n_layers)
        self.out = Pointwise(config.filter, 3 * config.n_bins - 1)
        nn.init.zeros_(self.out.weight)

    def forward(self, x: Tensor, mask: Tensor, condition: Tensor, reverse: bool = False) -> tuple[Tensor, Tensor]:
        kept, moved = x.chunk(2, 1)
        raw = self.out(self.stack(self.pre(kept) + condition, mask)).float() * mask
        sizes, slopes = raw.transpose(1, 2).split((2 * self.n_bins, self.n_bins - 1), -1)
        curve = torch.cat([sizes * self.scale, slopes], -1)
        moved, log_slope = rational_quadratic(moved.squeeze(1), curve, self.bound, reverse)
        return concatenate([kept, moved[:, None]]) * mask, log_slope * mask.squeeze(1)


class DurationFlow(nn.Module):
    """An elementwise affine layer, then spline couplings with the two channels swapped after each.

    Shapes: x float32 (B, 2, T), mask (B, 1, T), condition (B, C, T) -> float32 (B, 2, T), log determinants (B, T).
    """

    def __init__(self, config: DurationConfig) -> None:
        super().__init__()
        self.shift, self.log_scale = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(2))
        self.couplings = nn.ModuleList(SplineCoupling(config) for _ in range(config.n_flows))

    def forward(self, x: Tensor, mask: Tensor, condition: Tensor) -> tuple[Tensor, Tensor]:
        x = (x * self.log_scale.exp()[:, None] + self.shift[:, None]) * mask
        log_determinant = self.log_scale.sum() * mask.squeeze(1)
        for coupling in self.couplings:
            x, log_slope = coupling(x, mask, condition)
            x, log_determinant = x.flip(1), log_determinant + log_slope
        return x, log_determinant

    def undo_first(self, z: Tensor, mask: Tensor, condition: Tensor) -> Tensor:
        """The first channel of what the flow made into z; the first coupling, which only moves the second, is spared.

        Shapes: z float32 (B, 2, T) -> float32 (B, T).
        """
        for coupling in reversed(self.couplings[1:]):
            z, _ = coupling(z.flip(1), mask, condition, reverse=True)
        first: Tensor = z[:, 1] if len(self.couplings) else z[:, 0]
        return (first - self.shift[0]) * (-self.log_scale[0]).exp() * mask.squeeze(1)


class ContextEncoder(nn.Module):
    """What a duration flow is conditioned on. Shapes: x (B, C_in, T), mask (B, 1, T), g (B, C, 1) -> (B, C, T)."""

    def __init__(self, c_in: int, config: DurationConfig) -> None:
        super().__init__()
        self.pre, self.out = Pointwise(c_in, config.filter), Pointwise(config.filter, config.filter)
        self.stack = SeparableStack(config.filter, config.kernel, config.n_layers, config.dropout)

    def forward(self, x: Tensor, mask: Tensor, g: Tensor | None = None) -> Tensor:
        x = self.pre(x)
        y: Tensor = self.out(self.stack(x if g is None else x + g.to(x.dtype), mask))
        return y * mask.to(y.dtype)


class StochasticDurations(nn.Module):
    """The distribution of frames, as a flow from noise to log frames; the noise decides the rhythm.

    Shapes: hidden (B, H, T_text), mask (B, 1, T_text), g (B, G).
    Source: VITS (Kim et al. 2021), section 2.2.2 and appendix B.2.
    """

    def __init__(self, hidden: int, g_width: int, config: DurationConfig) -> None:
        super().__init__()
        self.text, self.durations = ContextEncoder(hidden, config), ContextEncoder(1, config)
        self.condition = nn.Linear(g_width, config.filter)
        self.flow, self.posterior = DurationFlow(config), DurationFlow(config)

    def loss(self, hidden: Tensor, mask: Tensor, g: Tensor, durations: Tensor) -> Tensor:
        """Variational bound of the negative log likelihood of whole frames, for each symbol.

        Shapes: durations int64 (B, T_text) frames -> float32 (B, T_text).
        Source: VITS, equations 6 and 7: u fills the whole frames up to real numbers, v is the second channel.
        """
        keep, frames = mask.squeeze(1), durations.float() * mask.squeeze(1)
        text = self.text(hidden, mask, self.condition(g)[:, :, None])
        noise = torch.randn(len(frames), 2, frames.shape[1], device=frames.device) * mask
        spread, log_det_q = self.posterior(noise, mask, text + self.durations(frames[:, None], mask))
        u, v = spread.unbind(1)
        log_q = -_normal_nll(noise) - log_det_q - F.logsigmoid(u) - F.logsigmoid(-u)
        log_frames = (frames - u.sigmoid()).clamp(min=1e-5).log() * keep
        z, log_det_p = self.flow(torch.stack([log_frames, v], 1), mask, text)
        # The slope of the logarithm is 1 / frames.
        log_p = -_normal_nll(z) + log_det_p - log_frames
        bound: Tensor = (log_q - log_p) * keep
        return bound

    def frames(self, hidden: Tensor, mask: Tensor, g: Tensor, length_scale: Tensor, noise: Tensor) -> Tensor:
        """Whole frames of each symbol. Shapes: noise float32 (B, 2, T_text), already scaled -> int64 (B, T_text)."""
        text = self.text(hidden, mask, self.condition(g)[:, :, None])
        log_frames = self.flow.undo_first(noise, mask, text)
        # Training took u, from 0 to 1, away from whole frames: to round up is the way back.
        return whole_frames((log_frames.exp() * length_scale[:, None]).ceil(), mask)


def whole_frames(frames: Tensor, mask: Tensor) -> Tensor:
    """Rounded durations as integers, at least one for each symbol and none in the padding.

    Shapes: frames float32 (B, T_text), mask (B, 1, T_text) -> int64 (B, T_text) frames.
    """
    return (frames.clamp(1, MAX_FRAMES) * mask.squeeze(1)).long()


def build_durations(hidden: int, g_width: int, config: DurationConfig) -> PlainDurations | StochasticDurations:
    """The predictor that the configuration names."""
    if config.kind == "plain":
        return PlainDurations(hidden, g_width, config)
    return StochasticDurations(hidden, g_width, config)


def _normal_nll(x: Tensor) -> Tensor:
    """Negative log density of two channels of standard normal noise. Shapes: (B, 2, T) -> (B, T)."""
    return 0.5 * (math.log(2 * math.pi) + x.square()).sum(1)
