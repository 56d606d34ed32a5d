import pytest
from hypothesis import given
from hypothesis import strategies as st
from resemblyzer import VoiceEncoder

from encoder.partials import HOP_SAMPLES, MIN_COVERAGE, PARTIAL_SAMPLES, STEP_FRAMES, windows

LENGTHS = st.integers(0, 16_000 * 120)


@given(LENGTHS)
def test_windows_cover_the_clip_but_for_a_tail_too_short_to_count(n_samples):
    span = windows(n_samples)
    assert span.starts_frames[0] == 0
    assert {b - a for a, b in zip(span.starts_frames, span.starts_frames[1:], strict=False)} <= {STEP_FRAMES}
    end = span.starts_frames[-1] * HOP_SAMPLES + PARTIAL_SAMPLES
    assert span.padded_samples == max(n_samples, end)
    # What is left out is less than the least coverage of one more window.
    next_start = end - PARTIAL_SAMPLES + STEP_FRAMES * HOP_SAMPLES
    assert n_samples - next_start < MIN_COVERAGE * PARTIAL_SAMPLES


@given(LENGTHS)
def test_windows_are_those_of_resemblyzer(n_samples):
    wav_slices, mel_slices = VoiceEncoder.compute_partial_slices(n_samples, rate=1.3, min_coverage=0.75)
    span = windows(n_samples)
    assert list(span.starts_frames) == [part.start for part in mel_slices]
    assert span.padded_samples == max(n_samples, wav_slices[-1].stop)


def test_a_negative_length_is_refused():
    with pytest.raises(ValueError, match="-1"):
        windows(-1)
