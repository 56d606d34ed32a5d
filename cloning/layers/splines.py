"""Monotonic rational-quadratic splines: invertible curves on [-bound, bound], the identity outside.

Nothing here picks entries by a boolean index, whose shape depends on values: graphs and engine builders refuse that.

Source: Neural Spline Flows (Durkan et al. 2019), section 3.1 and appendix A.1.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

MIN_BIN = 1e-3
MIN_SLOPE = 1e-3


def rational_quadratic(x: Tensor, raw: Tensor, bound: float, reverse: bool = False) -> tuple[Tensor, Tensor]:
    """The curve that `raw` describes at x, or its inverse, and the logarithm of its slope there.

    `raw` holds, for K bins, K widths and K heights (before a softmax) and K - 1 inner slopes (before a softplus).

    Shapes: x float32 (...,), raw float32 (..., 3K - 1) -> y and log_slope float32 (...,).
    """
    n_bins = (raw.shape[-1] + 1) // 3
    xs, ys = _knots(raw[..., :n_bins], bound), _knots(raw[..., n_bins : 2 * n_bins], bound)
    # A slope of 1 at both ends joins the identity without a kink.
    slopes = F.pad(MIN_SLOPE + F.softplus(raw[..., 2 * n_bins :]), (1, 1), value=1.0)
    clamped = x.clamp(-bound, bound)
    k = (clamped[..., None] >= (ys if reverse else xs)[..., 1:-1]).sum(-1, keepdim=True)
    x0, x1, y0, y1 = (_pick(knots, i) for knots in (xs, ys) for i in (k, k + 1))
    pieces = _Piece(x0, x1 - x0, y0, y1 - y0, _pick(slopes, k), _pick(slopes, k + 1))
    y, log_slope = pieces.undo(clamped) if reverse else pieces.apply(clamped)
    inside = x.abs() <= bound
    return torch.where(inside, y, x), torch.where(inside, log_slope, torch.zeros_like(x))


class _Piece:
    """The curve within the bin of each point: corner, width, height, and the slopes at its two ends."""

    def __init__(self, x0: Tensor, width: Tensor, y0: Tensor, height: Tensor, first: Tensor, last: Tensor) -> None:
        self.x0, self.width, self.y0, self.height, self.first, self.last = x0, width, y0, height, first, last
        self.mean = height / width
        self.bend = first + last - 2 * self.mean

    def apply(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Equation 4."""
        at = (x - self.x0) / self.width
        rise = self.mean * at.square() + self.first * at * (1 - at)
        return self.y0 + self.height * rise / self._denominator(at), self._log_slope(at)

    def undo(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """Equations 6 to 8, with the root that does not cancel."""
        above = y - self.y0
        a = above * self.bend + self.height * (self.mean - self.first)
        b = self.height * self.first - above * self.bend
        c = -self.mean * above
        root = (b.square() - 4 * a * c).clamp(min=0).sqrt()
        at = 2 * c / (-b - root)
        return self.x0 + at * self.width, -self._log_slope(at)

    def _denominator(self, at: Tensor) -> Tensor:
        return self.mean + self.bend * at * (1 - at)

    def _log_slope(self, at: Tensor) -> Tensor:
        """Equation 5."""
        between = self.last * at.square() + 2 * self.mean * at * (1 - at) + self.first * (1 - at).square()
        return 2 * self.mean.log() + between.log() - 2 * self._denominator(at).log()


def _knots(raw: Tensor, bound: float) -> Tensor:
    """Borders of the bins from -bound to bound. Shapes: (..., K) -> (..., K + 1)."""
    shares = MIN_BIN + (1 - MIN_BIN * raw.shape[-1]) * torch.softmax(raw, -1)
    inner = (2 * shares.cumsum(-1)[..., :-1] - 1) * bound
    return F.pad(F.pad(inner, (1, 0), value=-bound), (0, 1), value=bound)


def _pick(values: Tensor, index: Tensor) -> Tensor:
    return values.gather(-1, index).squeeze(-1)
