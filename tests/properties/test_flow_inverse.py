"""The flows undo themselves, whatever their shape."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from cloning.config import DurationConfig, FlowConfig, WaveNetConfig
from cloning.durations import SplineCoupling
from cloning.flow import Flow
from cloning.layers.convolutions import sequence_mask
from cloning.layers.splines import rational_quadratic

SHAPES = {"lengths": st.lists(st.integers(1, 12), min_size=1, max_size=3), "seed": st.integers(0, 2**31)}


def shake(module: nn.Module) -> None:
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape) * 0.3)


@settings(max_examples=60, deadline=None)
@given(
    half=st.integers(1, 5), n_couplings=st.integers(1, 5), n_layers=st.integers(1, 3), rate=st.integers(1, 3),
    narrow=st.sampled_from([0, 3]), **SHAPES,
)  # fmt: skip
def test_the_flow_undoes_itself(half, n_couplings, n_layers, rate, narrow, lengths, seed):
    torch.manual_seed(seed)
    flow = Flow(2 * half, 4, FlowConfig(n_couplings, WaveNetConfig(3, n_layers, rate, narrow)))
    shake(flow)
    mask = sequence_mask(torch.tensor(lengths), max(lengths))
    x, g = torch.randn(len(lengths), 2 * half, max(lengths)) * mask, torch.randn(len(lengths), 4)
    with torch.no_grad():
        z = flow(x, mask, g)
        torch.testing.assert_close(flow(z, mask, g, reverse=True), x, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(flow(flow(x, mask, g, reverse=True), mask, g), x, atol=1e-4, rtol=1e-4)
    assert (z * (1 - mask) == 0).all()


@settings(max_examples=60, deadline=None)
@given(width=st.integers(1, 12), n_bins=st.integers(1, 12), n_layers=st.integers(1, 3), **SHAPES)
def test_a_spline_coupling_undoes_itself(width, n_bins, n_layers, lengths, seed):
    """In double precision: where a slope is e^9, single precision, not the algorithm, is what a test would see."""
    torch.manual_seed(seed)
    coupling = SplineCoupling(DurationConfig("stochastic", width, n_bins=n_bins, n_layers=n_layers)).double()
    shake(coupling)
    mask = sequence_mask(torch.tensor(lengths), max(lengths)).double()
    x = 3 * torch.randn(len(lengths), 2, max(lengths), dtype=torch.float64) * mask
    condition = torch.randn(len(lengths), width, 1, dtype=torch.float64)
    with torch.no_grad():
        z, log_slope = coupling(x, mask, condition)
        back, log_slope_back = coupling(z, mask, condition, reverse=True)
    torch.testing.assert_close(back, x, atol=1e-7, rtol=1e-7)
    torch.testing.assert_close(log_slope_back, -log_slope, atol=1e-7, rtol=1e-7)


@settings(max_examples=100, deadline=None)
@given(
    x=st.lists(st.floats(-20, 20), min_size=1, max_size=20), n_bins=st.integers(1, 16), bound=st.floats(0.5, 10),
    spread=st.floats(0, 8), seed=st.integers(0, 2**31),
)  # fmt: skip
def test_a_spline_undoes_itself_in_double_precision(x, n_bins, bound, spread, seed):
    points = torch.tensor(x, dtype=torch.float64)
    generator = torch.Generator().manual_seed(seed)
    raw = spread * torch.randn(len(x), 3 * n_bins - 1, generator=generator, dtype=torch.float64)
    y, log_slope = rational_quadratic(points, raw, bound)
    back, _ = rational_quadratic(y, raw, bound, reverse=True)
    torch.testing.assert_close(back, points, atol=1e-5, rtol=0)
    assert log_slope.isfinite().all()
    assert (log_slope[points.abs() > bound] == 0).all()
