"""A spoken piece as the bytes of its file: a line of JSON with its times, then its samples in 16 bits."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from api.audio_out import to_int16
from cloning.types import FloatArray, Speech, TimedSentence, TimedSound, TimedWord

_Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class SoundPiece:
    """A piece as it is heard. Shapes: samples float32 (n,) in [-1, 1].

    Times count from its first sample, places from its first character.
    """

    samples: FloatArray
    sentences: tuple[TimedSentence, ...]


def sound_of(speech: Speech, pause_s: float) -> SoundPiece:
    """The speech with the silence after it."""
    pause = np.zeros(round(pause_s * speech.sample_rate), np.float32)
    return SoundPiece(np.concatenate([speech.samples, pause]), speech.sentences)


def packed(piece: SoundPiece) -> bytes:
    """The bytes of its file."""
    sentences = [_sentence_row(sentence) for sentence in piece.sentences]
    return json.dumps(sentences, ensure_ascii=False).encode() + b"\n" + to_int16(piece.samples).tobytes()


def unpacked(data: bytes, with_times: bool = True) -> SoundPiece:
    """What `packed` was given, its samples rounded to 16 bits."""
    end = data.index(b"\n")
    samples = np.frombuffer(data, "<i2", offset=end + 1).astype(np.float32) / np.float32(32768)
    rows: Sequence[Any] = json.loads(data[:end]) if with_times else ()
    return SoundPiece(samples, tuple(_sentence(row) for row in rows))


def shifted(sentence: TimedSentence, n_samples: int, n_chars: int) -> TimedSentence:
    """The sentence as it stands in the whole: so many samples later, so many characters on."""
    words = tuple(
        TimedWord(
            word.read,
            _on(word.place, n_chars),
            word.start + n_samples,
            word.stop + n_samples,
            tuple(TimedSound(each.symbol, each.start + n_samples, each.stop + n_samples) for each in word.sounds),
        )
        for word in sentence.words
    )
    return TimedSentence(_on(sentence.place, n_chars), sentence.start + n_samples, sentence.stop + n_samples, words)


def _on(place: _Place, n_chars: int) -> _Place:
    return place[0] + n_chars, place[1] + n_chars


def _sentence_row(sentence: TimedSentence) -> list[object]:
    words = [
        [word.read, *word.place, word.start, word.stop, [[each.symbol, each.start, each.stop] for each in word.sounds]]
        for word in sentence.words
    ]
    return [*sentence.place, sentence.start, sentence.stop, words]


def _sentence(row: Any) -> TimedSentence:
    first, stop_char, start, stop, words = row
    return TimedSentence((first, stop_char), start, stop, tuple(map(_word, words)))


def _word(row: Any) -> TimedWord:
    read, start_char, stop_char, start, stop, sounds = row
    return TimedWord(read, (start_char, stop_char), start, stop, tuple(TimedSound(*sound) for sound in sounds))
