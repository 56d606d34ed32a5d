"""What training minimises, on sounds of which the answer is known."""

import torch
from torch.nn import functional as F

from cloning.training.losses import MEL_RESOLUTIONS, LogMels, mel_loss, movement_loss

RATE = 24000


def sounds() -> torch.Tensor:
    """Noise whose loudness changes quickly. Shapes: float32 (2, 8192)."""
    torch.manual_seed(0)
    loudness = F.interpolate(torch.rand(2, 1, 64), size=8192)[:, 0]
    return 0.1 * torch.randn(2, 8192) * loudness


def test_the_log_mels_of_every_resolution_have_its_bands() -> None:
    mels = LogMels(RATE, MEL_RESOLUTIONS)(sounds())
    assert [m.shape[2] for m in mels] == [n_mels for _, _, n_mels in MEL_RESOLUTIONS]
    assert [m.shape[1] for m in mels] == [8192 // hop + 1 for _, hop, _ in MEL_RESOLUTIONS]


def test_speech_lies_at_no_distance_from_itself() -> None:
    mels = LogMels(RATE, MEL_RESOLUTIONS)(sounds())
    assert mel_loss(mels, mels) == 0 and movement_loss(mels, mels) == 0


def test_the_nearest_guess_of_two_recordings_is_near_but_moves_less_than_either() -> None:
    # Two equally likely recordings: the mean of their log mels is what the mel loss likes best, and too smooth.
    one, other = (m[None] for m in LogMels(RATE, ((1024, 256, 80),))(sounds())[0])
    middle = (one + other) / 2
    assert mel_loss([middle], [one]) < mel_loss([other], [one])
    assert movement_loss([middle], [one]) > 2 * movement_loss([other], [one])


def test_too_much_movement_costs_as_too_little_does() -> None:
    mels = LogMels(RATE, ((1024, 256, 80),))(sounds())[0]
    level = mels.mean((1, 2), keepdim=True)
    less, more = level + 0.5 * (mels - level), level + 2 * (mels - level)
    costs = movement_loss([less], [mels]), movement_loss([more], [mels])
    assert torch.allclose(*costs, rtol=0.1) and costs[0] > 0.5


def test_silence_has_a_cost_that_is_a_number_and_a_gradient() -> None:
    silence = torch.zeros(2, 8192, requires_grad=True)
    mels = LogMels(RATE, MEL_RESOLUTIONS)
    loss = movement_loss(mels(silence), mels(sounds()))
    loss.backward()
    assert silence.grad is not None and torch.isfinite(loss) and torch.isfinite(silence.grad).all()
