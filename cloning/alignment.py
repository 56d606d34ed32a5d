"""Monotonic alignment search: which frames belong to which symbol, by dynamic programming.

Source: Glow-TTS (Kim et al. 2020), algorithm 1.
"""

import torch
from torch import Tensor

IMPOSSIBLE = -1e9


def log_likelihood(z_p: Tensor, m_p: Tensor, logs_p: Tensor) -> Tensor:
    """Log density of every frame under every symbol's prior, less a constant.

    Shapes: z_p (B, C, T), m_p and logs_p (B, C, T_text), all float32 -> float32 (B, T, T_text).
    """
    precision = (-2 * logs_p).exp()
    frames = z_p.transpose(1, 2)
    score = frames @ (m_p * precision) - 0.5 * frames.square() @ precision
    return score - (0.5 * m_p.square() * precision + logs_p).sum(1, keepdim=True)


def search(score: Tensor, n_symbols: Tensor, n_frames: Tensor) -> Tensor:
    """Frames for each symbol on the most likely monotonic path; each symbol gets at least one.

    Shapes: score float32 (B, T, T_text), n_symbols and n_frames int64 (B,) -> int64 (B, T_text), sums n_frames.
    """
    if score.is_cuda:
        from cloning.alignment_triton import search_on_gpu

        return search_on_gpu(score, n_symbols, n_frames)
    return _trace_back(_moves(score, n_symbols), n_symbols, n_frames)


def _moves(score: Tensor, n_symbols: Tensor) -> Tensor:
    """Whether the best path into (frame, symbol) came from the symbol before. Shapes: -> bool (B, T, T_text)."""
    b, t, width = score.shape
    inside = torch.arange(width, device=score.device)[None] < n_symbols[:, None]
    best = torch.full((b, width), IMPOSSIBLE, device=score.device)
    best[:, 0] = score[:, 0, 0]
    moves = torch.zeros(b, t, width, dtype=torch.bool, device=score.device)
    for frame in range(1, t):
        before = torch.cat([best.new_full((b, 1), IMPOSSIBLE), best[:, :-1]], 1)
        moves[:, frame] = before > best
        best = torch.where(inside, torch.maximum(before, best) + score[:, frame], IMPOSSIBLE)
    return moves


def _trace_back(moves: Tensor, n_symbols: Tensor, n_frames: Tensor) -> Tensor:
    b, t, width = moves.shape
    rows, at = torch.arange(b, device=moves.device), n_symbols - 1
    durations = torch.zeros(b, width, dtype=torch.long, device=moves.device)
    for frame in range(t - 1, -1, -1):
        live = frame < n_frames
        durations[rows, at] += live.long()
        at = at - (live & moves[rows, frame, at]).long()
    return durations
