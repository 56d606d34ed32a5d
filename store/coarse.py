"""The first look into a large store: a small code for each vector, in lists, of which a few are scanned.

What it names is ranked again by the exact vectors, so its cosines are never shown. The figures behind the choice stand
in docs/store.md, made by `benchmarks/store_search.py`.
"""

import math
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from store.ids import IntArray
from store.rows import one_thread
from store.types import FloatArray

# Up to this many neighbours are found by way of the lists; more are found by comparing every vector.
MAX_COARSE_K = 100
# Lists trained for so many vectors serve four times as many before they are trained anew.
RETRAIN_GROWTH = 4.0
_MIN_CANDIDATES = 100
_CANDIDATES_PER_NEIGHBOUR = 5
_PRINCIPAL_DIMS = 96
_SCANNED_SHARE = 0.2
_SAMPLES_PER_LIST = 64
_ROUNDS = 10
_MANY = 4096


class CoarseIndex:
    """Codes of numbered vectors; not safe to change while it is searched."""

    def __init__(self, index: faiss.Index, n_trained: int) -> None:
        self._index = index
        self._lists = faiss.extract_index_ivf(index)
        self._lists.nprobe = max(1, round(self._lists.nlist * _SCANNED_SHARE))
        self.n_trained = n_trained

    @classmethod
    def train(cls, vectors: FloatArray, n_total: int) -> "CoarseIndex":
        """An empty index, made for so many vectors of this kind. Shapes: vectors float32 (n, d), a sample."""
        # Distance, not cosine: the order is the same for vectors of norm 1, and only distance survives a PCA's shift.
        index = faiss.index_factory(vectors.shape[1], _recipe(n_total, vectors.shape[1]), faiss.METRIC_L2)
        clustering = faiss.extract_index_ivf(index).cp
        clustering.niter, clustering.min_points_per_centroid = _ROUNDS, 1
        index.train(vectors)
        return cls(index, n_total)

    @classmethod
    def from_bytes(cls, data: bytes | memoryview, n_trained: int) -> "CoarseIndex":
        """The index that `to_bytes` gave."""
        return cls(faiss.deserialize_index(np.frombuffer(data, np.uint8)), n_trained)

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def add(self, numbers: IntArray, vectors: FloatArray) -> None:
        """Shapes: numbers int64 (n,); vectors float32 (n, d), L2 norm 1."""
        self._index.add_with_ids(vectors, numbers)

    def remove(self, numbers: IntArray, n_numbers: int) -> None:
        """Drops those of the numbers that are here; none here reaches `n_numbers`."""
        if not len(numbers):
            return
        if len(numbers) < _MANY:
            self._index.remove_ids(faiss.IDSelectorBatch(numbers))
            return
        # One bit for each number is read sooner than a set of very many.
        gone = np.zeros(n_numbers, bool)
        gone[numbers] = True
        bits = np.packbits(gone, bitorder="little")
        self._index.remove_ids(faiss.IDSelectorBitmap(len(bits), faiss.swig_ptr(bits)))

    def candidates(self, vector: FloatArray, k: int) -> IntArray:
        """The numbers among which the k nearest are. Shapes: vector float32 (d,)."""
        with one_thread():
            _, numbers = self._index.search(vector[np.newaxis], max(_MIN_CANDIDATES, _CANDIDATES_PER_NEIGHBOUR * k))
        found: IntArray = numbers[0][numbers[0] >= 0]
        return found

    def n_bytes(self) -> int:
        """What the codes and their numbers take."""
        return len(self) * int(self._lists.code_size + 8)

    def to_bytes(self, row_of_number: IntArray) -> bytes:
        """The index with rows in the place of numbers."""
        copy = faiss.clone_index(self._index)
        lists: Any = faiss.extract_index_ivf(copy).invlists
        for number in range(lists.nlist):
            if size := lists.list_size(number):
                ids = faiss.rev_swig_ptr(lists.get_ids(number), size)
                ids[:] = row_of_number[ids]
        serialised: NDArray[np.uint8] = faiss.serialize_index(copy)
        return serialised.tobytes()


def sample_size(n_total: int) -> int:
    """How many vectors `train` needs for a store of this size."""
    return min(n_total, _n_lists(n_total) * _SAMPLES_PER_LIST)


def _recipe(n_total: int, width: int) -> str:
    return f"PCA{min(_PRINCIPAL_DIMS, width)},IVF{_n_lists(n_total)},SQ8"


def _n_lists(n_total: int) -> int:
    return int(2 ** max(0, round(math.log2(math.sqrt(max(n_total, 1))))))
