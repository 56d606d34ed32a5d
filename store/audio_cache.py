"""Finished speeches, kept for whoever asks for the same again: bounded by bytes and age, in one of several places.

Nothing here is needed: what is lost, damaged, too old or out of reach is made again, and no request fails for it. Every
entry lies under its speaker, so that it goes with the speaker.
"""

import hashlib
import json
import logging
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from store.checks import as_speaker_id
from store.types import KeptSpeech

_log = logging.getLogger(__name__)
_DIGEST_BYTES = 65
# One speech may take this share of the room; larger ones would push out everything else.
_LARGEST_SHARE = 0.25
# So long a place that failed is left alone, because each try may cost a request its time limit.
_REST_S = 5.0
# From here on those who have something are looked up first.
_MANY = 16


class PlaceFault(Exception):
    """A place could not be read or written."""


class Place(Protocol):
    """Where entries lie. Every verb raises PlaceFault; `is_shared` says whether other processes see the same."""

    is_shared: bool

    def get(self, speaker_id: str, key: str) -> bytes | None: ...
    def put(self, speaker_id: str, key: str, data: bytes) -> None: ...
    def drop(self, speaker_ids: Collection[str]) -> None: ...
    def speakers(self) -> set[str]: ...
    def sweep(self) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a place may hold."""

    max_bytes: int
    max_age_s: float


@dataclass(frozen=True, slots=True)
class CacheUsage:
    """Counts since the cache was opened. `faults` are times that the place did not answer."""

    hits: int = 0
    misses: int = 0
    faults: int = 0


class AudioCache:
    """Speeches by (speaker_id, key); safe to use from many threads."""

    def __init__(self, place: Place, bounds: Bounds, clock: Callable[[], float] = time.time) -> None:
        self._place, self._bounds, self._clock = place, bounds, clock
        self._lock = threading.Lock()
        self._counts = {"hits": 0, "misses": 0, "faults": 0}
        self._rests_until_s = 0.0
        self._undropped: set[str] = set()

    def get(self, speaker_id: str, key: str) -> KeptSpeech | None:
        """The speech, if it is here, whole and young enough."""
        data = self._ask(lambda: self._place.get(speaker_id, key))
        found = None if data is None else self._read(key, data)
        self._count("misses" if found is None else "hits")
        return found

    def put(self, speaker_id: str, key: str, speech: KeptSpeech) -> bool:
        """Keeps the speech if it can; whether it tried."""
        data = _write(key, speech, self._clock())
        if len(data) > self._bounds.max_bytes * _LARGEST_SHARE:
            return False
        self._ask(lambda: self._place.put(speaker_id, key, data))
        return True

    def drop(self, speaker_ids: Collection[str]) -> None:
        """Removes everything of these speakers; what is out of reach now goes at a later `tend`."""
        try:
            gone = speaker_ids if len(speaker_ids) < _MANY else self._place.speakers().intersection(speaker_ids)
            if gone:
                self._place.drop(gone)
        except PlaceFault as error:
            self._fail(error)
            with self._lock:
                self._undropped.update(speaker_ids)

    def forget(self, speaker_ids: Collection[str]) -> None:
        """As `drop`, for what another process has removed: a place that is shared, that process has seen to."""
        if not self._place.is_shared:
            self.drop(speaker_ids)

    def tend(self) -> None:
        """Removes what is too old or too much, and what could not be dropped before."""
        with self._lock:
            undropped, self._undropped = self._undropped, set()
        if undropped:
            self.drop(undropped)
        self._ask(self._place.sweep)

    def match(self, existing: Callable[[list[str]], Collection[str]]) -> None:
        """Drops the speakers that do not exist: their process died before it could."""
        found = self._ask(self._place.speakers) or set()
        there = set(existing(sorted(each for each in found if as_speaker_id(each) == each)))
        if found - there:
            self.drop(found - there)

    def usage(self) -> CacheUsage:
        """The counts."""
        with self._lock:
            return CacheUsage(**self._counts)

    def close(self) -> None:
        self._place.close()

    def _ask(self, question: Callable[[], Any]) -> Any:
        """The place's answer; None where it fails or rests."""
        if time.monotonic() < self._rests_until_s:
            return None
        try:
            return question()
        except PlaceFault as error:
            self._fail(error)
            return None

    def _fail(self, error: PlaceFault) -> None:
        _log.warning("audio cache: left alone for %g s: %s", _REST_S, error)
        self._rests_until_s = time.monotonic() + _REST_S
        self._count("faults")

    def _count(self, name: str) -> None:
        with self._lock:
            self._counts[name] += 1

    def _read(self, key: str, data: bytes) -> KeptSpeech | None:
        """What `_write` wrote; None where that is damaged, of another key or too old."""
        if data[: _DIGEST_BYTES - 1] != hashlib.sha256(memoryview(data)[_DIGEST_BYTES:]).hexdigest().encode():
            _log.warning("audio cache: a damaged entry is made again")
            return None
        end = data.index(b"\n", _DIGEST_BYTES) + 1
        header = json.loads(data[_DIGEST_BYTES:end])
        if header["key"] != key or self._clock() - header["made_at"] > self._bounds.max_age_s:
            return None
        return KeptSpeech(data[end:], header["duration_s"], header["facts"])


def _write(key: str, speech: KeptSpeech, now: float) -> bytes:
    """The SHA-256 of all that follows and a newline; a line of JSON; the audio."""
    header = {"key": key, "made_at": now, "duration_s": speech.duration_s, "facts": dict(speech.facts)}
    body = json.dumps(header).encode() + b"\n" + speech.data
    return hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def usage_figures(cache: AudioCache | None) -> dict[str, int]:
    """The counts by the names of `StoreStats`."""
    counts = CacheUsage() if cache is None else cache.usage()
    return {f"audio_{name}": value for name, value in asdict(counts).items()}
