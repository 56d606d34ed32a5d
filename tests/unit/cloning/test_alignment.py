"""Which frames belong to which symbol."""

import torch
from torch.distributions import Normal

from cloning.alignment import log_likelihood, search


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_the_score_is_the_log_density_less_a_constant():
    z_p, m_p, logs_p = drawn(2, 5, 7), drawn(2, 5, 4, seed=1), 0.3 * drawn(2, 5, 4, seed=2)
    density = Normal(m_p[:, :, None], logs_p.exp()[:, :, None]).log_prob(z_p[:, :, :, None]).sum(1)
    difference = density - log_likelihood(z_p, m_p, logs_p)
    torch.testing.assert_close(difference, difference[0, 0, 0].expand_as(difference), atol=1e-4, rtol=1e-4)


def test_latents_that_sit_on_their_symbols_are_found():
    wanted = torch.tensor([[3, 1, 4, 2], [1, 6, 1, 0]])
    m_p = 4 * drawn(2, 6, 4)
    z_p = torch.zeros(2, 6, 10)
    for row in range(2):
        z_p[row, :, : wanted[row].sum()] = m_p[row].repeat_interleave(wanted[row], 1)
    score = log_likelihood(z_p, m_p, torch.zeros_like(m_p))
    assert torch.equal(search(score, torch.tensor([4, 3]), torch.tensor([10, 8])), wanted)


def test_padding_with_the_best_scores_tempts_nobody():
    score = drawn(1, 8, 5)
    alone = search(score[:, :6, :3].contiguous(), torch.tensor([3]), torch.tensor([6]))
    score[:, 6:], score[:, :, 3:] = 1e6, 1e6
    padded = search(score, torch.tensor([3]), torch.tensor([6]))
    assert torch.equal(padded[:, :3], alone)
    assert (padded[:, 3:] == 0).all()


def test_one_symbol_gets_all_frames_and_as_many_frames_as_symbols_get_one_each():
    assert search(drawn(1, 5, 1), torch.tensor([1]), torch.tensor([5])).tolist() == [[5]]
    assert search(drawn(1, 4, 4), torch.tensor([4]), torch.tensor([4])).tolist() == [[1, 1, 1, 1]]
