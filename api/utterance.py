"""A text that grows, spoken slice by slice into one file. Knows nothing of HTTP; its work is for a thread."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np

from api.audio_out import AudioFormat, StreamEncoder, open_stream
from api.interruption import Interruption
from api.jobs_pieces import shifted
from api.jobs_text import spoken_text
from api.metering import Meter
from api.speech import MAX_SEED, Speaking, SpeechOrder, SpokenStream
from cloning.errors import LanguageUnsupported, TextRefused
from cloning.text.growing import pause_between
from cloning.text.markup import lexicon_of
from cloning.text.tags import moved
from cloning.types import FloatArray, TimedSentence

# Seeds of neighbouring slices must not meet those of their sentences, or of a neighbouring seed.
_SEEDS_APART = 1_000_003


@dataclass(frozen=True, slots=True)
class Heard:
    """The next bytes of the file, and the sentences that end in them: their times and places are those of the whole."""

    audio: bytes
    duration_s: float
    sentences: tuple[TimedSentence, ...] = ()


class Utterance:
    """One text of a conversation. `order` says how it is spoken; its text is not read."""

    def __init__(
        self, speaking: Speaking, meter: Meter, order: SpeechOrder, audio: AudioFormat, interruption: Interruption
    ) -> None:
        self.text = ""
        self.sample_rate = 0
        self._speaking, self._meter, self._order, self._audio = speaking, meter, order, audio
        self._interruption = interruption
        self._encoder: StreamEncoder | None = None
        self._n_samples = self._n_slices = 0
        self._last = ""
        self._notices: dict[str, None] = {}

    @property
    def duration_s(self) -> float:
        """How long it is so far."""
        return self._n_samples / self.sample_rate if self.sample_rate else 0.0

    @property
    def notices(self) -> tuple[str, ...]:
        """What a listener should know."""
        return tuple(self._notices)

    def say(self, text: str) -> Generator[Heard, None, None]:
        """Speaks a slice of the text, the next one; nothing where there is nothing to say in it.

        Raises: as `Speaking.stream`, and QuotaExceeded.
        """
        begin, self.text = len(self.text), self.text + text
        try:
            # What speaks of the whole stands in one slice alone.
            self._order = replace(self._order, lexicon={**self._order.lexicon, **lexicon_of(text)})
            text = spoken_text(text)

            with self._meter.charged(len(text)), closing(self._spoken(text)) as spoken:
                self._notices.update(dict.fromkeys(spoken.notices))
                if self._last:
                    yield self._heard(np.zeros(round(pause_between(self._last, text) * self.sample_rate), np.float32))
                self._last = text
                yield from self._pieces(spoken, begin)
        except TextRefused as error:
            if error.code != "nothing_to_say":
                raise moved(error, begin) from None
        except LanguageUnsupported as error:
            if error.details.get("field") != "text":
                raise
            # As in a whole text: what nobody can read is left out, and told.
            self._notices[error.message] = None

    def finish(self) -> bytes:
        """The end of the file; empty where nothing was said."""
        return self._encoder.finish() if self._encoder else b""

    def _spoken(self, text: str) -> SpokenStream:
        order = replace(self._order, text=text, seed=self._seed())
        self._n_slices += 1
        spoken = self._speaking.stream(order, self._interruption)
        # The voice in use may change meanwhile; a file has one voice and one rate.
        self._order = replace(self._order, model=spoken.model)
        if self._encoder is None:
            self.sample_rate = spoken.sample_rate
            self._encoder = open_stream(spoken.sample_rate, self._audio)
        return spoken

    def _seed(self) -> int | None:
        if self._order.seed is None:
            return None
        return (self._order.seed + self._n_slices * _SEEDS_APART) % (MAX_SEED + 1)

    def _pieces(self, spoken: SpokenStream, begin: int) -> Iterator[Heard]:
        start = self._n_samples
        for piece in spoken.pieces:
            sentences = tuple(shifted(sentence, start, begin) for sentence in piece.sentences)
            yield self._heard(piece.samples, sentences)

    def _heard(self, samples: FloatArray, sentences: tuple[TimedSentence, ...] = ()) -> Heard:
        assert self._encoder is not None
        self._n_samples += len(samples)
        return Heard(self._encoder.write(samples), len(samples) / self.sample_rate, sentences)
