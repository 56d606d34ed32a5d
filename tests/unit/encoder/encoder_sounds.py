"""Sounds that nobody speaks, made here: a dog, a cat, plucked strings, and a band with drums, bass and a lead."""

import numpy as np
from scipy.signal import lfilter

RATE = 16_000
SECONDS = 10


def _empty() -> np.ndarray:
    return np.zeros((SECONDS + 3) * RATE)


def _add(sound: np.ndarray, at_s: float, part: np.ndarray, level: float) -> None:
    start = round(at_s * RATE)
    sound[start : start + len(part)] += level * part / np.abs(part).max()


def _done(sound: np.ndarray, peak: float) -> np.ndarray:
    cut = sound[: SECONDS * RATE]
    return peak * cut / np.abs(cut).max()


def _through_a_throat(sound: np.ndarray, resonances: list[tuple[float, float]]) -> np.ndarray:
    """Resonances in (Hz, Hz of bandwidth), as a throat has them: what a speech detector listens for."""
    for hz, width in resonances:
        radius = np.exp(-np.pi * width / RATE)
        sound = lfilter([1 - radius], [1, -2 * radius * np.cos(2 * np.pi * hz / RATE), radius**2], sound)
    return sound


def _saw(hz: np.ndarray) -> np.ndarray:
    return np.cumsum(hz) / RATE % 1 - 0.5


def dog(pitch_hz: float, n_barks: int) -> np.ndarray:
    """Barks: a fifth of a second each, the pitch rising and falling, half voice and half noise."""
    random, sound = np.random.default_rng(3), _empty()
    for at_s in np.linspace(0.2, 9.2, n_barks):
        at = np.linspace(0, 1, round(random.uniform(0.12, 0.22) * RATE))
        hz = pitch_hz * (0.7 + 0.9 * np.sin(np.pi * at**0.7)) * random.uniform(0.95, 1.05)
        source = _saw(hz) * (1 + 0.3 * random.normal(size=len(at))) + 0.35 * random.normal(size=len(at))
        bark = source * np.minimum(at / 0.08, 1) * (1 - at) ** 1.2
        _add(sound, at_s, _through_a_throat(bark, [(700, 200), (1500, 250), (2600, 400)]), 1.0)
    return _done(sound, 0.5)


def cat() -> np.ndarray:
    """Four long meows."""
    sound = _empty()
    for at_s in (0.5, 3, 6, 8.3):
        at = np.linspace(0, 1, round(0.8 * RATE))
        meow = _through_a_throat(_saw(500 + 250 * np.sin(np.pi * at)), [(1100, 200), (2500, 300)])
        _add(sound, at_s, meow * np.sin(np.pi * at), 1.0)
    return _done(sound, 0.4)


def _string(hz: float, seconds: float) -> np.ndarray:
    """Source: K. Karplus and A. Strong, "Digital Synthesis of Plucked-String and Drum Timbres", 1983."""
    period = round(RATE / hz)
    pluck = np.zeros(round(seconds * RATE))
    pluck[:period] = np.random.default_rng(period).uniform(-1, 1, period)
    return lfilter([1.0], [1.0, *[0.0] * (period - 1), -0.498, -0.498], pluck)


def guitar() -> np.ndarray:
    sound = _empty()
    for step, hz in enumerate([110, 165, 220, 277, 330, 440, 330, 277] * 3):
        _add(sound, step * 0.4, _string(hz, 2), 1.0)
    return _done(sound, 0.5)


def band() -> np.ndarray:
    """Chords of strings, a bass, a drum, a snare, a hi-hat and a bowed lead with vibrato, at 120 beats a minute."""
    random, sound = np.random.default_rng(5), _empty()
    chords = [(220, 262, 330), (175, 220, 262), (262, 330, 392), (196, 247, 294)]
    lead = [440, 523, 494, 440, 392, 440, 349, 330]
    hit, beat = np.arange(RATE // 7) / RATE, np.arange(RATE // 2) / RATE
    for step in range(20):
        at_s, chord = step / 2, chords[step // 4 % 4]
        for index, hz in enumerate(chord):
            _add(sound, at_s + index / 80, _string(hz, 1.5), 0.25)
        _add(sound, at_s, _string(chord[0] / 4, 1.2), 0.5)
        _add(sound, at_s, np.sin(2 * np.pi * (60 * hit + 13 * (1 - np.exp(-30 * hit)))) * np.exp(-25 * hit), 0.8)
        _add(sound, at_s, random.normal(size=len(hit)) * np.exp(-25 * hit), 0.3 * (step % 2))
        for offset_s in (0, 0.25):
            _add(sound, at_s + offset_s, np.diff(random.normal(size=len(hit) + 1)) * np.exp(-80 * hit), 0.12)
        bowed = _saw(lead[step % 8] * (1 + 0.008 * np.sin(2 * np.pi * 5.5 * beat)))
        bowed = _through_a_throat(bowed, [(500, 100), (1200, 150), (2800, 300)])
        _add(sound, at_s, bowed * np.minimum(beat / 0.06, 1) * np.minimum((0.5 - beat) / 0.06, 1), 0.35)
    return _done(sound, 0.5)
