"""Nearest speakers by cosine, on a shelf for each encoder and tenant, so that their vectors never meet.

A small shelf is searched exactly. A large one is first looked through by small codes (`store.coarse`), and what they
name is ranked by the exact vectors; it stays exact until the codes are made, which happens beside searches and changes.
"""

import logging
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from store.coarse import MAX_COARSE_K, RETRAIN_GROWTH, CoarseIndex, sample_size
from store.errors import BadVector, StoreUnavailable
from store.ids import IdTable, IntArray, SpeakerIds, hashed
from store.rows import Shelf, VectorRows
from store.tenants import of_tenant, without_tenant
from store.turns import SharedTurn
from store.types import FloatArray

_log = logging.getLogger(__name__)
_ROWS_PER_STEP = 32768
# Below this share of the limit codes are given up: a store at the limit must not make and drop them in turn.
_KEEP_SHARE = 0.5
# Numbers that are gone still take eight bytes each; past this many a shelf counts from zero again.
_MAX_GONE_NUMBERS = 4_000_000
EXACT_BELOW = 100_000
_MAX_NEAR = 20


@dataclass(frozen=True, slots=True)
class Hit:
    """A neighbour, and the revision of the voice that was compared."""

    speaker_id: str
    revision: int
    cosine: float


Progress = Callable[[int, int], None]


class SpeakerIndex:
    """Safe to use from many threads: a search sees a change whole or not at all, and none waits for another search."""

    def __init__(self, exact_below: int = EXACT_BELOW) -> None:
        self._exact_below = exact_below
        self._turn = SharedTurn()
        self._shelves: dict[str, _Voices] = {}
        self._builder = threading.Lock()
        self._threads: list[threading.Thread] = []

    def __len__(self) -> int:
        with self._turn.shared():
            return sum(len(voices.rows) for voices in self._shelves.values())

    def count(self, encoder_id: str, tenant: str | None = None) -> int:
        """How many voices of this encoder and tenant there are, or of all tenants."""
        with self._turn.shared():
            return sum(len(voices.rows) for voices in self._shelves_of(encoder_id, tenant))

    def apply(self, shelves: Iterable[Shelf], removed: Iterable[str] = (), adopt: bool = False) -> None:
        """Adds or replaces the voices on the shelves, then drops the removed speakers.

        With `adopt` the caller forgets the shelves, whose arrays the index may then change and grow.
        """
        gone = SpeakerIds.of(removed)
        with self._turn.alone():
            for shelf in shelves:
                self._drop(SpeakerIds.of(shelf.speaker_ids))
                self._add(shelf, adopt)
            self._drop(gone)

    def clear(self) -> None:
        """Drops every voice."""
        with self._turn.alone():
            self._shelves.clear()

    def search(self, vector: FloatArray, encoder_id: str, k: int, tenant: str | None = None) -> list[Hit]:
        """At most k voices of this encoder and tenant, or of all tenants, nearest first.

        Shapes: vector float32 (d,). Raises: BadVector.
        """
        with self._turn.shared():
            found = [hit for voices in self._shelves_of(encoder_id, tenant) for hit in _search(voices, vector, k)]
        # One shelf's hits are in order already, and the sort keeps the order of equals.
        return sorted(found, key=lambda hit: -hit.cosine)[:k]

    def revisions(self) -> dict[str, int]:
        """The revision of every voice."""
        found: dict[str, int] = {}
        with self._turn.shared():
            for voices in self._shelves.values():
                ids = SpeakerIds(voices.rows.keys()).spell()
                found.update(zip(ids, voices.rows.revisions().tolist(), strict=True))
        return found

    def holds(self, speaker_ids: SpeakerIds, revisions: IntArray) -> bool:
        """Whether the index holds exactly these voices; in the rarest of cases it says no though it does.

        Shapes: revisions int64 (n,).
        """
        with self._turn.shared():
            shelves = [(voices.rows.keys(), voices.rows.revisions()) for voices in self._shelves.values()]
        if sum(len(keys) for keys, _ in shelves) != len(speaker_ids):
            return False
        if not shelves:
            return True
        mine, of_mine = (np.concatenate(parts) for parts in zip(*shelves, strict=True))
        # Two ids of one hash may come in either order.
        here, there = np.argsort(hashed(mine)), np.argsort(hashed(speaker_ids.keys))
        same = np.array_equal(mine[here], speaker_ids.keys[there])
        return same and np.array_equal(of_mine[here], revisions[there])

    def shelves(self) -> list[Shelf]:
        """A copy of everything."""
        with self._turn.shared():
            return [voices.shelf(encoder_id) for encoder_id, voices in sorted(self._shelves.items())]

    def n_bytes(self) -> int:
        """What vectors and codes take."""
        with self._turn.shared():
            return sum(voices.n_bytes() for voices in self._shelves.values())

    def kinds(self) -> dict[str, str]:
        """How each encoder's voices are searched: exact, or coarse (then ranked exactly)."""
        kinds: dict[str, str] = {}
        with self._turn.shared():
            for name, voices in self._shelves.items():
                kinds[without_tenant(name)] = "coarse" if voices.coarse else kinds.get(without_tenant(name), "exact")
        return kinds

    def near(self, cosine: float) -> dict[str, list[str]]:
        """For each voice that has any, the other voices of its encoder with at least this cosine to it.

        On shelves with codes, only those among its nearest few.
        """
        found: dict[str, list[str]] = {}
        with self._turn.shared():
            for voices in self._shelves.values():
                voices.near(cosine, found)
        return found

    def prepare(self, progress: Progress = lambda done, total: None) -> None:
        """Makes the codes that large shelves lack; searches and changes go on meanwhile."""
        with self._builder:
            for encoder_id, voices in self._lacking():
                self._build(encoder_id, voices, progress)

    def prepare_beside(self) -> None:
        """As `prepare`, in a thread, if there is anything to do and nobody does it yet."""
        if not self._lacking() or self._builder.locked():
            return
        thread = threading.Thread(target=self.prepare, name="voicekin-index", daemon=True)
        self._threads = [each for each in self._threads if each.is_alive()] + [thread]
        thread.start()

    def join(self) -> None:
        """Waits for codes that are being made."""
        for thread in self._threads:
            thread.join()

    def _shelves_of(self, encoder_id: str, tenant: str | None) -> list["_Voices"]:
        if tenant is None:
            return [voices for name, voices in self._shelves.items() if without_tenant(name) == encoder_id]
        voices = self._shelves.get(of_tenant(tenant, encoder_id))
        return [] if voices is None else [voices]

    def _lacking(self) -> list[tuple[str, "_Voices"]]:
        with self._turn.shared():
            return [item for item in self._shelves.items() if item[1].lacks_codes(self._exact_below)]

    def _build(self, encoder_id: str, voices: "_Voices", progress: Progress) -> None:
        with self._turn.shared():
            numbers = voices.rows.numbers()
            chosen = np.random.default_rng(0).permutation(numbers)[: sample_size(len(numbers))]
            _, sample = voices.rows.vectors_of(chosen)
        _log.info("index: %s has %d voices, codes are made for them", encoder_id, len(numbers))
        coarse = CoarseIndex.train(sample, len(numbers))
        for start in range(0, len(numbers), _ROWS_PER_STEP):
            with self._turn.shared():
                step, vectors = voices.rows.vectors_of(numbers[start : start + _ROWS_PER_STEP])
            coarse.add(step, vectors)
            progress(min(start + _ROWS_PER_STEP, len(numbers)), len(numbers))
        with self._turn.alone():
            if self._shelves.get(encoder_id) is voices and voices.rows.n_numbers > numbers[-1]:
                voices.take(coarse, numbers)

    def _add(self, shelf: Shelf, adopt: bool) -> None:
        if not len(shelf.speaker_ids):
            return
        voices = self._shelves.setdefault(shelf.encoder_id, _Voices(VectorRows(shelf.vectors.shape[1])))
        voices.add(shelf, adopt)

    def _drop(self, speaker_ids: SpeakerIds) -> None:
        if not len(speaker_ids):
            return
        table: IdTable | None = None
        for name, voices in list(self._shelves.items()):
            if len(speaker_ids) <= len(voices.rows):
                rows = voices.rows.rows_of(speaker_ids)
            else:
                table = table or IdTable.of(speaker_ids)
                rows = voices.rows.rows_among(table)
            if not len(rows):
                continue
            voices.drop(rows, self._exact_below * _KEEP_SHARE)
            if not len(voices.rows):
                del self._shelves[name]


def _search(voices: "_Voices", vector: FloatArray, k: int) -> list[Hit]:
    if len(vector) != voices.rows.width:
        message = f"the encoder's vectors are {voices.rows.width} wide, but this one is {len(vector)}"
        raise BadVector("bad_vector", message, expected=voices.rows.width, measured=len(vector))
    return voices.search(vector, k)


class _Voices:
    """One shelf's voices, with codes where they are many."""

    def __init__(self, rows: VectorRows) -> None:
        self.rows = rows
        self.coarse: CoarseIndex | None = None

    def add(self, shelf: Shelf, adopt: bool) -> None:
        first = not self.rows.n_numbers
        numbers = self.rows.append(shelf.speaker_ids, shelf.revisions, shelf.vectors, adopt)
        if first and shelf.coarse is not None:
            # Their numbers are rows, and so are those that a first shelf is given.
            self.coarse = CoarseIndex.from_bytes(shelf.coarse, len(numbers))
        elif self.coarse is not None:
            self.coarse.add(numbers, np.ascontiguousarray(shelf.vectors))

    def drop(self, rows: IntArray, keep_codes_above: float) -> None:
        gone = self.rows.remove(rows)
        if self.rows.n_numbers > _MAX_GONE_NUMBERS + 2 * len(self.rows):
            self.rows.renumber()
            self.coarse = None
        if self.coarse is None or len(self.rows) < keep_codes_above:
            self.coarse = None
        else:
            self.coarse.remove(gone, self.rows.n_numbers)

    def lacks_codes(self, exact_below: int) -> bool:
        if self.coarse is None:
            return len(self.rows) >= exact_below
        return len(self.rows) > RETRAIN_GROWTH * self.coarse.n_trained

    def take(self, coarse: CoarseIndex, coded: IntArray) -> None:
        """The codes, made good for what came and went while they were made."""
        row_of_number = self.rows.rows_of_numbers()
        coarse.remove(coded[row_of_number[coded] < 0], self.rows.n_numbers)
        now = self.rows.numbers()
        coarse.add(*self.rows.vectors_of(now[~np.isin(now, coded)]))
        self.coarse = coarse

    def search(self, vector: FloatArray, k: int) -> list[Hit]:
        if self.coarse is None or k > MAX_COARSE_K:
            cosines, rows = self.rows.nearest(vector, k)
        else:
            cosines, rows = self.rows.rank(vector, self.rows.find(self.coarse.candidates(vector, k)), k)
        return list(map(self._hit, rows.tolist(), cosines.tolist()))

    def near(self, cosine: float, found: dict[str, list[str]]) -> None:
        pairs = self.rows.pairs(cosine) if self.coarse is None else self._coarse_pairs(self.coarse, cosine)
        for row, other in pairs:
            if row != other:
                found.setdefault(self.rows.voice(row)[0], []).append(self.rows.voice(other)[0])

    def _coarse_pairs(self, coarse: CoarseIndex, cosine: float) -> Iterator[tuple[int, int]]:
        for row, vector in self.rows.each():
            cosines, others = self.rows.rank(vector, self.rows.find(coarse.candidates(vector, _MAX_NEAR)), _MAX_NEAR)
            yield from ((row, other) for other in others[cosines >= cosine].tolist())

    def shelf(self, encoder_id: str) -> Shelf:
        coarse = None if self.coarse is None else self.coarse.to_bytes(self.rows.rows_of_numbers())
        return self.rows.shelf(encoder_id, coarse)

    def n_bytes(self) -> int:
        return self.rows.n_bytes() + (0 if self.coarse is None else self.coarse.n_bytes())

    def _hit(self, row: int, cosine: float) -> Hit:
        speaker_id, revision = self.rows.voice(row)
        return Hit(speaker_id, revision, max(-1.0, min(1.0, cosine)))


def check_library() -> None:
    """Runs one search, so that a broken FAISS is found at start. Raises: StoreUnavailable."""
    names = [str(uuid.UUID(int=number)) for number in range(3)]
    index = SpeakerIndex()
    index.apply([Shelf("self-test", names, np.zeros(3, dtype=np.int64), np.eye(3, dtype=np.float32))])
    hits = index.search(np.array([0.0, 0.8, 0.6], dtype=np.float32), "self-test", 3)
    if [hit.speaker_id for hit in hits] != [names[1], names[2], names[0]] or abs(hits[0].cosine - 0.8) > 1e-6:
        raise StoreUnavailable("store_unavailable", "FAISS gives wrong neighbours: reinstall faiss-cpu")
