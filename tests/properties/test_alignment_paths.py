"""Monotonic alignment search against every monotonic path there is."""

from itertools import combinations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cloning.alignment import search


def every_path(n_symbols: int, n_frames: int) -> list[list[int]]:
    """All ways to give n frames to the symbols in order, at least one to each."""
    borders = combinations(range(1, n_frames), n_symbols - 1)
    return [[b - a for a, b in zip((0, *cut), (*cut, n_frames), strict=True)] for cut in borders]


def total(score: torch.Tensor, durations: list[int]) -> float:
    owner = torch.repeat_interleave(torch.arange(len(durations)), torch.tensor(durations))
    return float(score[torch.arange(len(owner)), owner].double().sum())


@st.composite
def batches(draw: st.DrawFn) -> tuple[torch.Tensor, list[int], list[int]]:
    n_frames = draw(st.lists(st.integers(1, 8), min_size=1, max_size=3))
    n_symbols = [draw(st.integers(1, n)) for n in n_frames]
    seed = draw(st.integers(0, 2**31))
    width = max(n_symbols) + draw(st.integers(0, 2))
    score = torch.randn(len(n_frames), max(n_frames), width, generator=torch.Generator().manual_seed(seed))
    # Whole numbers make ties, where any of the best paths is right.
    return (score.round() if draw(st.booleans()) else score * 10), n_symbols, n_frames


@settings(max_examples=150, deadline=None)
@given(batches())
def test_no_monotonic_path_is_better_and_the_frames_add_up(batch):
    score, n_symbols, n_frames = batch
    found = search(score, torch.tensor(n_symbols), torch.tensor(n_frames))
    for row, (n, t) in enumerate(zip(n_symbols, n_frames, strict=True)):
        durations = found[row].tolist()
        assert sum(durations) == t
        assert min(durations[:n]) >= 1
        assert not any(durations[n:])
        best = max(total(score[row], path) for path in every_path(n, t))
        assert abs(total(score[row], durations[:n]) - best) < 1e-3
