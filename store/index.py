"""Nearest speakers by cosine: exact FAISS indexes in memory, one for each encoder, so that their vectors never meet."""

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import faiss
import numpy as np
from numpy.typing import NDArray

from store.errors import BadVector, StoreUnavailable
from store.types import FloatArray


@dataclass(frozen=True, slots=True)
class Shelf:
    """Voices of one encoder. Shapes: revisions int64 (n,); vectors float32 (n, d), L2 norm 1."""

    encoder_id: str
    speaker_ids: tuple[str, ...]
    revisions: NDArray[np.int64]
    vectors: FloatArray


@dataclass(frozen=True, slots=True)
class Hit:
    """A neighbour, and the revision of the voice that was compared."""

    speaker_id: str
    revision: int
    cosine: float


@dataclass(frozen=True, slots=True)
class _Place:
    encoder_id: str
    number: int
    revision: int


class SpeakerIndex:
    """Safe to use from many threads: a search sees a change whole or not at all.

    Each vector gets a number that is never given again, so no removal can shift a neighbour's identity.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._indexes: dict[str, faiss.IndexIDMap] = {}
        self._places: dict[str, _Place] = {}
        self._speakers: dict[int, str] = {}
        self._next_number = 0

    def __len__(self) -> int:
        return len(self._places)

    def apply(self, shelves: Iterable[Shelf], removed: Iterable[str] = ()) -> None:
        """Adds or replaces the voices on the shelves, then drops the removed speakers."""
        with self._lock:
            for shelf in shelves:
                self._drop(shelf.speaker_ids)
                self._add(shelf)
            self._drop(removed)

    def clear(self) -> None:
        """Drops every voice."""
        with self._lock:
            self._indexes.clear()
            self._places.clear()
            self._speakers.clear()

    def search(self, vector: FloatArray, encoder_id: str, k: int) -> list[Hit]:
        """At most k voices of this encoder, nearest first. Shapes: vector float32 (d,). Raises: BadVector."""
        with self._lock:
            index = self._indexes.get(encoder_id)
            if index is None:
                return []
            if len(vector) != index.d:
                message = f"vectors of {encoder_id} are {index.d} wide, but this one is {len(vector)}"
                raise BadVector("bad_vector", message, expected=index.d, measured=len(vector))
            cosines, numbers = index.search(vector[np.newaxis], min(k, index.ntotal))
            found = zip(cosines[0].tolist(), numbers[0].tolist(), strict=True)
            return [self._hit(number, cosine) for cosine, number in found if number >= 0]

    def revisions(self) -> dict[str, int]:
        """The revision of every voice."""
        with self._lock:
            return {speaker_id: place.revision for speaker_id, place in self._places.items()}

    def shelves(self) -> list[Shelf]:
        """A copy of everything."""
        with self._lock:
            return [self._shelf(encoder_id) for encoder_id in sorted(self._indexes)]

    def _add(self, shelf: Shelf) -> None:
        numbers = np.arange(len(shelf.speaker_ids), dtype=np.int64) + self._next_number
        self._next_number += len(numbers)
        if shelf.encoder_id not in self._indexes:
            self._indexes[shelf.encoder_id] = faiss.IndexIDMap(faiss.IndexFlatIP(shelf.vectors.shape[1]))
        self._indexes[shelf.encoder_id].add_with_ids(shelf.vectors, numbers)
        rows = zip(shelf.speaker_ids, numbers.tolist(), shelf.revisions.tolist(), strict=True)
        for speaker_id, number, revision in rows:
            self._places[speaker_id] = _Place(shelf.encoder_id, number, revision)
            self._speakers[number] = speaker_id

    def _drop(self, speaker_ids: Iterable[str]) -> None:
        numbers: dict[str, list[int]] = {}
        for speaker_id in speaker_ids:
            place = self._places.pop(speaker_id, None)
            if place is not None:
                numbers.setdefault(place.encoder_id, []).append(place.number)
                del self._speakers[place.number]
        for encoder_id, gone in numbers.items():
            index = self._indexes[encoder_id]
            index.remove_ids(faiss.IDSelectorBatch(np.asarray(gone, dtype=np.int64)))
            if index.ntotal == 0:
                del self._indexes[encoder_id]

    def _hit(self, number: int, cosine: float) -> Hit:
        speaker_id = self._speakers[number]
        return Hit(speaker_id, self._places[speaker_id].revision, max(-1.0, min(1.0, cosine)))

    def _shelf(self, encoder_id: str) -> Shelf:
        index = self._indexes[encoder_id]
        # Storage order, which the map of numbers shares.
        speaker_ids = tuple(self._speakers[number] for number in faiss.vector_to_array(index.id_map).tolist())
        revisions = np.array([self._places[speaker_id].revision for speaker_id in speaker_ids], dtype=np.int64)
        return Shelf(encoder_id, speaker_ids, revisions, index.index.reconstruct_n(0, index.ntotal))


def check_library() -> None:
    """Runs one search, so that a broken FAISS is found at start. Raises: StoreUnavailable."""
    names: Sequence[str] = ("x", "y", "z")
    index = SpeakerIndex()
    index.apply([Shelf("self-test", tuple(names), np.zeros(3, dtype=np.int64), np.eye(3, dtype=np.float32))])
    hits = index.search(np.array([0.0, 0.8, 0.6], dtype=np.float32), "self-test", 3)
    if [hit.speaker_id for hit in hits] != ["y", "z", "x"] or abs(hits[0].cosine - 0.8) > 1e-6:
        raise StoreUnavailable("store_unavailable", "FAISS gives wrong neighbours: reinstall faiss-cpu")
