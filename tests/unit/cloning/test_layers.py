"""The building blocks, each against a slow and plain way to say the same."""

import math

import pytest
import torch
from network_samples import restless
from torch.nn import functional as F

from cloning.config import WaveNetConfig
from cloning.layers.attention import RelativeAttention, TransformerLayer, absolute_to_relative, relative_to_absolute
from cloning.layers.convolutions import (
    Conv1d,
    LayerNorm,
    Pointwise,
    Upsample,
    channels_last,
    concatenate,
    sequence_mask,
)
from cloning.layers.wavenet import WaveNet


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("t", [1, 2, 5])
def test_scores_by_distance_become_scores_by_position(t):
    by_distance = drawn(2, 3, t, 2 * t - 1)
    by_position = relative_to_absolute(by_distance)
    for i in range(t):
        for j in range(t):
            assert torch.equal(by_position[:, :, i, j], by_distance[:, :, i, j - i + t - 1])


@pytest.mark.parametrize("t", [1, 2, 5])
def test_weights_by_position_become_weights_by_distance(t):
    by_position = drawn(2, 3, t, t)
    by_distance = absolute_to_relative(by_position)
    for i in range(t):
        for distance in range(-(t - 1), t):
            inside = 0 <= i + distance < t
            expected = by_position[:, :, i, i + distance] if inside else torch.zeros(2, 3)
            assert torch.equal(by_distance[:, :, i, distance + t - 1], expected)


def slow_attention(layer: RelativeAttention, x: torch.Tensor, n: int) -> torch.Tensor:
    """One row of n steps, a query and a key at a time. Shapes: x (C, n) -> (C, n)."""
    q, k, v = (p(x[None])[0] for p in (layer.query, layer.key, layer.value))
    out, d = torch.zeros_like(x), layer.d_head
    for head in range(layer.n_heads):
        part = slice(head * d, (head + 1) * d)
        for i in range(n):
            scores = []
            for j in range(n):
                near = abs(j - i) <= layer.window
                key = k[part, j] + (layer.relative_key[j - i + layer.window] if near else 0)
                scores.append(q[part, i] @ key / math.sqrt(d))
            weights = torch.softmax(torch.stack(scores), 0)
            for j in range(n):
                near = abs(j - i) <= layer.window
                out[part, i] += weights[j] * (v[part, j] + (layer.relative_value[j - i + layer.window] if near else 0))
    return layer.out(out[None])[0]


@pytest.mark.parametrize("lengths", [(1, 1), (3, 2), (9, 5)])
def test_relative_attention_is_the_explicit_double_loop(lengths):
    layer = restless(RelativeAttention(8, n_heads=2, window=3, dropout=0.1))
    x, width = drawn(2, 8, max(lengths)), max(lengths)
    y = layer(x, sequence_mask(torch.tensor(lengths), width))
    for row, n in enumerate(lengths):
        torch.testing.assert_close(y[row, :, :n], slow_attention(layer, x[row, :, :n], n), atol=1e-5, rtol=1e-4)


def test_a_transformer_layer_does_not_read_the_padding():
    layer = restless(TransformerLayer(8, 12, n_heads=2, kernel=3, window=2, dropout=0.1))
    x, mask = drawn(1, 8, 9), sequence_mask(torch.tensor([5]), 9)
    alone = layer(x[:, :, :5], torch.ones(1, 1, 5))
    torch.testing.assert_close(layer(x, mask)[:, :, :5], alone, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(("kernel", "dilation", "groups", "bias"), [(1, 1, 1, True), (3, 2, 1, False), (5, 3, 4, True)])
def test_a_convolution_is_the_plain_one(kernel, dilation, groups, bias):
    layer = restless(Conv1d(8, 12, kernel, dilation, groups, bias))
    x = drawn(2, 8, 11)
    expected = F.conv1d(x, layer.weight, layer.bias, padding=layer.padding, dilation=dilation, groups=groups)
    torch.testing.assert_close(layer(x), expected, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(layer(channels_last(x)), expected, atol=1e-5, rtol=1e-4)
    assert layer(x).shape == (2, 12, 11)


@pytest.mark.parametrize(("kernel", "rate"), [(2, 2), (4, 2), (16, 8), (7, 3)])
def test_an_upsampling_is_the_plain_transposed_convolution_of_exact_length(kernel, rate):
    layer = restless(Upsample(6, 4, kernel, rate))
    x = drawn(2, 6, 9)
    expected = F.conv_transpose1d(x, layer.weight, layer.bias, stride=rate, padding=(kernel - rate) // 2)
    torch.testing.assert_close(layer(channels_last(x)), expected, atol=1e-5, rtol=1e-4)
    assert layer(x).shape == (2, 4, 9 * rate)


@pytest.mark.parametrize(("kernel", "rate"), [(2, 2), (4, 2), (16, 8), (7, 3), (9, 3)])
def test_the_sources_of_an_upsampled_span_are_those_its_gradient_reaches(kernel, rate):
    layer = restless(Upsample(2, 2, kernel, rate))
    for first, last in [(5 * rate, 5 * rate), (5 * rate + 1, 6 * rate), (4 * rate - 1, 7 * rate + 1)]:
        x = drawn(1, 2, 16).requires_grad_()
        layer(x)[:, :, first : last + 1].sum().backward()
        reached = x.grad.abs().sum((0, 1)).nonzero().flatten().tolist()
        assert (reached[0], reached[-1]) == layer.sources(first, last)


def test_a_pointwise_layer_is_a_convolution_of_kernel_1():
    layer, x = restless(Pointwise(6, 4)), drawn(2, 6, 5)
    torch.testing.assert_close(layer(x), F.conv1d(x, layer.weight[:, :, None], layer.bias), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("affine", [True, False])
def test_layer_norm_acts_on_channels(affine):
    layer, x = restless(LayerNorm(16, affine)), 3 + 2 * drawn(2, 16, 5)
    expected = (x - x.mean(1, keepdim=True)) / (x.var(1, keepdim=True, correction=0) + 1e-5).sqrt()
    if affine:
        expected = expected * layer.weight[:, None] + layer.bias[:, None]
    torch.testing.assert_close(layer(x), expected, atol=1e-5, rtol=1e-4)


def test_channels_last_changes_the_memory_and_not_the_values():
    x = drawn(2, 3, 5)
    assert torch.equal(channels_last(x), x)
    assert channels_last(x).stride(1) == 1
    joined = concatenate([x, channels_last(x[:, :2])])
    assert torch.equal(joined, torch.cat([x, x[:, :2]], 1))
    assert joined.stride(1) == 1


def test_a_sequence_mask_is_1_inside():
    mask = sequence_mask(torch.tensor([0, 2, 3]), 3)
    assert mask.dtype == torch.float32
    assert mask.tolist() == [[[0, 0, 0]], [[1, 1, 0]], [[1, 1, 1]]]


@pytest.mark.parametrize("condition_width", [0, 4])
def test_a_wavenet_neither_reads_nor_writes_the_padding(condition_width):
    layer = restless(WaveNet(6, 5, WaveNetConfig(3, 3, dilation_rate=2, condition_width=condition_width)))
    x, g, mask = drawn(2, 6, 12), drawn(2, 5, seed=1), sequence_mask(torch.tensor([12, 7]), 12)
    y = layer(x, mask, g)
    alone = layer(x[1:, :, :7], torch.ones(1, 1, 7), g[1:])
    torch.testing.assert_close(y[1:, :, :7], alone, atol=1e-5, rtol=1e-4)
    assert (y[1, :, 7:] == 0).all()
    assert y[1, :, :7].abs().max() > 0.1


def test_a_wavenet_listens_to_its_condition():
    layer = restless(WaveNet(6, 5, WaveNetConfig(3, 2)))
    x, mask = drawn(1, 6, 8), torch.ones(1, 1, 8)
    assert (layer(x, mask, drawn(1, 5)) - layer(x, mask, drawn(1, 5, seed=1))).abs().max() > 0.1
