"""Rational-quadratic splines: invertible, rising, and the identity outside."""

import math

import pytest
import torch

from cloning.layers.splines import rational_quadratic

BOUND = 5.0


def curves(n: int, n_bins: int = 10, seed: int = 0, spread: float = 1.0) -> torch.Tensor:
    return spread * torch.randn(n, 3 * n_bins - 1, generator=torch.Generator().manual_seed(seed))


def points(n: int, seed: int = 1) -> torch.Tensor:
    return (2 * torch.rand(n, generator=torch.Generator().manual_seed(seed)) - 1) * BOUND


@pytest.mark.parametrize("n_bins", [1, 2, 10])
def test_the_inverse_undoes_the_curve_and_its_slope(n_bins):
    # In single precision a slope of 0.001 alone would cost more than is allowed here; networks divide sizes by the
    # square root of their width and stay far from that.
    x, raw = points(2000), curves(2000, n_bins, spread=0.7)
    y, log_slope = rational_quadratic(x, raw, BOUND)
    back, log_slope_back = rational_quadratic(y, raw, BOUND, reverse=True)
    torch.testing.assert_close(back, x, atol=1e-4, rtol=0)
    torch.testing.assert_close(log_slope_back, -log_slope, atol=1e-2, rtol=0)
    assert n_bins == 1 or (y - x).abs().max() > 0.5


def test_extreme_curves_invert_in_double_precision():
    x, raw = points(2000).double(), curves(2000, spread=6).double()
    y, _ = rational_quadratic(x, raw, BOUND)
    back, _ = rational_quadratic(y, raw, BOUND, reverse=True)
    torch.testing.assert_close(back, x, atol=1e-6, rtol=0)


@pytest.mark.parametrize("reverse", [False, True])
def test_the_log_slope_is_that_of_the_curve(reverse):
    x, raw = points(500).double().requires_grad_(), curves(500).double()
    y, log_slope = rational_quadratic(x, raw, BOUND, reverse)
    (slope,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(log_slope.exp(), slope, atol=1e-8, rtol=1e-6)


def test_a_curve_rises_from_corner_to_corner():
    x = torch.linspace(-BOUND, BOUND, 4001).double()
    y, _ = rational_quadratic(x, curves(1, spread=3).double().expand(4001, -1), BOUND)
    assert (y.diff() > 0).all()
    assert y[0].item() == pytest.approx(-BOUND)
    assert y[-1].item() == pytest.approx(BOUND)


def test_outside_the_bound_nothing_moves_and_no_gradient_is_lost():
    x = torch.tensor([-1e4, -5.001, 5.001, 80.0], requires_grad=True)
    for reverse in (False, True):
        y, log_slope = rational_quadratic(x, curves(4), BOUND, reverse)
        assert torch.equal(y, x)
        assert (log_slope == 0).all()
        (slope,) = torch.autograd.grad(y.sum(), x)
        assert (slope == 1).all()


def test_equal_bins_with_slopes_of_1_are_the_identity():
    raw = torch.zeros(100, 29)
    raw[:, 20:] = math.log(math.e - 1)
    x = points(100)
    y, log_slope = rational_quadratic(x, raw, BOUND)
    torch.testing.assert_close(y, x, atol=2e-3, rtol=0)
    torch.testing.assert_close(log_slope, torch.zeros(100), atol=2e-3, rtol=0)
