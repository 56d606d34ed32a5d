"""Ids of very many speakers, in 16 bytes each and without an object for each."""

from collections.abc import Iterable, Iterator, Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

KeyArray = NDArray[np.uint64]
IntArray = NDArray[np.int64]
NOWHERE = -1
_GROUPS = ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))
# Odd, so that ids which share a half are told apart by the other.
_FACTORS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], np.uint64)
# So many ids are first kept one by one; more than this share of the sorted ones are sorted in among them.
_MIN_SORTED = 65536
_FRESH_SHARE = 0.25


class SpeakerIds(Sequence[str]):
    """Ids that read as the strings that they stand for. Shapes: keys uint64 (n, 2), each id's two halves."""

    __slots__ = ("keys",)

    def __init__(self, keys: KeyArray) -> None:
        self.keys = keys

    @classmethod
    def of(cls, ids: Iterable[str]) -> "SpeakerIds":
        """The same ids. Raises: ValueError, where one is no UUID in its usual form."""
        if isinstance(ids, SpeakerIds):
            return ids
        spelt = ids if isinstance(ids, (list, tuple)) else list(ids)
        digits = "".join(spelt).replace("-", "")
        if len(digits) != 32 * len(spelt):
            raise ValueError("an id is no UUID")
        return cls.from_bytes(bytes.fromhex(digits))

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> "SpeakerIds":
        """The ids that `to_bytes` gave."""
        return cls(np.frombuffer(data, ">u8").astype(np.uint64).reshape(-1, 2))

    def to_bytes(self) -> bytes:
        """16 bytes for each."""
        return self.keys.astype(">u8").tobytes()

    def spell(self) -> list[str]:
        """Each in its 36 characters; a million of them in a fraction of a second."""
        digits = np.frombuffer(self.to_bytes().hex().encode(), np.uint8).reshape(-1, 32)
        spelt = np.full((len(digits), 36), ord("-"), np.uint8)
        for n_dashes, (start, stop) in enumerate(_GROUPS):
            spelt[:, start + n_dashes : stop + n_dashes] = digits[:, start:stop]
        text = spelt.tobytes().decode("ascii")
        return [text[start : start + 36] for start in range(0, len(text), 36)]

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self.spell())

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> "SpeakerIds": ...
    def __getitem__(self, place: int | slice) -> "str | SpeakerIds":
        if isinstance(place, slice):
            return SpeakerIds(self.keys[place])
        return SpeakerIds(self.keys[place][np.newaxis]).spell()[0]


class IdTable:
    """Ids and their numbers: most in sorted arrays, those that came lately in a dict, which outdoes the arrays."""

    def __init__(self) -> None:
        self._fresh: dict[tuple[int, int], int] = {}
        self.sort(np.empty((0, 2), np.uint64), np.empty(0, np.int64))

    @classmethod
    def of(cls, ids: SpeakerIds) -> "IdTable":
        """These ids, numbered in their order."""
        table = cls()
        table.sort(ids.keys, np.arange(len(ids)))
        return table

    def sort(self, keys: KeyArray, numbers: IntArray) -> None:
        """Holds these and no others."""
        hashes = hashed(keys)
        order = np.argsort(hashes)
        self._hashes, self._keys, self._numbers = hashes[order], keys[order], numbers[order]
        self._fresh = {}

    def takes(self, n_more: int) -> bool:
        """Whether so many more are added one by one, and not by sorting anew."""
        return len(self._fresh) + n_more <= max(_MIN_SORTED, _FRESH_SHARE * len(self._hashes))

    def add(self, keys: KeyArray, numbers: IntArray) -> None:
        """Adds these, in the place of what was held under their ids."""
        self._fresh.update(zip(map(tuple, keys.tolist()), numbers.tolist(), strict=True))

    def forget(self, keys: KeyArray) -> None:
        """Forgets those of these that came lately; of others the numbers mean nothing any more."""
        if self._fresh:
            for key in map(tuple, keys.tolist()):
                self._fresh.pop(key, None)

    def find(self, keys: KeyArray) -> IntArray:
        """The number of each id, -1 where it was never held."""
        found = self._find_sorted(keys)
        if self._fresh:
            for place, key in enumerate(map(tuple, keys.tolist())):
                if (number := self._fresh.get(key)) is not None:
                    found[place] = number
        return found

    def _find_sorted(self, keys: KeyArray) -> IntArray:
        found = np.full(len(keys), NOWHERE, np.int64)
        hashes = hashed(keys)
        places = np.searchsorted(self._hashes, hashes)
        left = np.arange(len(keys))
        while len(left):
            left = left[places[left] < len(self._hashes)]
            left = left[self._hashes[places[left]] == hashes[left]]
            same = (self._keys[places[left]] == keys[left]).all(axis=1)
            found[left[same]] = self._numbers[places[left[same]]]
            # Another id may have the same hash, and then stands behind.
            left = left[~same]
            places[left] += 1
        return found


def hashed(keys: KeyArray) -> KeyArray:
    """64 bits of each id, by which to sort. Shapes: uint64 (n,)."""
    products = keys * _FACTORS
    mixed: KeyArray = products[:, 0] ^ (products[:, 1] >> np.uint64(32)) ^ products[:, 1]
    return mixed
