"""A pool of the d-vectors in use: bounded in bytes, least recently used out first, never one that is held."""

import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from store.types import FloatArray


@dataclass(frozen=True, slots=True)
class PoolUsage:
    """Counts since the pool was made, and what it holds."""

    n_vectors: int
    n_bytes: int
    hits: int
    misses: int


# A voice whose clips changed has a new revision, so an old vector can never answer for it.
VoiceKey = tuple[str, int]


class VectorPool:
    """Vectors by (speaker_id, revision); safe to use from many threads."""

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity_bytes = capacity_bytes
        self._lock = threading.Lock()
        self._vectors: OrderedDict[VoiceKey, FloatArray] = OrderedDict()
        self._holders: Counter[VoiceKey] = Counter()
        self._n_bytes = 0
        self._hits = 0
        self._misses = 0

    def get(self, key: VoiceKey) -> FloatArray | None:
        """The vector if it is here."""
        with self._lock:
            found = self._vectors.get(key)
            if found is None:
                self._misses += 1
            else:
                self._hits += 1
                self._vectors.move_to_end(key)
            return found

    @contextmanager
    def hold(self, key: VoiceKey, vector: FloatArray) -> Iterator[FloatArray]:
        """The vector, in the pool until the block is left and, if there is room, longer."""
        with self._lock:
            self._holders[key] += 1
            kept = self._keep(key, vector)
        try:
            yield kept
        finally:
            self._release(key)

    def drop(self, *speaker_ids: str) -> None:
        """Forgets every revision of the speakers; blocks that hold one keep their array."""
        gone = frozenset(speaker_ids)
        with self._lock:
            for key in [key for key in self._vectors if key[0] in gone]:
                self._n_bytes -= self._vectors.pop(key).nbytes

    def held(self) -> frozenset[str]:
        """The speakers in use now."""
        with self._lock:
            return frozenset(speaker_id for speaker_id, _ in self._holders)

    def usage(self) -> PoolUsage:
        """What the pool holds and how often it helped."""
        with self._lock:
            return PoolUsage(len(self._vectors), self._n_bytes, self._hits, self._misses)

    def _keep(self, key: VoiceKey, vector: FloatArray) -> FloatArray:
        if key not in self._vectors:
            # Everyone gets the same array, so nobody may write to it.
            vector.setflags(write=False)
            self._vectors[key] = vector
            self._n_bytes += vector.nbytes
            self._evict()
        return self._vectors[key]

    def _release(self, key: VoiceKey) -> None:
        with self._lock:
            self._holders[key] -= 1
            if self._holders[key] == 0:
                del self._holders[key]
            self._evict()

    def _evict(self) -> None:
        for key in [key for key in self._vectors if key not in self._holders]:
            if self._n_bytes <= self._capacity_bytes:
                return
            self._n_bytes -= self._vectors.pop(key).nbytes
