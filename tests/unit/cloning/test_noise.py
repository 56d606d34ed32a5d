"""Noise by seed and place."""

import torch

from cloning.noise import normal


def test_every_value_follows_from_its_seed_and_place_alone() -> None:
    seeds, first = torch.tensor([3, 9, 3]), torch.tensor([0, 0, 40])
    whole = normal(seeds, first, 7, 100)
    assert torch.equal(normal(seeds[1:2], first[1:2] + 60, 7, 40), whole[1:2, :, 60:])
    assert torch.equal(whole[2, :, :60], whole[0, :, 40:])
    assert not torch.equal(whole[0], whole[1])


def test_it_is_normal_and_its_values_know_nothing_of_each_other() -> None:
    x = normal(torch.tensor([0, 1, 2**63 - 1]), torch.zeros(3, dtype=torch.long), 192, 2000)
    values = x.flatten().sort().values
    expected = torch.distributions.Normal(0.0, 1.0).cdf(values)
    # Kolmogorov and Smirnov's distance, at the limit of one chance in a million.
    distance = (expected - torch.linspace(0, 1, len(values))).abs().max() * len(values) ** 0.5
    assert distance < 2.7
    for a, b in ((x[:, :, 1:], x[:, :, :-1]), (x[:, 1:], x[:, :-1]), (x[1:], x[:-1])):
        assert abs((a * b).mean()) * a.numel() ** 0.5 < 5


def test_channels_lie_next_to_each_other_in_memory() -> None:
    assert normal(torch.tensor([1]), torch.tensor([0]), 4, 6).transpose(1, 2).is_contiguous()
