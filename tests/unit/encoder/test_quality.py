import numpy as np
import pytest

from encoder.quality import bandwidth_hz, find_outliers, measure_quality, snr_db, split_voiced, two_voices
from encoder.types import Segment, Waveform

RATE = 16_000


def noise(seconds: float, level: float) -> np.ndarray:
    return (np.random.default_rng(3).normal(size=round(seconds * RATE)) * level).astype(np.float32)


def around(*directions: float, n: int = 6) -> np.ndarray:
    """Unit vectors scattered a little around angles in a plane, inside many dimensions."""
    rng = np.random.default_rng(5)
    vectors = np.zeros((n * len(directions), 32))
    for index, angle in enumerate(np.repeat(directions, n)):
        vectors[index, :2] = np.cos(angle), np.sin(angle)
    vectors += rng.normal(size=vectors.shape) * 0.02
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("ratio_db", [0.0, 10.0, 30.0])
def test_snr_is_that_of_the_mixture(ratio_db):
    pauses, hidden = noise(2, 0.01), noise(3, 0.01)
    speech = np.random.default_rng(4).normal(size=3 * RATE).astype(np.float32) * np.float32(
        0.01 * 10 ** (ratio_db / 20)
    )
    assert snr_db(hidden + speech, pauses) == pytest.approx(ratio_db, abs=0.7)


def test_snr_of_a_clip_without_pauses_is_unknown():
    assert snr_db(noise(3, 0.1), noise(0.1, 0.1)) is None


def test_snr_against_digital_silence_is_finite():
    assert 50 < snr_db(noise(3, 0.1), np.zeros(RATE, np.float32)) < 200


@pytest.mark.parametrize("cut_hz", [3_400, 4_000, 6_000])
def test_bandwidth_ends_where_the_sound_ends(cut_hz):
    spectrum = np.fft.rfft(noise(3, 0.1))
    spectrum[round(cut_hz * 3) :] = 0
    assert bandwidth_hz(np.fft.irfft(spectrum).astype(np.float32), RATE) == pytest.approx(cut_hz, abs=200)


def test_bandwidth_of_full_speech_and_of_next_to_nothing(man):
    assert bandwidth_hz(man, RATE) > 7_000
    assert bandwidth_hz(man[:100], RATE) == 0.0


def test_split_takes_each_sample_once():
    samples = np.arange(100, dtype=np.float32)
    voiced, pauses = split_voiced(samples, [Segment(10, 20), Segment(50, 80)])
    np.testing.assert_array_equal(voiced, [*range(10, 20), *range(50, 80)])
    np.testing.assert_array_equal(pauses, [*range(10), *range(20, 50), *range(80, 100)])


def test_quality_of_a_quiet_recording(man):
    quality = measure_quality(man * np.float32(0.1), np.zeros(0, np.float32), RATE)
    assert quality.level_dbfs == pytest.approx(measure_quality(man, np.zeros(0, np.float32), RATE).level_dbfs - 20)
    assert quality.snr_db is None


def test_two_groups_are_as_far_apart_as_their_directions():
    assert two_voices(around(0.0, 1.2)) == pytest.approx(np.cos(1.2), abs=0.02)
    assert two_voices(around(0.0)) > 0.95
    assert two_voices(around(0.0)[:1]) == 1.0


def test_a_single_odd_partial_is_no_second_voice():
    assert two_voices(np.concatenate([around(0.0, n=10), around(1.4, n=1)])) == 1.0


def test_turns_of_two_people_are_two_voices_and_of_one_are_not(encoder, man, man_again, woman):
    def alike(*pieces: np.ndarray) -> float:
        return two_voices(encoder.analyse([Waveform(np.concatenate(pieces), RATE)])[0].partials)

    s = RATE
    assert alike(man[: 3 * s], woman[: 3 * s], man[3 * s : 6 * s], woman[3 * s : 6 * s]) < 0.7
    assert alike(man[: 4 * s], man_again[: 4 * s], man[4 * s : 8 * s]) > 0.75


def test_outliers_are_named_and_a_pair_has_none():
    assert find_outliers(around(0.0, n=4)) == []
    assert find_outliers(np.concatenate([around(0.0, n=3), around(1.3, n=1)])) == [3]
    assert find_outliers(np.concatenate([around(1.3, n=1), around(0.0, n=5), around(-1.3, n=1)])) == [0, 6]
    assert find_outliers(around(0.0, 1.5, n=1)) == []
