"""The flow between latents and prior."""

import torch
from network_samples import restless, small_voice

from cloning.flow import Flow
from cloning.layers.convolutions import sequence_mask
from cloning.posterior import PosteriorEncoder, sample

CONFIG = small_voice().flow


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_a_new_flow_moves_nothing_but_the_order_of_channels():
    flow, x = Flow(6, 4, CONFIG), drawn(1, 6, 5)
    y = flow(x, torch.ones(1, 1, 5), drawn(1, 4))
    assert torch.equal(y, x)  # Two couplings turn the channels around twice.


def test_the_flow_preserves_volume():
    flow, g, mask = restless(Flow(4, 3, CONFIG)), drawn(1, 3), torch.ones(1, 1, 3)
    jacobian = torch.autograd.functional.jacobian(lambda x: flow(x.view(1, 4, 3), mask, g).flatten(), drawn(12))
    assert abs(torch.linalg.det(jacobian.double()).abs().item() - 1) < 1e-4
    assert (jacobian - torch.eye(12)).abs().max() > 0.1


def test_the_speaker_changes_what_the_flow_does():
    flow, x, mask = restless(Flow(6, 4, CONFIG)), drawn(1, 6, 5), torch.ones(1, 1, 5)
    assert (flow(x, mask, drawn(1, 4)) - flow(x, mask, drawn(1, 4, seed=1))).abs().max() > 0.1


def test_padding_is_not_read_in_either_direction():
    flow, x, g = restless(Flow(6, 4, CONFIG)), drawn(1, 6, 9), drawn(1, 4)
    mask = sequence_mask(torch.tensor([5]), 9)
    for reverse in (False, True):
        alone = flow(x[:, :, :5], torch.ones(1, 1, 5), g, reverse)
        torch.testing.assert_close(flow(x * mask, mask, g, reverse)[:, :, :5], alone, atol=1e-5, rtol=1e-4)


def test_the_posterior_reads_its_own_frames_and_speaker_only():
    network = restless(PosteriorEncoder(9, 6, 4, small_voice().posterior))
    spec, g, mask = drawn(1, 9, 8), drawn(1, 4), sequence_mask(torch.tensor([5]), 8)
    alone = network(spec[:, :, :5], torch.ones(1, 1, 5), g)
    for long, short in zip(network(spec, mask, g), alone, strict=True):
        torch.testing.assert_close(long[:, :, :5], short, atol=1e-5, rtol=1e-4)
        assert (long[:, :, 5:] == 0).all()
    of_another, _ = network(spec, mask, drawn(1, 4, seed=1))
    assert (of_another[:, :, :5] - alone[0]).abs().max() > 0.01


def test_a_sample_has_the_mean_and_spread_asked_for():
    m, logs = torch.full((1, 1, 20000), 2.0), torch.full((1, 1, 20000), -1.0)
    torch.manual_seed(0)
    z = sample(m, logs, torch.ones(1, 1, 20000))
    assert abs(z.mean().item() - 2) < 0.02
    assert abs(z.std().log().item() + 1) < 0.02
    assert torch.equal(sample(m, logs, torch.ones(1, 1, 20000), torch.zeros_like(m)), m)
