"""Parts of a sentence: which frames are spoken together, and which more of them an engine must look at.

Pure arithmetic on frames.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from cloning.types import IntArray

# The silence before a sentence, and what must have been heard of it before its beginning is sure: a shorter first part
# would be waited for in vain, and the second with it.
FIRST_PART_S = 0.45


@dataclass(frozen=True, slots=True)
class Span:
    """Frames `start` to `stop` of a sentence, half open."""

    start: int
    stop: int

    @property
    def n_frames(self) -> int:
        return self.stop - self.start


def first_part_frames(frame_s: float) -> int:
    """How long a first part is: as short as most sentences let their first sound be given."""
    return max(1, round(FIRST_PART_S / frame_s))


def next_span(before: Span | None, n_frames: int, first_frames: int, most_frames: int) -> Span:
    """The part after `before`, or the first one: each twice as long as the one before it, up to a limit.

    The first sounds soon; later ones cost less. A rest shorter than half a part joins the part before it.
    """
    start = before.stop if before else 0
    length = min(2 * before.n_frames, most_frames) if before else first_frames
    rest = n_frames - start
    return Span(start, start + (length if rest >= 1.5 * length else rest))


def widened(span: Span, n_frames: int, reach_frames: int) -> Span:
    """The frames that must be computed for those of `span`: `reach_frames` more on each side.

    Never beyond the sentence, whose ends an engine pads as it does when it computes the whole.
    """
    return Span(max(0, span.start - reach_frames), min(n_frames, span.stop + reach_frames))


def durations_within(durations: IntArray, span: Span) -> IntArray:
    """How many frames of each symbol lie in the span. Shapes: int64 (T_text,) frames -> the same, sums `n_frames`."""
    borders = np.clip(np.concatenate([[0], np.cumsum(durations)]), span.start, span.stop)
    inside: IntArray = np.diff(borders)
    return inside


def divided(span: Span, most_frames: int) -> list[Span]:
    """The span in as few parts as hold at most so many frames, of nearly equal lengths."""
    n_parts = -(-span.n_frames // most_frames)
    borders = [span.start + span.n_frames * i // n_parts for i in range(n_parts + 1)]
    return [Span(a, b) for a, b in pairwise(borders)]
