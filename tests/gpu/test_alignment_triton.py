"""Alignment search on the GPU against the one on the CPU."""

import pytest
import torch

from cloning.alignment import search

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device: the Triton kernel cannot run here"),
]


@pytest.mark.parametrize(("n_rows", "n_frames", "n_symbols"), [(1, 1, 1), (3, 9, 4), (5, 64, 33), (4, 700, 210)])
def test_the_kernel_finds_the_paths_of_the_plain_search(n_rows, n_frames, n_symbols):
    generator = torch.Generator().manual_seed(n_frames)
    score = torch.randn(n_rows, n_frames, n_symbols, generator=generator)
    symbols = torch.randint(1, n_symbols + 1, (n_rows,), generator=generator)
    frames = torch.maximum(torch.randint(1, n_frames + 1, (n_rows,), generator=generator), symbols)
    symbols[0], frames[0] = n_symbols, n_frames
    found = search(score.cuda(), symbols.cuda(), frames.cuda()).cpu()
    assert torch.equal(found, search(score, symbols, frames))
    assert torch.equal(found.sum(1), frames)


def test_a_score_that_is_a_view_is_read_right():
    score = torch.randn(2, 8, 20, generator=torch.Generator().manual_seed(1)).transpose(1, 2)
    symbols, frames = torch.tensor([8, 5]), torch.tensor([20, 11])
    found = search(score.cuda(), symbols.cuda(), frames.cuda()).cpu()
    assert torch.equal(found, search(score, symbols, frames))
