"""Text and a speaker to speech: the store and the cloning room, joined. Knows nothing of HTTP."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from api.errors import RequestRefused
from api.interruption import Interruption
from api.voice_elements import held_voices
from cloning.errors import Overloaded, TextRefused
from cloning.streaming import join
from cloning.types import FloatArray, Speech, SpeechOptions, SpeechRequest

if TYPE_CHECKING:
    from api.voices import Voices
    from cloning.synthesis import SpeechStream, Synthesiser, VoiceInfo
    from store.service import Store
    from store.voices import VoiceRow

SPEED_RANGE = (0.25, 4.0)
MAX_SEED = 2**31 - 1
# Symbols a second at speed 1 that speech can have; outside, words were lost or the voice went on without any.
_PLAUSIBLE_SYMBOLS_PER_S = (4.0, 40.0)
# A word or two may take this long, however few its symbols are.
_SHORT_S = 1.5

IMPLAUSIBLE = "implausible_length"
# After everything that somebody waits for.
BULK_PRIORITY = 10

# Gives the d-vector of a speech, as the encoder of an id hears it.
Listen = Callable[[Speech, str], FloatArray]


@dataclass(frozen=True, slots=True)
class SpeechOrder:
    """What is to be said by whom. `speed` 2 is twice as fast; no seed draws one, no model is the voice in use.

    With `reuse` a speech that was made for the same order before may be the answer, where those are kept. `in_bulk`
    lets all others pass, and waits as long as it takes.
    """

    speaker_id: str
    text: str
    language: str | None = None
    speed: float = 1.0
    seed: int | None = None
    lexicon: Mapping[str, str] = field(default_factory=dict)
    verify: bool = False
    model: str | None = None
    reuse: bool = True
    in_bulk: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """An order and what it needs: a voice that stays loaded, a speaker (of this revision) whom pruning passes over."""

    order: SpeechOrder
    voice: Synthesiser
    request: SpeechRequest
    speaker_id: str
    revision: int


@dataclass(frozen=True, slots=True)
class Spoken:
    """A finished speech. `cosine` is its likeness to the speaker, where that was asked for."""

    speech: Speech
    seed: int
    model: str
    cosine: float | None
    notices: tuple[str, ...]

    def facts(self) -> dict[str, str]:
        """What is known about the speech, by the names that headers and the command line show."""
        facts = {"audio-seconds": f"{self.speech.duration_s:.3f}"}
        if self.cosine is not None:
            facts["cosine"] = f"{self.cosine:.4f}"
        return facts | _facts(self.seed, self.model, self.notices)


@dataclass(frozen=True, slots=True)
class SpokenStream:
    """A speech under way; closing it cancels what is not spoken yet. `notices` are what is known at its start."""

    pieces: Iterator[Speech]
    sample_rate: int
    seed: int
    model: str
    notices: tuple[str, ...]
    close: Callable[[], None]

    def facts(self) -> dict[str, str]:
        """What is known at its start, by the names that headers show."""
        return _facts(self.seed, self.model, self.notices)


class UsageLog:
    """Uses of speakers, counted in memory and written in bulk, so that no speech waits for the database."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._uses: dict[str, tuple[datetime, int]] = {}

    def add(self, speaker_id: str) -> None:
        with self._lock:
            _, count = self._uses.get(speaker_id, (None, 0))
            self._uses[speaker_id] = (datetime.now(UTC), count + 1)

    def flush(self) -> None:
        with self._lock:
            uses, self._uses = self._uses, {}
        try:
            self._store.touch(uses)
        except BaseException:
            self._give_back(uses)
            raise

    def _give_back(self, uses: Mapping[str, tuple[datetime, int]]) -> None:
        with self._lock:
            for speaker_id, (when, count) in uses.items():
                later, more = self._uses.get(speaker_id, (when, 0))
                self._uses[speaker_id] = (max(when, later), count + more)


@dataclass(frozen=True, slots=True)
class Speaking:
    """Speaks texts with stored speakers, in the turn of `tenant`.

    `listen` gives the d-vector of a speech, for `verify`.
    """

    store: Store
    voices: Voices
    usage: UsageLog
    listen: Listen
    max_text_chars: int
    timeout_s: float
    tenant: str = ""

    def speak(self, order: SpeechOrder, unwanted: Callable[[], bool] = lambda: False) -> Spoken:
        """The whole speech; with a drawn seed, an implausible length is tried once more with another.

        `unwanted` is asked after each sentence, or part of one; once it says yes, the rest is not spoken.
        Raises: SpeakerNotFound, ModelUnknown, CloningError.
        """
        with self.asked(order) as asked:
            return self.speak_asked(asked, unwanted)

    def speak_asked(self, asked: Asked, unwanted: Callable[[], bool]) -> Spoken:
        """As `speak`, where the order's needs are at hand."""
        order, voice, request = asked.order, asked.voice, asked.request
        info, speech = voice.voice, _whole(voice, request, unwanted, order.in_bulk)
        if order.seed is None and not plausible(speech, order.speed, info.ids_per_sound):
            request = _reseeded(request)
            speech = _whole(voice, request, unwanted, order.in_bulk)
        fits = plausible(speech, order.speed, info.ids_per_sound)
        cosine = float(np.dot(self.listen(speech, request.encoder_id), request.d_vector)) if order.verify else None
        notices = (*speech.notices, *_skipped(speech.skipped), *_unfit(fits))
        return Spoken(speech, request.options.seed, info.model_id, cosine, notices)

    def stream(self, order: SpeechOrder, interruption: Interruption | None = None) -> SpokenStream:
        """The speech in pieces; nothing is refused after the first piece that could have been before.

        With a drawn seed, a first sentence of implausible length is tried once more with another.
        Raises: SpeakerNotFound, ModelUnknown, CloningError; Overloaded (`cancelled`) where it was interrupted.
        """
        with ExitStack() as stack:
            spoken = self.stream_asked(stack.enter_context(self.asked(order)), interruption)
            stack.callback(spoken.close)
            return replace(spoken, close=stack.pop_all().close)

    def stream_asked(self, asked: Asked, interruption: Interruption | None = None) -> SpokenStream:
        """As `stream`, where the order's needs are at hand; closing it leaves them to whoever holds them."""
        order, voice, request = asked.order, asked.voice, asked.request
        interruption = interruption or Interruption()
        if order.verify:
            raise RequestRefused(
                "verify_needs_whole", "verify needs the whole speech; set stream to false", field="verify"
            )
        with ExitStack() as stack:
            pieces = _interruptible(stack, voice, request, interruption)
            first = next(pieces)
            if order.seed is None and not _begins_plausibly(first, order.speed, voice.voice):
                pieces.close()
                request = _reseeded(request)
                pieces = _interruptible(stack, voice, request, interruption)
                first = next(pieces)
            fits = _begins_plausibly(first, order.speed, voice.voice)
            return SpokenStream(
                pieces=chain((first,), pieces),
                sample_rate=voice.voice.sample_rate,
                seed=request.options.seed,
                model=voice.voice.model_id,
                notices=(*_skipped(pieces.skipped), *_unfit(fits)),
                close=stack.pop_all().close,
            )

    @contextmanager
    def asked(self, order: SpeechOrder) -> Iterator[Asked]:
        """The order with its needs, until the block is left.

        Raises: SpeakerNotFound, ConsentRefused, ModelUnknown, TextRefused (`text_too_long`), BundleError, TooBusy.
        """
        with self.voices.lease(order.model) as voice:
            self._check_text(order.text)
            with self.store.hold(order.speaker_id) as held, held_voices(self.store, order.text, held) as others:
                for voice_row in (held, *others.values()):
                    self.usage.add(voice_row.speaker_id)
                request = self._request(order, held, others)
                yield Asked(order, voice, request, held.speaker_id, held.revision)

    def _request(self, order: SpeechOrder, held: VoiceRow, others: Mapping[str, VoiceRow]) -> SpeechRequest:
        seed = secrets.randbelow(MAX_SEED) if order.seed is None else order.seed
        return SpeechRequest(
            text=order.text,
            d_vector=held.vector,
            encoder_id=held.encoder_id,
            language=order.language,
            options=SpeechOptions(length_scale=1.0 / order.speed, seed=seed),
            lexicon=order.lexicon,
            voices={name: other.vector for name, other in others.items()},
            deadline_s=None if order.in_bulk else self.timeout_s,
            priority=BULK_PRIORITY if order.in_bulk else 0,
            tenant=self.tenant,
        )

    def _check_text(self, text: str) -> None:
        if len(text) > self.max_text_chars:
            raise TextRefused(
                "text_too_long",
                f"text has {len(text)} characters, the limit is {self.max_text_chars}; send it in parts",
                field="text",
                limit=self.max_text_chars,
                length=len(text),
            )


def _facts(seed: int, model: str, notices: tuple[str, ...]) -> dict[str, str]:
    facts = {"seed": str(seed), "model": model}
    return facts | {"notices": "; ".join(notices)} if notices else facts


def _whole(voice: Synthesiser, request: SpeechRequest, unwanted: Callable[[], bool], in_parts: bool) -> Speech:
    """The speech, the same in parts; between those of a long sentence others can pass."""
    parts: list[Speech] = []
    with _pieces(voice, request, in_parts) as pieces:
        for piece in pieces:
            parts.append(piece)
            if unwanted():
                raise Overloaded("cancelled", "nobody waits for this speech any more")
    return join(parts)


def _pieces(voice: Synthesiser, request: SpeechRequest, in_parts: bool = True) -> closing[SpeechStream]:
    return closing(voice.stream(request, in_parts))


def _interruptible(
    stack: ExitStack, voice: Synthesiser, request: SpeechRequest, interruption: Interruption
) -> SpeechStream:
    pieces = stack.enter_context(_pieces(voice, request))
    stack.enter_context(interruption.ends(pieces.close))
    return pieces


def plausible(speech: Speech, speed: float, ids_per_sound: int = 1) -> bool:
    """Whether the length, without the pauses between sentences, fits the number of symbols."""
    return _fits(speech.duration_s - speech.pause_s, _n_paced(speech) / ids_per_sound, speed)


def _begins_plausibly(first: Speech, speed: float, info: VoiceInfo) -> bool:
    """As `plausible`, of the sentence that a first piece begins: how long it will be is known before it is spoken."""
    return _fits(float(first.durations.sum()) * info.frame_s, _n_paced(first) / info.ids_per_sound, speed)


def _n_paced(speech: Speech) -> float:
    """The number of symbols, each counted for as long as its rate lets it take."""
    return len(speech.durations) + speech.n_slowed


def _fits(spoken_s: float, n_sounds: float, speed: float) -> bool:
    slowest, fastest = _PLAUSIBLE_SYMBOLS_PER_S
    return n_sounds / fastest <= spoken_s * speed <= max(_SHORT_S, n_sounds / slowest)


def _reseeded(request: SpeechRequest) -> SpeechRequest:
    return replace(request, options=replace(request.options, seed=(request.options.seed + 1) % MAX_SEED))


def _unfit(fits: bool) -> tuple[str, ...]:
    return () if fits else (IMPLAUSIBLE,)


def _skipped(signs: tuple[str, ...]) -> tuple[str, ...]:
    return (f"skipped characters: {' '.join(signs[:20])}",) if signs else ()
