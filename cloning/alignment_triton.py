"""Monotonic alignment search on the GPU: one program for each utterance keeps a whole column in registers."""

# The kernel is Triton's language in Python's clothes: its values have no Python types and its arguments are pointers.
# mypy: disable-error-code="untyped-decorator, no-untyped-def, attr-defined"

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _search_kernel(  # noqa: PLR0913, PLR0917  # a kernel takes each pointer and size by itself
    score, moves, durations, n_symbols, n_frames, max_frames, max_symbols, WIDTH: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    score_row = score + row * max_frames * max_symbols
    moves_row = moves + row * max_frames * WIDTH
    durations_row = durations + row * max_symbols
    last = tl.load(n_symbols + row).to(tl.int32) - 1
    frames = tl.load(n_frames + row).to(tl.int32)
    symbol = tl.arange(0, WIDTH)
    neighbour = tl.maximum(symbol - 1, 0)
    inside = symbol <= last
    best = tl.where(symbol == 0, tl.load(score_row), -1e9)
    for frame in range(1, frames):
        before = tl.where(symbol == 0, -1e9, tl.gather(best, neighbour, 0))
        moved = before > best
        tl.store(moves_row + frame * WIDTH + symbol, moved.to(tl.int8))
        here = tl.load(score_row + frame * max_symbols + symbol, mask=inside, other=0.0)
        best = tl.where(inside, tl.maximum(before, best) + here, -1e9)
    # The moves were written by all threads of this program and are read back by each of them.
    tl.debug_barrier()
    at = last
    run = 0
    for back in range(1, frames):
        frame = frames - back
        run += 1
        if tl.load(moves_row + frame * WIDTH + at) == 1:
            tl.store(durations_row + at, run.to(tl.int64))
            at -= 1
            run = 0
    tl.store(durations_row + at, (run + 1).to(tl.int64))


def search_on_gpu(score: Tensor, n_symbols: Tensor, n_frames: Tensor) -> Tensor:
    """Frames for each symbol. Shapes: score float32 (B, T, T_text), counts int64 (B,) -> int64 (B, T_text)."""
    b, t, width = score.shape
    block = max(32, triton.next_power_of_2(width))
    moves = torch.empty(b, t, block, dtype=torch.int8, device=score.device)
    durations = torch.zeros(b, width, dtype=torch.long, device=score.device)
    _search_kernel[(b,)](
        score.contiguous(), moves, durations, n_symbols.contiguous(), n_frames.contiguous(), t, width,
        WIDTH=block, num_warps=1,
    )  # fmt: skip
    return durations
