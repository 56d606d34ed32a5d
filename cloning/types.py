"""Data that the cloning room takes and gives; all of it frozen."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class AudioConfig:
    """Frames and samples of a voice; each derived value divides exactly."""

    sample_rate: int
    n_fft: int
    win_length: int
    hop_length: int

    def __post_init__(self) -> None:
        if min(self.sample_rate, self.n_fft, self.win_length, self.hop_length) <= 0:
            raise ValueError(f"audio configuration must be positive: {self}")
        if self.n_fft % self.hop_length or self.win_length > self.n_fft:
            raise ValueError(f"n_fft must be a multiple of hop_length and no shorter than win_length: {self}")

    @property
    def n_bins(self) -> int:
        return self.n_fft // 2 + 1

    @property
    def frame_s(self) -> float:
        return self.hop_length / self.sample_rate


@dataclass(frozen=True, slots=True)
class SpeechOptions:
    """How a sentence is spoken. None leaves the voice's own default; `length_scale` 2 is half as fast."""

    noise_scale: float | None = None
    noise_scale_dp: float | None = None
    length_scale: float = 1.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class SpeechRequest:
    """One text for one voice. Shapes: d_vector float32 (d,), L2 norm 1.

    `lexicon` maps words (any case) to how they are said: IPA between slashes (`/təˈmɑtoʊ/`) or a respelling. `voices`
    has the vectors of those whom the text's `<voice>` elements name.
    """

    text: str
    d_vector: FloatArray
    encoder_id: str
    language: str | None = None
    options: SpeechOptions = SpeechOptions()
    lexicon: Mapping[str, str] = field(default_factory=dict)
    voices: Mapping[str, FloatArray] = field(default_factory=dict)
    deadline_s: float | None = None
    priority: int = 0
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class Spelling:
    """What a voice that is spelt to wants around and between characters, and how text is cleaned before; "" is nothing.

    `blank` stands before, between and after all characters. `cleaner`: `fold-case` makes small letters, `plain-marks`
    leaves only plain marks, `plain-lower` does both.
    """

    blank: str = ""
    start: str = ""
    end: str = ""
    cleaner: Literal["none", "fold-case", "plain-marks", "plain-lower"] = "none"


@dataclass(frozen=True, slots=True)
class SpokenWord:
    """What is read of one writing: `text` is how, `sounds` its symbols with their index among the sentence's ids.

    `place` is the writing in the text that was sent, half open, in code points; it is empty for a word that stands
    nowhere in it.
    """

    text: str
    sounds: tuple[tuple[int, str], ...]
    place: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class SpokenText:
    """The text front end's result for one sentence: what goes to the network, and where it came from.

    `token_ids` int64 (T_text,); `pause_after_s` is silence that follows the sentence; `skipped` are
    characters that no reading was found for; `place` is as that of a word, with the marks around it. `rate` 2 is
    twice as fast as asked for otherwise; `voice` names another speaker than the text's own.
    """

    text: str
    token_ids: tuple[int, ...]
    pause_after_s: float
    skipped: tuple[str, ...] = ()
    words: tuple[SpokenWord, ...] = ()
    place: tuple[int, int] = (0, 0)
    rate: float = 1.0
    voice: str | None = None


@dataclass(frozen=True, slots=True)
class Sentence:
    """The unit of work of the scheduler. Shapes: token_ids int64 (T_text,), d_vector float32 (d,).

    Between those of equal `priority` each `tenant` has an equal share of the engine.
    """

    token_ids: IntArray
    d_vector: FloatArray
    language_id: int
    options: SpeechOptions
    deadline_s: float | None = None
    priority: int = 0
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class TimedSound:
    """A sound and when it is heard: samples from the start of the whole speech, half open."""

    symbol: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class TimedWord:
    """A writing of the text and when it is heard. `read`, `place` and `sounds` are as in `SpokenWord`."""

    read: str
    place: tuple[int, int]
    start: int
    stop: int
    sounds: tuple[TimedSound, ...]


@dataclass(frozen=True, slots=True)
class TimedSentence:
    """A sentence and when it is heard, without the pause after it."""

    place: tuple[int, int]
    start: int
    stop: int
    words: tuple[TimedWord, ...]


@dataclass(frozen=True, slots=True)
class Speech:
    """A speech or a piece of one, as it comes.

    Shapes: samples float32 (n,) in [-1, 1]; durations int64 (T_text,) frames, of all sentences in order.
    `pause_s` is how much of it is silence that was put between and after sentences. `n_slowed` is for how many symbols
    more it takes, by the text's own rates. `sentences` are those that end in this piece; their times count from the
    start of the whole speech.
    """

    samples: FloatArray
    sample_rate: int
    durations: IntArray
    n_sentences: int = 1
    skipped: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    pause_s: float = 0.0
    n_slowed: float = 0.0
    sentences: tuple[TimedSentence, ...] = ()

    @property
    def duration_s(self) -> float:
        return len(self.samples) / self.sample_rate
