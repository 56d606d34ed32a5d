"""Duration predictors: whole frames, and a likelihood that is one."""

import math

import pytest
import torch
from network_samples import DURATIONS, PLAIN, STOCHASTIC, restless

from cloning.durations import PlainDurations, SplineCoupling, StochasticDurations, build_durations, whole_frames
from cloning.layers.convolutions import sequence_mask

HIDDEN, G_WIDTH, WIDTH = 10, 6, 9
LENGTHS = torch.tensor([9, 5])
ONES = torch.ones(2)


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def given(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return drawn(2, HIDDEN, WIDTH, seed=seed), sequence_mask(LENGTHS, WIDTH), drawn(2, G_WIDTH, seed=seed + 1)


def stochastic(seed: int = 0, spread: float = 0.5) -> StochasticDurations:
    """A wider spread makes slopes so steep that single precision, not the algorithm, is what a test would see."""
    return restless(StochasticDurations(HIDDEN, G_WIDTH, STOCHASTIC), seed, spread)


@pytest.mark.parametrize("kind", ["plain", "stochastic"])
@pytest.mark.parametrize("scale", [1.0, 1e-6, 3.0])
def test_each_symbol_gets_at_least_one_frame_and_padding_none(kind, scale):
    network = restless(build_durations(HIDDEN, G_WIDTH, DURATIONS[kind]))
    hidden, mask, g = given()
    frames = network.frames(hidden, mask, g, ONES * scale, drawn(2, 2, WIDTH))
    assert frames.dtype == torch.int64
    inside = mask.squeeze(1) == 1
    assert (frames[inside] >= 1).all()
    assert (frames[~inside] == 0).all()


@pytest.mark.parametrize("kind", ["plain", "stochastic"])
def test_padding_and_neighbours_do_not_change_a_row(kind):
    network = restless(build_durations(HIDDEN, G_WIDTH, DURATIONS[kind]))
    (hidden, mask, g), noise = given(), drawn(2, 2, WIDTH)
    together = network.frames(hidden, mask, g, ONES * 4, noise)[1:, :5]
    alone = network.frames(hidden[1:, :, :5], mask[1:, :, :5], g[1:], ONES[1:] * 4, noise[1:, :, :5])
    assert torch.equal(together, alone)


@pytest.mark.parametrize("kind", ["plain", "stochastic"])
def test_the_speaker_changes_the_rhythm(kind):
    network = restless(build_durations(HIDDEN, G_WIDTH, DURATIONS[kind]))
    (hidden, mask, g), noise = given(), drawn(2, 2, WIDTH)
    one, other = (network.frames(hidden, mask, of, ONES * 20, noise) for of in (g, g.flip(0)))
    assert not torch.equal(one, other)


def test_plain_durations_do_not_read_the_noise_and_stochastic_ones_do():
    (hidden, mask, g), noise = given(), drawn(2, 2, WIDTH)
    for kind, same in ((PLAIN, True), (STOCHASTIC, False)):
        network = restless(build_durations(HIDDEN, G_WIDTH, kind))
        one, again, other = (network.frames(hidden, mask, g, ONES * 20, n) for n in (noise, noise, -noise))
        assert torch.equal(one, again)
        assert torch.equal(one, other) is same


def test_the_plain_loss_is_the_squared_error_of_log_frames():
    network = restless(PlainDurations(HIDDEN, G_WIDTH, PLAIN))
    hidden, mask, g = given()
    frames = torch.arange(1, 2 * WIDTH + 1).view(2, WIDTH)
    loss = network.loss(hidden, mask, g, frames)
    torch.testing.assert_close(loss, (network(hidden, mask, g) - frames.log()).square() * mask.squeeze(1))
    assert (loss[1, 5:] == 0).all()


def test_whole_frames_stay_countable_whatever_the_network_says():
    frames = whole_frames(torch.tensor([[0.0, 3.0, 1e30, math.inf]]), torch.ones(1, 1, 4))
    assert frames.tolist() == [[1, 3, 10**6, 10**6]]


def test_a_spline_coupling_undoes_itself():
    coupling = restless(SplineCoupling(STOCHASTIC))
    mask = sequence_mask(torch.tensor([40, 25]), 40)
    x, condition = 2 * drawn(2, 2, 40) * mask, drawn(2, STOCHASTIC.filter, 40, seed=1)
    y, log_slope = coupling(x, mask, condition)
    back, log_slope_back = coupling(y, mask, condition, reverse=True)
    torch.testing.assert_close(back, x, atol=1e-4, rtol=0)
    torch.testing.assert_close(log_slope_back, -log_slope, atol=1e-3, rtol=0)
    assert (y - x).abs().max() > 0.1
    assert (log_slope[1, 25:] == 0).all()


def test_the_duration_flow_undoes_the_channel_that_is_read():
    network, (hidden, mask, g) = stochastic(), given()
    text = network.text(hidden, mask, network.condition(g)[:, :, None])
    x = 2 * drawn(2, 2, WIDTH, seed=2) * mask
    z, _ = network.flow(x, mask, text)
    torch.testing.assert_close(network.flow.undo_first(z, mask, text), x[:, 0], atol=1e-4, rtol=0)


def test_the_log_determinant_is_that_of_the_whole_flow():
    network, (hidden, mask, g) = stochastic(), given()
    text = network.text(hidden, mask, network.condition(g)[:, :, None])[:1, :, :1].expand(1, -1, 3)
    x, ones = drawn(1, 2, 3, seed=2), torch.ones(1, 1, 3)
    jacobian = torch.autograd.functional.jacobian(lambda v: network.flow(v.view(1, 2, 3), ones, text)[0].flatten(), x)
    _, log_determinant = torch.linalg.slogdet(jacobian.view(6, 6).double())
    _, claimed = network.flow(x, ones, text)
    assert claimed.sum().item() == pytest.approx(log_determinant.item(), abs=1e-3)


def probabilities(network: StochasticDurations, longest: int, n_draws: int = 3000) -> torch.Tensor:
    """P(d) of a one-symbol text for d = 1 .. longest: the mean of exp(-loss) has the likelihood as its expectation."""
    # A posterior that reaches well into the corners keeps the variance of that mean finite in practice.
    restless(network.posterior, seed=9, spread=0.2).log_scale.fill_(0.7)
    torch.manual_seed(0)
    n = n_draws * longest
    hidden, g = drawn(1, HIDDEN, 1).expand(n, -1, -1), drawn(1, G_WIDTH, seed=1).expand(n, -1)
    frames = torch.arange(1, longest + 1).repeat_interleave(n_draws)[:, None]
    return (-network.loss(hidden, torch.ones(n, 1, 1), g, frames)).exp().view(longest, n_draws).mean(1)


def test_a_flow_that_moves_nothing_gives_log_normal_durations():
    network = StochasticDurations(HIDDEN, G_WIDTH, STOCHASTIC).eval().requires_grad_(False)
    slope_of_1 = math.log(math.e - 1)
    for coupling in [*network.flow.couplings, *network.posterior.couplings]:
        coupling.out.bias[2 * STOCHASTIC.n_bins :] = slope_of_1
    found = probabilities(network, longest=6)
    edges = torch.arange(0, 7).double().log()
    expected = torch.distributions.Normal(0.0, 1.0).cdf(edges).diff().float()
    torch.testing.assert_close(found, expected, atol=0, rtol=0.05)


def test_likelihoods_of_all_durations_sum_to_one_and_are_how_often_each_is_drawn():
    network = stochastic(seed=6)
    found = probabilities(network, longest=15)
    n = 10_000
    frames = network.frames(
        drawn(1, HIDDEN, 1).expand(n, -1, -1), torch.ones(n, 1, 1), drawn(1, G_WIDTH, seed=1).expand(n, -1),
        torch.ones(n), torch.randn(n, 2, 1),
    )  # fmt: skip
    shares = torch.bincount(frames.flatten(), minlength=16)[1:16] / n
    assert shares.sum() > 0.98
    assert found.sum().item() == pytest.approx(1.0, abs=0.05)
    torch.testing.assert_close(found, shares, atol=0.03, rtol=0)


def test_the_stochastic_loss_counts_each_symbol_and_no_padding_and_reaches_every_weight():
    network = StochasticDurations(HIDDEN, G_WIDTH, STOCHASTIC)
    hidden, mask, g = given()
    loss = network.loss(hidden, mask, g, torch.full((2, WIDTH), 4))
    assert loss.shape == (2, WIDTH)
    assert (loss[1, 5:] == 0).all()
    assert loss.isfinite().all()
    loss.sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())


def test_training_makes_seen_durations_likely():
    torch.manual_seed(0)
    network = StochasticDurations(HIDDEN, G_WIDTH, STOCHASTIC)
    hidden, mask, g = drawn(1, HIDDEN, 2).expand(32, -1, -1), torch.ones(32, 1, 2), torch.zeros(32, G_WIDTH)
    optimiser = torch.optim.Adam(network.parameters(), 1e-2)
    for _ in range(50):
        seen = torch.stack([torch.randint(3, 5, (32,)), torch.randint(11, 14, (32,))], 1)
        optimiser.zero_grad()
        network.loss(hidden, mask, g, seen).mean().backward()
        optimiser.step()
    frames = network.eval().frames(hidden, mask, g, torch.ones(32), torch.randn(32, 2, 2)).float().median(0).values
    assert 3 <= frames[0] <= 4
    assert 10 <= frames[1] <= 14
