"""An order to bytes: spoken and encoded, or, where finished speeches are kept, as they were sent before.

Equal orders at the same time are spoken once. Without kept speeches nothing is shared: everybody who gives no seed is
spoken to anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import version
from itertools import chain

from api.forms import Form
from api.metering import Meter
from api.sharing import Flights
from api.speech import Asked, Speaking, SpeechOrder, Spoken, SpokenStream
from cloning.text.markup import voices_of
from store.types import KeptSpeech

# Raised when the same order means other bytes than before.
_KEY_FORMAT = 1
# A kept stream is given in pieces too: some readers of events take no long lines.
_CHUNK_BYTES = 32768
MADE, KEPT, SHARED = "miss", "hit", "shared"


@dataclass(frozen=True, slots=True)
class Part:
    """Encoded audio and how long it is; `facts` stand on the first part."""

    data: bytes
    duration_s: float
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RenderedStream:
    """Encoded audio under way; closing it cancels what nobody else waits for. `facts` are known at its start."""

    facts: Mapping[str, str]
    parts: Iterator[Part]
    close: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Rendering:
    """Orders to bytes."""

    speaking: Speaking
    flights: Flights[Part] = field(default_factory=Flights)
    meter: Meter = field(default_factory=Meter)

    def whole(self, order: SpeechOrder, form: Form, unwanted: Callable[[], bool] = lambda: False) -> Part:
        """The finished speech. Raises: as `Speaking.speak`, and QuotaExceeded."""
        with self.meter.charged(len(order.text)):
            return self._whole(order, form, unwanted)

    def _whole(self, order: SpeechOrder, form: Form, unwanted: Callable[[], bool]) -> Part:
        if not self._keeps(order):
            return _whole(order, self.speaking.speak(order, unwanted), form)

        def make(asked: Asked, unwanted: Callable[[], bool]) -> Iterator[Part]:
            yield _whole(order, self.speaking.speak_asked(asked, unwanted), form)

        with closing(self._kept_or_made(order, f"{form.name} whole", make, unwanted)) as parts:
            found = list(parts)
        return Part(b"".join(part.data for part in found), sum(part.duration_s for part in found), found[0].facts)

    def stream(self, order: SpeechOrder, form: Form) -> RenderedStream:
        """The speech while it is spoken; its first part is there. Raises: as `Speaking.stream`, and QuotaExceeded."""
        parts = self._charged_stream(order, form)
        try:
            first = next(parts)
        except BaseException:
            parts.close()
            raise
        return RenderedStream(first.facts, chain((first,), parts), parts.close)

    def _charged_stream(self, order: SpeechOrder, form: Form) -> Generator[Part, None, None]:
        with self.meter.charged(len(order.text)):
            yield from self._stream(order, form)

    def _stream(self, order: SpeechOrder, form: Form) -> Generator[Part, None, None]:
        if self._keeps(order):
            return self._kept_or_made(
                order,
                f"{form.name} stream",
                lambda asked, _: _stream(order, self.speaking.stream_asked(asked), form),
                lambda: False,
            )
        return _stream(order, self.speaking.stream(order), form)

    def _keeps(self, order: SpeechOrder) -> bool:
        # A kept speech goes when its speaker does, and it has one; where several speak nothing is kept.
        return order.reuse and self.speaking.store.keeps_audio and not voices_of(order.text)

    def _kept_or_made(
        self,
        order: SpeechOrder,
        form: str,
        make: Callable[[Asked, Callable[[], bool]], Iterator[Part]],
        unwanted: Callable[[], bool],
    ) -> Generator[Part, None, None]:
        with ExitStack() as own:
            asked = own.enter_context(self.speaking.asked(order))
            key = speech_key(asked, form)

            def begin(unwanted: Callable[[], bool]) -> tuple[Iterator[Part], Callable[[], None]]:
                # Whoever begins may leave before the others: what was asked for stays until the end of all.
                return self._parts(asked, key, lambda: make(asked, unwanted)), own.pop_all().close

            with closing(self.flights.listen(key, begin, unwanted)) as parts:
                for part, is_shared in parts:
                    is_like_made = is_shared and part.facts.get("cache") == MADE
                    yield replace(part, facts={**part.facts, "cache": SHARED}) if is_like_made else part

    def _parts(self, asked: Asked, key: str, make: Callable[[], Iterator[Part]]) -> Generator[Part, None, None]:
        speaker_id, store = asked.speaker_id, self.speaking.store
        kept = store.kept_speech(speaker_id, key)
        if kept is not None:
            yield from _pieces_of(kept)
            return
        made: list[Part] = []
        for part in make():
            made.append(part)
            yield replace(part, facts={**part.facts, "cache": MADE}) if part.facts else part
        data, duration_s = b"".join(part.data for part in made), sum(part.duration_s for part in made)
        store.keep_speech(speaker_id, asked.revision, key, KeptSpeech(data, duration_s, made[0].facts))


def speech_key(asked: Asked, form: str) -> str:
    """A digest of all that shapes the bytes of a speech: no word of the text can be read, or guessed, from it.

    The vector, which nobody outside has, is a part; so a database that was set back cannot give an old voice either.
    """
    order, voice, request = asked.order, asked.voice.voice, asked.request
    engine = (voice.model_id, voice.engine, voice.device.partition(":")[0])
    options = (order.language, order.speed, order.seed, sorted(order.lexicon.items()), order.verify)
    speaker = (asked.speaker_id, asked.revision, request.encoder_id)
    facts = (_KEY_FORMAT, _program(), form, order.text, options, engine, speaker)
    digest = hashlib.sha256(json.dumps(facts).encode())
    digest.update(request.d_vector.tobytes())
    return digest.hexdigest()


@cache
def _program() -> str:
    """This program's version, which takes milliseconds to look up."""
    return version("voicekin")


def _whole(order: SpeechOrder, spoken: Spoken, form: Form) -> Part:
    return Part(form.whole(order.text, spoken), spoken.speech.duration_s, spoken.facts())


def _stream(order: SpeechOrder, spoken: SpokenStream, form: Form) -> Generator[Part, None, None]:
    facts = spoken.facts()
    try:
        writer = form.writer(order.text, spoken.sample_rate)
        for piece in spoken.pieces:
            yield Part(writer.write(piece), piece.duration_s, facts)
            facts = {}
        yield Part(writer.finish(), 0.0, facts)
    finally:
        spoken.close()


def _pieces_of(kept: KeptSpeech) -> Iterator[Part]:
    yield Part(kept.data[:_CHUNK_BYTES], kept.duration_s, {**kept.facts, "cache": KEPT})
    for start in range(_CHUNK_BYTES, len(kept.data), _CHUNK_BYTES):
        yield Part(kept.data[start : start + _CHUNK_BYTES], 0.0)
