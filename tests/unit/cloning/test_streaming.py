"""Joining sentences: nothing is invented, nothing is lost."""

import numpy as np
import pytest

from cloning.errors import SynthesisFailed
from cloning.streaming import FADE_S, LEAD_S, TAIL_S, finish_sentence, join
from cloning.types import Speech

RATE = 24000


def tone(seconds: float, level: float = 0.3) -> np.ndarray:
    return (level * np.sin(np.arange(round(seconds * RATE)) * 0.1)).astype(np.float32)


def hush(seconds: float) -> np.ndarray:
    return np.full(round(seconds * RATE), 1e-5, np.float32)


def test_edges_are_trimmed_to_their_margins() -> None:
    samples = np.concatenate([hush(0.5), tone(1.0), hush(0.8)])
    done = finish_sentence(samples, RATE, 0.0).samples
    assert len(done) / RATE == pytest.approx(LEAD_S + 1.0 + TAIL_S, abs=0.02)


@pytest.mark.parametrize("hiss", [1e-4, 2e-3])
def test_hiss_before_the_speech_is_trimmed_and_a_weak_consonant_is_kept(hiss: float) -> None:
    """As a network makes it: hiss 36 dB under the vowels for a quarter of a second, then an f, then vowels."""
    rng = np.random.default_rng(0)

    def noise(seconds: float, level: float) -> np.ndarray:
        return (level * rng.standard_normal(round(seconds * RATE))).astype(np.float32)

    samples = np.concatenate([noise(0.25, hiss), noise(0.08, 0.012), tone(1.0, 0.1), tone(1.0, 0.3)])
    done = finish_sentence(samples, RATE, 0.0)
    assert done.n_cut / RATE == pytest.approx(0.25 - LEAD_S, abs=0.011)


def test_the_pause_is_exact_whole_samples_of_silence() -> None:
    without = finish_sentence(tone(0.5), RATE, 0.0).samples
    paused = finish_sentence(tone(0.5), RATE, 0.25).samples
    assert len(paused) - len(without) == 6000
    assert not paused[len(without) :].any()


def test_ends_are_faded_so_that_joins_do_not_click() -> None:
    done = finish_sentence(tone(0.5), RATE, 0.0).samples
    assert done[0] == 0 and done[-1] == 0
    assert np.abs(np.diff(done)).max() < 0.05
    middle = slice(round(FADE_S * RATE), -round(FADE_S * RATE))
    assert np.array_equal(done[middle], tone(0.5)[middle])


def test_samples_beyond_full_scale_are_clamped() -> None:
    assert np.abs(finish_sentence(tone(0.5, level=1.7), RATE, 0.0).samples).max() == 1.0


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_numbers_are_refused(value: float) -> None:
    samples = tone(0.5)
    samples[100] = value
    with pytest.raises(SynthesisFailed):
        finish_sentence(samples, RATE, 0.0)


@pytest.mark.parametrize("samples", [np.zeros(RATE, np.float32), hush(1.0), np.zeros(0, np.float32)])
def test_silence_is_refused(samples: np.ndarray) -> None:
    with pytest.raises(SynthesisFailed):
        finish_sentence(samples, RATE, 0.0)


def test_the_given_samples_are_left_alone() -> None:
    samples = tone(0.5, level=1.5)
    before = samples.copy()
    finish_sentence(samples, RATE, 0.1)
    assert np.array_equal(samples, before)


def test_pieces_join_in_order_and_sum_up() -> None:
    pieces = [
        Speech(tone(0.5), RATE, np.array([1, 2]), 1, skipped=("名",), notices=("slow",), pause_s=0.25),
        Speech(tone(0.25), RATE, np.array([3]), 2, skipped=("名", "前"), notices=("slow",), pause_s=0.5),
    ]
    joined = join(pieces)
    assert np.array_equal(joined.samples, np.concatenate([tone(0.5), tone(0.25)]))
    assert joined.durations.tolist() == [1, 2, 3]
    assert (joined.n_sentences, joined.skipped, joined.notices) == (3, ("名", "前"), ("slow",))
    assert joined.pause_s == 0.75
    with pytest.raises(ValueError, match="at least one"):
        join([])
