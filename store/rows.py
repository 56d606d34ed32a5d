"""The vectors of one encoder in dense rows, which exact search and re-ranking read."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import faiss
import numpy as np
from numpy.typing import NDArray

from store.types import FloatArray

IntArray = NDArray[np.int64]
_GROWTH = 1.3
_MIN_ROWS = 8
_NOWHERE = -1
_ROWS_PER_BLOCK = 1024


@dataclass(frozen=True, slots=True)
class Shelf:
    """Voices of one encoder, and of one tenant, which `encoder_id` then names too.

    Shapes: revisions int64 (n,); vectors float32 (n, d), L2 norm 1.

    `coarse` is a trained approximate index over these rows, numbered in their order; None where there is none.
    """

    encoder_id: str
    speaker_ids: tuple[str, ...]
    revisions: IntArray
    vectors: FloatArray
    coarse: bytes | memoryview | None = None


class VectorRows:
    """Not safe to change from two threads. Each vector has a number that is never given again, and a row that may move.

    Shapes: vectors float32 (n, d).
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.n_numbers = 0
        self._ids: list[str] = []
        self._row_of_id: dict[str, int] = {}
        self._vectors = np.empty((0, width), np.float32)
        self._revisions = np.empty(0, np.int64)
        self._numbers = np.empty(0, np.int64)
        self._row_of_number = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, speaker_id: str) -> bool:
        return speaker_id in self._row_of_id

    def among(self, speaker_ids: set[str]) -> set[str]:
        """Those of these speakers that are here; takes as long as the smaller of the two sets."""
        return self._row_of_id.keys() & speaker_ids

    def append(self, speaker_ids: Sequence[str], revisions: IntArray, vectors: FloatArray) -> IntArray:
        """The numbers of the new rows. None of the ids may be here already."""
        start, stop = len(self._ids), len(self._ids) + len(speaker_ids)
        numbers = np.arange(self.n_numbers, self.n_numbers + len(speaker_ids), dtype=np.int64)
        self._reserve(stop)
        self._vectors[start:stop] = vectors
        self._revisions[start:stop] = revisions
        self._numbers[start:stop] = numbers
        self._row_of_number[numbers] = np.arange(start, stop)
        self._row_of_id.update(zip(speaker_ids, range(start, stop), strict=True))
        self._ids.extend(speaker_ids)
        self.n_numbers += len(speaker_ids)
        return numbers

    def remove(self, speaker_ids: Iterable[str]) -> IntArray:
        """The numbers of the rows that were here and are gone; the last rows move into the holes."""
        removed = [self._row_of_id.pop(speaker_id) for speaker_id in set(speaker_ids) if speaker_id in self._row_of_id]
        rows = np.array(sorted(removed), dtype=np.int64)
        gone = self._numbers[rows]
        size = len(self._ids) - len(rows)
        tail = np.arange(size, len(self._ids))
        self._move(tail[~np.isin(tail, rows)], rows[rows < size])
        self._row_of_number[gone] = _NOWHERE
        # A removed voice must not stay in memory.
        self._vectors[size : len(self._ids)] = 0
        del self._ids[size:]
        return gone

    def renumber(self) -> None:
        """Counts from zero again: no number that was given before means anything after."""
        size = len(self._ids)
        self._numbers[:size] = np.arange(size)
        self._row_of_number = np.arange(size)
        self.n_numbers = size

    def find(self, numbers: IntArray) -> IntArray:
        """The rows of those of the numbers that are still here."""
        rows = self._row_of_number[numbers]
        return rows[rows >= 0]

    def numbers(self) -> IntArray:
        """Every number that is here, by row."""
        return self._numbers[: len(self._ids)].copy()

    def vectors_of(self, numbers: IntArray) -> tuple[IntArray, FloatArray]:
        """Those of the numbers that are still here, and a copy of their vectors."""
        rows = self.find(numbers)
        return self._numbers[rows], self._vectors[rows]

    def nearest(self, vector: FloatArray, k: int) -> tuple[FloatArray, IntArray]:
        """Cosines and rows of the k nearest of all, exactly."""
        vectors = self._vectors[: len(self._ids)]
        with one_thread():
            cosines, rows = faiss.knn(vector[np.newaxis], vectors, min(k, len(vectors)), faiss.METRIC_INNER_PRODUCT)
        there = rows[0] >= 0
        return cosines[0][there], rows[0][there]

    def rank(self, vector: FloatArray, rows: IntArray, k: int) -> tuple[FloatArray, IntArray]:
        """Cosines and rows of the k nearest of these rows, exactly."""
        cosines = self._vectors[rows] @ vector
        order = np.argsort(-cosines, kind="stable")[:k]
        return cosines[order], rows[order]

    def each(self) -> Iterator[tuple[int, FloatArray]]:
        """Every row and its vector."""
        return enumerate(self._vectors[: len(self._ids)])

    def pairs(self, cosine: float) -> Iterator[tuple[int, int]]:
        """Every two rows with at least this cosine, either way round."""
        vectors = self._vectors[: len(self._ids)]
        for start in range(0, len(vectors), _ROWS_PER_BLOCK):
            first, second = np.nonzero(vectors[start : start + _ROWS_PER_BLOCK] @ vectors.T >= cosine)
            yield from zip((first + start).tolist(), second.tolist(), strict=True)

    def voice(self, row: int) -> tuple[str, int]:
        """Id and revision of a row."""
        return self._ids[row], int(self._revisions[row])

    def revisions(self) -> dict[str, int]:
        """The revision of every voice."""
        return dict(zip(self._ids, self._revisions[: len(self._ids)].tolist(), strict=True))

    def rows_of_numbers(self) -> IntArray:
        """The row of each number ever given, -1 where it is gone."""
        return self._row_of_number[: self.n_numbers].copy()

    def shelf(self, encoder_id: str, coarse: bytes | None) -> Shelf:
        """A copy of everything."""
        size = len(self._ids)
        return Shelf(encoder_id, tuple(self._ids), self._revisions[:size].copy(), self._vectors[:size].copy(), coarse)

    def n_bytes(self) -> int:
        """What the arrays take."""
        arrays = (self._vectors, self._revisions, self._numbers, self._row_of_number)
        return sum(array.nbytes for array in arrays)

    def _move(self, sources: IntArray, targets: IntArray) -> None:
        for array in (self._vectors, self._revisions, self._numbers):
            array[targets] = array[sources]
        self._row_of_number[self._numbers[targets]] = targets
        for source, target in zip(sources.tolist(), targets.tolist(), strict=True):
            speaker_id = self._ids[source]
            self._ids[target] = speaker_id
            self._row_of_id[speaker_id] = target

    def _reserve(self, size: int) -> None:
        if size > len(self._vectors):
            room = max(size, round(len(self._vectors) * _GROWTH), _MIN_ROWS)
            if len(self._vectors):
                # No view of it outlives a call, and growing in place spares a second copy of a gigabyte.
                self._vectors.resize((room, self.width), refcheck=False)
            else:
                # Growing would fill it with zeros first.
                self._vectors = np.empty((room, self.width), np.float32)
            self._revisions.resize(room, refcheck=False)
            self._numbers.resize(room, refcheck=False)
        needed = self.n_numbers + size - len(self._ids)
        if needed > len(self._row_of_number):
            self._row_of_number.resize(max(needed, round(needed * _GROWTH)), refcheck=False)


@contextmanager
def one_thread() -> Iterator[None]:
    """FAISS in the calling thread alone: for one query, waking the others costs more than they do."""
    n_threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(n_threads)
