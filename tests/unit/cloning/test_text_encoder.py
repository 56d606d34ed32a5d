"""Symbols in context, and how their statistics are laid out over frames."""

import dataclasses

import numpy as np
import torch
from network_samples import restless, small_voice

from cloning.layers.convolutions import sequence_mask
from cloning.text_encoder import TextEncoder, expand, owners

CONFIG = small_voice().text_encoder
G_WIDTH = 6


def encoder(**changes: object) -> TextEncoder:
    return restless(TextEncoder(dataclasses.replace(CONFIG, **changes), 11, 2, G_WIDTH))


def encode(network: TextEncoder, ids: list[list[int]], lengths: list[int], language: int = 0, speaker: int = 0):
    g = torch.randn(len(ids), G_WIDTH, generator=torch.Generator().manual_seed(speaker))
    mask = sequence_mask(torch.tensor(lengths), len(ids[0]))
    return network(torch.tensor(ids), torch.full((len(ids),), language), mask, g)


def test_widths_are_those_of_the_configuration():
    network = encoder()
    hidden, m_p, logs_p = encode(network, [[1, 2, 3]], [3])
    assert network.width == CONFIG.hidden + CONFIG.language_width
    assert hidden.shape == (1, network.width, 3)
    assert m_p.shape == logs_p.shape == (1, CONFIG.hidden, 3)


def test_padding_is_neither_read_nor_written():
    network = encoder()
    alone = encode(network, [[1, 2, 3]], [3])
    padded = encode(network, [[1, 2, 3, 9, 9]], [3])
    for short, long in zip(alone, padded, strict=True):
        torch.testing.assert_close(long[:, :, :3], short, atol=1e-5, rtol=1e-4)
        assert (long[:, :, 3:] == 0).all()


def test_symbols_order_language_and_speaker_each_matter():
    network = encoder()
    _, plain, _ = encode(network, [[1, 2, 3]], [3])
    _, reordered, _ = encode(network, [[3, 2, 1]], [3])
    _, portuguese, _ = encode(network, [[1, 2, 3]], [3], language=1)
    _, of_another, _ = encode(network, [[1, 2, 3]], [3], speaker=1)
    for other in (reordered.flip(2), portuguese, of_another):
        assert (other - plain).abs().max() > 0.01


def test_one_language_and_no_condition_need_neither_layer():
    network = encoder(language_width=0, speaker_conditioned=False)
    assert not any(name.startswith(("languages", "condition")) for name, _ in network.named_parameters())
    _, one, _ = encode(network, [[1, 2, 3]], [3])
    _, other, _ = encode(network, [[1, 2, 3]], [3], language=1, speaker=1)
    assert torch.equal(one, other)


def test_frames_belong_to_symbols_as_numpy_repeats_them():
    durations = torch.tensor([[2, 1, 0, 3], [1, 4, 0, 0]])
    expected = [np.repeat(np.arange(4), row).tolist() for row in durations.numpy()]
    found = owners(durations, 6).tolist()
    assert found[0] == expected[0]
    assert found[1][:5] == expected[1]
    # A frame past the end belongs to the last column, which exists; it is masked later.
    assert found[1][5] == 3


def test_statistics_are_repeated_for_each_frame_of_their_symbol():
    statistics = torch.randn(2, 5, 4)
    durations = torch.tensor([[2, 1, 1, 3], [1, 4, 1, 1]])
    expanded = expand(statistics, durations, 7)
    for row in range(2):
        expected = np.repeat(statistics[row].numpy(), durations[row].numpy(), axis=1)
        assert np.array_equal(expanded[row].numpy(), expected)
