"""Parts of sentences: pure arithmetic, over all lengths."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cloning.engines.windows import Span, durations_within, next_span, widened


def spans(n_frames: int, first: int, most: int) -> list[Span]:
    found = [next_span(None, n_frames, first, most)]
    while found[-1].stop < n_frames:
        found.append(next_span(found[-1], n_frames, first, most))
    return found


@given(st.integers(1, 5000), st.integers(1, 200), st.integers(0, 400))
def test_parts_cover_a_sentence_once_and_grow(n_frames: int, first: int, more: int) -> None:
    found = spans(n_frames, first, first + more)
    assert [s.stop for s in found[:-1]] == [s.start for s in found[1:]]
    assert (found[0].start, found[-1].stop) == (0, n_frames)
    lengths = [s.n_frames for s in found]
    assert min(lengths) > 0
    assert lengths[0] <= 1.5 * first
    assert all(b <= 3 * a for a, b in pairwise(lengths))
    assert max(lengths) < 1.5 * (first + more)


@given(st.data(), st.integers(1, 3000), st.integers(0, 60))
def test_a_window_reaches_far_enough_and_never_beyond_the_sentence(
    data: st.DataObject, n_frames: int, reach: int
) -> None:
    start = data.draw(st.integers(0, n_frames - 1))
    span = Span(start, data.draw(st.integers(start + 1, n_frames)))
    window = widened(span, n_frames, reach)
    needed = {i + d for i in (span.start, span.stop - 1) for d in (-reach, 0, reach)} & set(range(n_frames))
    assert needed <= set(range(window.start, window.stop)) <= set(range(n_frames))
    assert window.n_frames <= span.n_frames + 2 * reach


@given(st.lists(st.integers(0, 9), min_size=1, max_size=40), st.data())
def test_durations_within_a_window_are_those_of_its_frames(durations: list[int], data: st.DataObject) -> None:
    owners = np.repeat(np.arange(len(durations)), durations)
    start = data.draw(st.integers(0, len(owners)))
    span = Span(start, data.draw(st.integers(start, len(owners))))
    inside = durations_within(np.array(durations), span)
    assert np.array_equal(np.repeat(np.arange(len(durations)), inside), owners[span.start : span.stop])
