"""The vectors of one encoder in dense rows, which exact search and re-ranking read."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import faiss
import numpy as np

from store.ids import NOWHERE, IdTable, IntArray, KeyArray, SpeakerIds
from store.types import FloatArray

_GROWTH = 1.3
_MIN_ROWS = 8
_ROWS_PER_BLOCK = 1024


@dataclass(frozen=True, slots=True)
class Shelf:
    """Voices of one encoder, and of one tenant, which `encoder_id` then names too.

    Shapes: revisions int64 (n,); vectors float32 (n, d), L2 norm 1.

    `coarse` is a trained approximate index over these rows, numbered in their order; None where there is none.
    """

    encoder_id: str
    speaker_ids: Sequence[str]
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
        self._n = 0
        self._table = IdTable()
        self._keys = np.empty((0, 2), np.uint64)
        self._vectors = np.empty((0, width), np.float32)
        self._revisions = np.empty(0, np.int64)
        self._numbers = np.empty(0, np.int64)
        self._row_of_number = np.empty(0, np.int64)

    def __len__(self) -> int:
        return self._n

    def __contains__(self, speaker_id: str) -> bool:
        return len(self.rows_of(SpeakerIds.of([speaker_id]))) > 0

    def rows_of(self, speaker_ids: SpeakerIds) -> IntArray:
        """The rows of those of these speakers that are here, each once, in order."""
        if not self._table.takes(len(speaker_ids)):
            # Looking up so many one by one would take longer than to sort all.
            self._sort_table()
        numbers = self._table.find(speaker_ids.keys)
        here = np.zeros(self._n, bool)
        here[self.find(numbers[numbers >= 0])] = True
        return np.flatnonzero(here)

    def rows_among(self, speaker_ids: IdTable) -> IntArray:
        """As `rows_of`, and quicker where the table is much larger than this."""
        return np.flatnonzero(speaker_ids.find(self._keys[: self._n]) >= 0)

    def append(self, speaker_ids: Sequence[str], revisions: IntArray, vectors: FloatArray, adopt: bool) -> IntArray:
        """The numbers of the new rows. None of the ids may be here already.

        With `adopt` nobody else uses `vectors` any more, so that a first array need not be copied.
        """
        keys = SpeakerIds.of(speaker_ids).keys
        start, stop = self._n, self._n + len(keys)
        numbers = np.arange(self.n_numbers, self.n_numbers + len(keys), dtype=np.int64)
        if adopt and not len(self._vectors):
            self._vectors = vectors
        self._reserve(stop)
        if self._vectors is not vectors:
            self._vectors[start:stop] = vectors
        self._keys[start:stop] = keys
        self._revisions[start:stop] = revisions
        self._numbers[start:stop] = numbers
        self._row_of_number[numbers] = np.arange(start, stop)
        self._n = stop
        self.n_numbers += len(keys)
        if self._table.takes(len(keys)):
            self._table.add(keys, numbers)
        else:
            self._sort_table()
        return numbers

    def remove(self, rows: IntArray) -> IntArray:
        """The numbers of these rows, which are gone; the last rows move into the holes.

        Shapes: rows int64 (n,), each once, in order.
        """
        gone, gone_keys = self._numbers[rows], self._keys[rows]
        size = self._n - len(rows)
        is_gone = np.zeros(self._n - size, bool)
        is_gone[rows[rows >= size] - size] = True
        self._move(np.flatnonzero(~is_gone) + size, rows[rows < size])
        self._row_of_number[gone] = NOWHERE
        # A removed voice must not stay in memory.
        self._vectors[size : self._n] = 0
        self._keys[size : self._n] = 0
        self._n = size
        if self._table.takes(len(rows)):
            self._table.forget(gone_keys)
        else:
            self._sort_table()
        return gone

    def renumber(self) -> None:
        """Counts from zero again: no number that was given before means anything after."""
        size = self._n
        self._numbers[:size] = np.arange(size)
        self._row_of_number = np.arange(size)
        self.n_numbers = size
        self._sort_table()

    def find(self, numbers: IntArray) -> IntArray:
        """The rows of those of the numbers that are still here."""
        rows = self._row_of_number[numbers]
        return rows[rows >= 0]

    def numbers(self) -> IntArray:
        """Every number that is here, by row."""
        return self._numbers[: self._n].copy()

    def vectors_of(self, numbers: IntArray) -> tuple[IntArray, FloatArray]:
        """Those of the numbers that are still here, and a copy of their vectors."""
        rows = self.find(numbers)
        return self._numbers[rows], self._vectors[rows]

    def nearest(self, vector: FloatArray, k: int) -> tuple[FloatArray, IntArray]:
        """Cosines and rows of the k nearest of all, exactly."""
        vectors = self._vectors[: self._n]
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
        return enumerate(self._vectors[: self._n])

    def pairs(self, cosine: float) -> Iterator[tuple[int, int]]:
        """Every two rows with at least this cosine, either way round."""
        vectors = self._vectors[: self._n]
        for start in range(0, len(vectors), _ROWS_PER_BLOCK):
            first, second = np.nonzero(vectors[start : start + _ROWS_PER_BLOCK] @ vectors.T >= cosine)
            yield from zip((first + start).tolist(), second.tolist(), strict=True)

    def voice(self, row: int) -> tuple[str, int]:
        """Id and revision of a row."""
        return SpeakerIds(self._keys[row : row + 1])[0], int(self._revisions[row])

    def keys(self) -> KeyArray:
        """A copy of every id. Shapes: uint64 (n, 2)."""
        return self._keys[: self._n].copy()

    def revisions(self) -> IntArray:
        """A copy of the revision of every voice, in the order of `keys`."""
        return self._revisions[: self._n].copy()

    def rows_of_numbers(self) -> IntArray:
        """The row of each number ever given, -1 where it is gone."""
        return self._row_of_number[: self.n_numbers].copy()

    def shelf(self, encoder_id: str, coarse: bytes | None) -> Shelf:
        """A copy of everything."""
        vectors = self._vectors[: self._n].copy()
        return Shelf(encoder_id, SpeakerIds(self.keys()), self.revisions(), vectors, coarse)

    def n_bytes(self) -> int:
        """What the arrays take."""
        arrays = (self._vectors, self._keys, self._revisions, self._numbers, self._row_of_number)
        return sum(array.nbytes for array in arrays)

    def _move(self, sources: IntArray, targets: IntArray) -> None:
        for array in (self._vectors, self._keys, self._revisions, self._numbers):
            array[targets] = array[sources]
        self._row_of_number[self._numbers[targets]] = targets

    def _sort_table(self) -> None:
        self._table.sort(self._keys[: self._n], self._numbers[: self._n])

    def _reserve(self, size: int) -> None:
        if size > len(self._numbers):
            room = max(size, round(len(self._numbers) * _GROWTH), _MIN_ROWS)
            if len(self._vectors) >= size:
                # It was adopted whole.
                room = len(self._vectors)
            elif len(self._vectors):
                # No view of it outlives a call, and growing in place spares a second copy of a gigabyte.
                self._vectors.resize((room, self.width), refcheck=False)
            else:
                # Growing would fill it with zeros first.
                self._vectors = np.empty((room, self.width), np.float32)
            self._keys.resize((room, 2), refcheck=False)
            self._revisions.resize(room, refcheck=False)
            self._numbers.resize(room, refcheck=False)
        needed = self.n_numbers + size - self._n
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
