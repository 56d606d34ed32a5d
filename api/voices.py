"""Voices and speaker encoders while they are in memory: loaded when asked for, once, and let go when nobody asks."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from api.errors import ModelUnknown, TooBusy
from api.shelf import Shelf, ShelfVoice
from cloning.errors import BadConditioning, BundleError

if TYPE_CHECKING:
    from cloning.bundle import BundleInfo
    from cloning.synthesis import Synthesiser
    from encoder.engine import SpeakerEncoder

logger = logging.getLogger("voicekin")
T = TypeVar("T")
Key = tuple[str, ...]


@dataclass
class _Held(Generic[T]):
    """One thing in memory, or on its way there."""

    ready: Future[T] = field(default_factory=Future)
    users: int = 0
    last_used_s: float = field(default_factory=time.monotonic)


class Held(Generic[T]):
    """At most so many things in memory at once, each opened once however many ask for it at the same time.

    What is in use is never closed; the one used longest ago goes first.
    """

    def __init__(self, most: int, idle_s: float, close: Callable[[T], None]) -> None:
        self._most, self._idle_s, self._close = most, idle_s, close
        self._held: dict[Key, _Held[T]] = {}
        self._lock = threading.Lock()

    @contextmanager
    def lease(self, key: Key, open_it: Callable[[], T]) -> Iterator[T]:
        """The thing of a key, opened if it is not there; until the block is left it stays.

        Raises: what opening it raises; TooBusy where all that may be held are in use.
        """
        held, is_first, gone = self._claim(key)
        try:
            for each in gone:
                self._close(each)
            if is_first:
                self._open(key, held, open_it)
            yield held.ready.result()
        finally:
            with self._lock:
                held.users -= 1
                held.last_used_s = time.monotonic()

    def sweep(self, kept: Key | None = None) -> None:
        """Closes what nobody has used for the idle time, but for the one to keep."""
        now_s = time.monotonic()
        with self._lock:
            idle = [key for key, held in self._held.items()
                    if key != kept and not held.users and now_s - held.last_used_s >= self._idle_s]  # fmt: skip
            gone = [self._held.pop(key) for key in idle]
        for held in gone:
            self._close(held.ready.result())

    def held(self) -> tuple[Key, ...]:
        """What is held now."""
        with self._lock:
            return tuple(self._held)

    def open_now(self) -> dict[Key, T]:
        """What is held and open, by key."""
        with self._lock:
            held = dict(self._held)
        return {k: h.ready.result() for k, h in held.items() if h.ready.done() and h.ready.exception() is None}

    def close(self) -> None:
        """Closes all."""
        with self._lock:
            gone, self._held = list(self._held.values()), {}
        for held in gone:
            if held.ready.done() and held.ready.exception() is None:
                self._close(held.ready.result())

    def _claim(self, key: Key) -> tuple[_Held[T], bool, list[T]]:
        with self._lock:
            gone: list[T] = []
            held = self._held.get(key)
            is_first = held is None
            if held is None:
                if len(self._held) >= self._most:
                    gone.append(self._oldest_unused().ready.result())
                held = self._held[key] = _Held()
            held.users += 1
            return held, is_first, gone

    def _oldest_unused(self) -> _Held[T]:
        unused = [key for key, held in self._held.items() if not held.users]
        if not unused:
            words = f"{self._most} voices are in use, which is the limit of VOICEKIN_MAX_VOICES; try again shortly"
            raise TooBusy("too_busy", words, limit=self._most)
        return self._held.pop(min(unused, key=lambda key: self._held[key].last_used_s))

    def _open(self, key: Key, held: _Held[T], open_it: Callable[[], T]) -> None:
        try:
            held.ready.set_result(open_it())
        except BaseException as error:
            with self._lock:
                self._held.pop(key, None)
            held.ready.set_exception(error)


class Voices:
    """The installed voices, each loaded when a request first asks for it."""

    def __init__(self, shelf: Shelf, open_voice: Callable[[Path], Synthesiser], most: int, idle_s: float) -> None:
        self.shelf = shelf
        self._open_voice = open_voice
        self._held: Held[Synthesiser] = Held(most, idle_s, lambda voice: voice.close())

    @contextmanager
    def lease(self, model: str | None = None) -> Iterator[Synthesiser]:
        """The voice of a name, or the one in use; it stays loaded until the block is left.

        Raises: ModelUnknown, BundleError, TooBusy.
        """
        voice = self.find(model)
        with self._held.lease(_key(voice), lambda: self._load(voice)) as loaded:
            yield loaded

    def find(self, model: str | None = None) -> ShelfVoice:
        """A voice by its name or by its id with revision; the one in use where none is named. Raises: ModelUnknown."""
        if model is None or model in self.shelf.names():
            return self.shelf.voice(model or self.shelf.in_use())
        by_id = (voice for voice in self.shelf.voices() if voice.info and voice.info.model_id == model)
        found = next(by_id, None)
        if found is None:
            known = ", ".join(self.shelf.names())
            raise ModelUnknown("model_unknown", f"no voice is named {model[:80]!r}; there are {known}", field="model")
        return found

    def describe(self, model: str | None = None) -> BundleInfo:
        """What a voice says of itself, loaded or not. Raises: ModelUnknown, BundleError."""
        voice = self.find(model)
        if voice.info is None:
            raise BundleError("bundle_corrupt", f"the voice {voice.name} cannot be loaded: {voice.problem}")
        return voice.info

    def loaded(self) -> tuple[str, ...]:
        """The names of the voices in memory."""
        return tuple(key[0] for key in self._held.held())

    def engines(self) -> dict[str, str]:
        """What runs each voice in memory: its name, and the engine with its device."""
        return {key[0]: f"{v.voice.engine} on {v.voice.device}" for key, v in self._held.open_now().items()}

    def engine_of_in_use(self) -> str | None:
        """The engine of the voice in use, where it is in memory."""
        found = self._held.open_now().get(_key(self.find()))
        return found.voice.engine if found else None

    def sweep(self) -> None:
        """Lets voices go that nobody has asked for in a while; the one in use stays."""
        with suppress(OSError):  # a shelf that cannot be read just now is no reason to stop
            self._held.sweep(_key(self.find()))

    def close(self) -> None:
        self._held.close()

    def _load(self, voice: ShelfVoice) -> Synthesiser:
        logger.info("loading the voice %s", voice.name)
        return self._open_voice(voice.folder)


class Encoders:
    """The speaker encoders of the installed voices; most voices share the one that came with the program."""

    def __init__(
        self, voices: Voices, open_shared: Callable[[], SpeakerEncoder], open_own: Callable[[Path], SpeakerEncoder],
        most: int,
    ) -> None:  # fmt: skip
        self._voices, self._open_shared, self._open_own, self._most = voices, open_shared, open_own, most
        self._loaded: dict[str, SpeakerEncoder] = {}
        self._lock = threading.Lock()

    def of_voice(self, model: str | None = None) -> SpeakerEncoder:
        """The encoder whose d-vectors a voice takes. Raises: ModelUnknown, BundleError."""
        voice = self._voices.find(model)
        wanted = self._voices.describe(model).voice.encoder_id
        found = self._get(wanted, voice.encoder_dir)
        if found.encoder_id != wanted:
            words = f"the voice {voice.name} needs the speaker encoder {wanted}, which is not here"
            raise BundleError("bundle_mismatch", words)
        return found

    def by_id(self, encoder_id: str) -> SpeakerEncoder:
        """The encoder of an id. Raises: BadConditioning where no installed voice brings it."""
        for voice in self._voices.shelf.voices():
            if voice.info is not None and voice.info.voice.encoder_id == encoder_id:
                return self._get(encoder_id, voice.encoder_dir)
        shared = self._get("", None)
        if shared.encoder_id != encoder_id:
            words = f"the speaker was enrolled with {encoder_id}, which no installed voice brings; enrol again"
            raise BadConditioning("wrong_encoder", words)
        return shared

    def every(self) -> Iterator[SpeakerEncoder]:
        """The encoder of each installed voice, each once; not those that are not here."""
        voices = self._voices.shelf.voices()
        for encoder_id in sorted({voice.info.voice.encoder_id for voice in voices if voice.info is not None}):
            with suppress(BadConditioning, BundleError):
                yield self.by_id(encoder_id)

    def _get(self, encoder_id: str, own: Path | None) -> SpeakerEncoder:
        name = encoder_id if own else ""
        with self._lock:
            if name not in self._loaded:
                for old in [key for key in self._loaded if key][: max(0, len(self._loaded) - self._most + 1)]:
                    del self._loaded[old]
                self._loaded[name] = self._own(own) if own else self._open_shared()
            return self._loaded[name]

    def _own(self, folder: Path) -> SpeakerEncoder:
        try:
            return self._open_own(folder)
        except (OSError, ValueError) as error:
            raise BundleError("bundle_corrupt", f"the voice's speaker encoder cannot be loaded: {error}") from error


def _key(voice: ShelfVoice) -> Key:
    """A voice that was replaced under its name is another one."""
    return voice.name, voice.info.model_id if voice.info else ""
