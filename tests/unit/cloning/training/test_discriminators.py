"""The adversaries and whom they take speech for, on two people who sound quite unlike."""

import torch
from torch import Tensor

from cloning.training.discriminators import DiscriminatorConfig, Discriminators
from cloning.training.losses import discriminator_loss

SMALL = DiscriminatorConfig(period_width=4, spectrum_width=4, periods=(2,), resolutions=((512, 128),))
VECTORS = torch.eye(2, 8)


def judges() -> Discriminators:
    torch.manual_seed(0)
    return Discriminators(SMALL, n_bins=33, n_symbols=4, d_vector=8)


def said(speakers: Tensor) -> Tensor:
    """One person hisses, the other hums. Shapes: int64 (B,) -> float32 (B, 4096)."""
    hiss = 0.3 * torch.randn(len(speakers), 4096)
    hum = torch.sin(0.03 * torch.arange(4096) + 6 * torch.rand(len(speakers), 1))
    return torch.where((speakers == 0)[:, None], hiss, hum)


def test_at_first_all_people_are_alike() -> None:
    heard, audio = judges(), said(torch.tensor([0, 1]))
    for (mine, _), (theirs, _) in zip(heard(audio, VECTORS), heard(audio, VECTORS.flip(0)), strict=True):
        assert torch.equal(mine, theirs)


def test_what_another_would_be_taken_for_is_his_score() -> None:
    heard, audio = judges(), said(torch.tensor([0, 1, 0]))
    for judge in (*heard.periods, *heard.spectra):
        torch.nn.init.normal_(judge.judge.person.weight)
    people = VECTORS[[0, 1, 0]]
    taken = heard.taken_for(heard(audio, people), VECTORS[[1, 0]])
    for other, (score, _) in zip(taken, heard(audio, VECTORS[[1, 0, 0]]), strict=True):
        assert torch.allclose(other, score[:2], atol=1e-5)


def test_judges_learn_who_speaks_from_recordings_that_are_said_to_be_a_strangers() -> None:
    heard = judges()
    optimiser = torch.optim.Adam(heard.parameters(), 2e-3)
    for _ in range(200):
        speakers = torch.arange(8) % 2
        recorded, spoken = said(speakers), torch.zeros(2, 4096)
        judgements = heard(torch.cat([recorded, spoken]), VECTORS[torch.cat([speakers, speakers[:2]])])
        judged, strangers = discriminator_loss(judgements, heard.taken_for(judgements, VECTORS[1 - speakers]), 8)
        optimiser.zero_grad()
        (judged + strangers).backward()
        optimiser.step()
    new = torch.tensor([0, 1, 1, 0])
    with torch.no_grad():
        judgements = heard(said(new), VECTORS[new])
        others = heard.taken_for(judgements, VECTORS[1 - new])
    own = sum(score.mean((1, 2, 3)) for score, _ in judgements)
    strangers = sum(score.mean((1, 2, 3)) for score in others)
    assert (own > strangers + 0.5).all()
