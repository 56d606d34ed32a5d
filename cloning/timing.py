"""When each sound of a sentence is heard: the durations, after edges were cut and pauses put in."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from cloning.types import IntArray, SpokenText, SpokenWord, TimedSentence, TimedSound, TimedWord

_At = Callable[[int], int]


def timed(text: SpokenText, durations: IntArray, hop_length: int, origin: int, heard: tuple[int, int]) -> TimedSentence:
    """The sentence in samples of its speech.

    `origin` is where the network's first sample lies in the speech, `heard` what is left of the sentence there, half
    open and without the pause after it: what was cut off lasts no time.
    Shapes: durations int64 (T_text,) frames.
    """
    borders = np.concatenate([[0], np.cumsum(durations)]) * hop_length + origin
    borders = np.clip(borders, *heard)
    words = tuple(_word(word, lambda index: int(borders[index])) for word in text.words)
    return TimedSentence(text.place, *heard, words)


def _word(word: SpokenWord, at: _At) -> TimedWord:
    # Inside a word a sound lasts until the next one begins: blanks and gaps between them are heard as part of it.
    firsts = [index for index, _ in word.sounds]
    borders = [at(index) for index in (*firsts, firsts[-1] + 1)]
    sounds = tuple(
        TimedSound(symbol, start, stop)
        for (_, symbol), (start, stop) in zip(word.sounds, pairwise(borders), strict=True)
    )
    return TimedWord(word.text, word.place, borders[0], borders[-1], sounds)
