"""The index in memory: identities after removals, odd queries, many threads."""

import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import faiss
import numpy as np
import pytest
from store_samples import ENCODER, new_speaker, unit_vector

from benchmarks.store_vectors import VectorSource
from store.errors import BadVector, SpeakerNotFound
from store.index import Hit, SpeakerIndex, check_library
from store.rows import Shelf
from store.schema import migrate
from store.service import Store
from store.snapshot import Snapshot, SnapshotFile
from store.types import FloatArray, StoreConfig
from store.voices import Position


def name(number: int) -> str:
    return str(uuid.UUID(int=number))


def shelf(*numbers: int, encoder_id: str = ENCODER, revision: int = 1) -> Shelf:
    vectors = np.stack([unit_vector(number) for number in numbers])
    return Shelf(encoder_id, tuple(map(name, numbers)), np.full(len(numbers), revision, np.int64), vectors)


def nearest(index: SpeakerIndex, number: int, k: int = 1) -> list[str]:
    return [hit.speaker_id for hit in index.search(unit_vector(number), ENCODER, k)]


def test_the_library_works() -> None:
    check_library()


def test_a_removal_shifts_no_identity() -> None:
    index = SpeakerIndex()
    index.apply([shelf(*range(2000, 2500))])
    index.apply([], [name(2000)])
    assert all(nearest(index, number) == [name(number)] for number in range(2001, 2500))
    assert name(2000) not in nearest(index, 2000, 499)


def test_a_speaker_can_go_and_come_back_ten_times() -> None:
    index = SpeakerIndex()
    index.apply([shelf(1)])
    for revision in range(10):
        index.apply([shelf(2, revision=revision)])
        assert len(index) == 2 and index.revisions()[name(2)] == revision
        index.apply([], [name(2), name(2), name(3)])
        assert len(index) == 1 and nearest(index, 2, 10) == [name(1)]


def test_a_changed_voice_replaces_the_old_one() -> None:
    index = SpeakerIndex()
    index.apply([shelf(1, 2)])
    changed = Shelf(ENCODER, (name(1),), np.array([7]), unit_vector(9)[np.newaxis])
    index.apply([changed])
    assert nearest(index, 9) == [name(1)] and len(index) == 2
    assert index.search(unit_vector(9), ENCODER, 1)[0].revision == 7


def test_more_neighbours_than_voices_and_an_empty_index() -> None:
    index = SpeakerIndex()
    assert nearest(index, 1, 5) == []
    index.apply([shelf(1, 2, 3)])
    hits = index.search(unit_vector(1), ENCODER, 1000)
    assert len(hits) == 3 and all(-1.0 <= hit.cosine <= 1.0 for hit in hits)
    index.apply([], map(name, (1, 2, 3)))
    assert nearest(index, 1, 5) == [] and index.shelves() == []


def test_a_query_of_another_width_is_refused() -> None:
    index = SpeakerIndex()
    index.apply([shelf(1)])
    with pytest.raises(BadVector, match="32 wide"):
        index.search(unit_vector(1, 33), ENCODER, 1)


def test_shelves_give_everything_back() -> None:
    index, copy = SpeakerIndex(), SpeakerIndex()
    index.apply([shelf(1, 2, 3), shelf(4, encoder_id="other")])
    index.apply([shelf(5)], [name(1)])
    copy.apply(index.shelves())
    assert copy.revisions() == index.revisions()
    assert [nearest(copy, number, 3) for number in (2, 3, 5)] == [nearest(index, number, 3) for number in (2, 3, 5)]


class TestManyVoices:
    """Codes from 2,000 voices on, so that these tests are quick; so few lists find a little less than many do."""

    N, RECALL = 4000, 0.95

    def vectors(self, seed: int, count: int) -> FloatArray:
        return VectorSource.load().draw(count, seed)

    def shelf(self, numbers: range, vectors: FloatArray) -> Shelf:
        return Shelf(ENCODER, tuple(map(name, numbers)), np.ones(len(numbers), np.int64), vectors)

    @pytest.fixture
    def index(self) -> SpeakerIndex:
        index = SpeakerIndex(exact_below=2000)
        index.apply([self.shelf(range(self.N), self.vectors(1, self.N))])
        assert index.kinds() == {ENCODER: "exact"}
        index.prepare()
        assert index.kinds() == {ENCODER: "coarse"}
        return index

    def recall(self, index: SpeakerIndex, there: dict[int, FloatArray]) -> float:
        numbers, matrix, found = list(there), np.stack(list(there.values())), 0
        for query in self.vectors(9, 50):
            cosines = matrix @ query
            true = {name(numbers[row]) for row in np.argsort(-cosines)[:10]}
            hits = index.search(query, ENCODER, 10)
            assert all(abs(hit.cosine - float(there[uuid.UUID(hit.speaker_id).int] @ query)) < 1e-5 for hit in hits)
            found += len(true & {hit.speaker_id for hit in hits})
        return found / 500

    def test_codes_find_nearly_all_and_cosines_are_exact(self, index: SpeakerIndex) -> None:
        assert self.recall(index, dict(enumerate(self.vectors(1, self.N)))) >= self.RECALL

    @pytest.mark.parametrize("many", [1, 10**6])
    def test_what_comes_and_goes_after_the_codes_were_made_is_followed(
        self, many: int, index: SpeakerIndex, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("store.coarse._MANY", many)
        there = dict(enumerate(self.vectors(1, self.N)))
        fresh = range(self.N, self.N + 500)
        index.apply([self.shelf(fresh, self.vectors(2, 500))], map(name, range(0, 1000, 2)))
        there = {number: vector for number, vector in there.items() if number >= 1000 or number % 2}
        there |= dict(zip(fresh, self.vectors(2, 500), strict=True))
        assert len(index) == self.N and self.recall(index, there) >= self.RECALL
        for number, vector in list(there.items())[::97]:
            assert index.search(vector, ENCODER, 1)[0].speaker_id == name(number)
        assert not {hit.speaker_id for hit in index.search(self.vectors(1, 1)[0], ENCODER, 100)} & {name(0)}

    def test_changes_while_the_codes_are_made_are_not_lost(self) -> None:
        index = SpeakerIndex(exact_below=2000)
        index.apply([self.shelf(range(self.N), self.vectors(1, self.N))])

        def interrupt(done: int, total: int) -> None:
            index.apply([self.shelf(range(self.N, self.N + 10), self.vectors(2, 10))], [name(0)])

        index.prepare(interrupt)
        assert index.kinds() == {ENCODER: "coarse"} and len(index) == self.N + 9
        assert index.search(self.vectors(2, 10)[3], ENCODER, 1)[0].speaker_id == name(self.N + 3)
        assert name(0) not in {hit.speaker_id for hit in index.search(self.vectors(1, 1)[0], ENCODER, 20)}

    def test_a_shelf_that_vanishes_while_its_codes_are_made_stays_gone(self) -> None:
        index = SpeakerIndex(exact_below=2000)
        index.apply([self.shelf(range(self.N), self.vectors(1, self.N))])
        index.prepare(lambda done, total: index.clear())
        assert index.kinds() == {} and len(index) == 0

    def test_codes_survive_a_snapshot_after_changes(self, index: SpeakerIndex, tmp_path: Path) -> None:
        # With everything of one list gone, among other things.
        lists = index._shelves[ENCODER].coarse._lists.invlists
        emptied = faiss.rev_swig_ptr(lists.get_ids(0), lists.list_size(0)).tolist()
        there = {number: vector for number, vector in enumerate(self.vectors(1, self.N)) if number >= 100}
        there = {number: vector for number, vector in there.items() if number not in emptied}
        index.apply([], map(name, {*range(100), *emptied}))
        assert lists.list_size(0) == 0
        file, copy = SnapshotFile(tmp_path), SpeakerIndex(exact_below=2000)
        file.write(Snapshot(Position("store", 1), index.shelves()))
        saved = file.read()
        assert saved is not None and saved.shelves[0].coarse is not None
        copy.apply(saved.shelves)
        assert copy.kinds() == {ENCODER: "coarse"} and copy.revisions() == index.revisions()
        assert self.recall(copy, there) >= self.RECALL
        gone, vector = there.popitem()
        copy.apply([], [name(gone)])
        assert name(gone) not in {hit.speaker_id for hit in copy.search(vector, ENCODER, 100)}

    def test_codes_are_given_up_when_few_are_left_and_made_again_when_many_came(self, index: SpeakerIndex) -> None:
        index.apply([], map(name, range(3100)))
        assert index.kinds() == {ENCODER: "exact"} and len(index) == 900
        index.apply([self.shelf(range(self.N, 2 * self.N), self.vectors(2, self.N))])
        index.prepare_beside()
        index.join()
        assert index.kinds() == {ENCODER: "coarse"}
        index.apply([self.shelf(range(10**5, 10**5 + 5 * self.N), self.vectors(3, 5 * self.N))])
        before = index._shelves[ENCODER].coarse
        index.prepare()
        assert index._shelves[ENCODER].coarse is not before

    def test_more_neighbours_than_codes_are_good_for_are_found_exactly(self, index: SpeakerIndex) -> None:
        query, vectors = self.vectors(9, 1)[0], self.vectors(1, self.N)
        hits = index.search(query, ENCODER, 1000)
        np.testing.assert_allclose([hit.cosine for hit in hits], np.sort(vectors @ query)[::-1][:1000], atol=1e-5)

    def test_removed_voices_are_wiped_from_memory(self, index: SpeakerIndex) -> None:
        secret = self.vectors(1, self.N)[7]
        index.apply([], [name(7)])
        assert secret.tobytes() not in index._shelves[ENCODER].rows._vectors.tobytes()

    def test_numbers_that_are_gone_do_not_pile_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("store.index._MAX_GONE_NUMBERS", 1000)
        index = SpeakerIndex(exact_below=2000)
        for revision in range(30):
            voices = Shelf(ENCODER, tuple(map(name, range(100))), np.full(100, revision), self.vectors(revision, 100))
            index.apply([voices])
        assert index._shelves[ENCODER].rows.n_numbers <= 1300 and len(index) == 100
        assert index.search(self.vectors(29, 100)[5], ENCODER, 1)[0] == Hit(name(5), 29, pytest.approx(1.0, abs=1e-5))


def test_a_store_opens_with_codes_and_searches_by_them(sqlite_config: StoreConfig) -> None:
    migrate(sqlite_config)
    config = replace(sqlite_config, exact_below=40)
    with Store.open(config) as store:
        speakers = [store.enrol(new_speaker(f"voice {number}", [number])) for number in range(60)]
        store._index.join()
        assert store.stats().index_kinds == {ENCODER: "coarse"} and store.stats().index_bytes > 0
        store.delete(speakers[3].id)
    for _ in range(2):
        with Store.open(config) as store:
            assert store.stats().index_kinds == {ENCODER: "coarse"} and store.index_agrees()
            assert store.similar_to(speakers[5].id, 3)
            assert store.similar(speakers[5].vector, ENCODER, 1)[0].speaker_id == speakers[5].id


def test_eight_search_while_two_add_and_two_remove(sqlite_store: Store) -> None:
    """No crash, no stranger, and nobody whose deletion was answered before the search began."""
    kept = {sqlite_store.enrol(new_speaker(f"kept {number}", [number])).id for number in range(4)}
    known, gone, lock, end = set(kept), set[str](), threading.Lock(), time.monotonic() + 2.5

    def add(worker: int) -> int:
        number = 0
        while time.monotonic() < end:
            number += 1
            speaker = sqlite_store.enrol(new_speaker(f"{worker} {number}", [1000 * worker + number]))
            with lock:
                known.add(speaker.id)
        return number

    def remove(worker: int) -> int:
        removed = 0
        while time.monotonic() < end:
            with lock:
                victim = next(iter(known - kept - gone), None)
            if victim is not None:
                try:
                    sqlite_store.delete(victim)
                except SpeakerNotFound:
                    continue
                removed += 1
                with lock:
                    gone.add(victim)
        return removed

    def search(worker: int) -> int:
        searches = 0
        while time.monotonic() < end:
            with lock:
                gone_before = set(gone)
            found = {match.speaker_id for match in sqlite_store.similar(unit_vector(worker), ENCODER, 50)}
            assert not found & gone_before
            assert found
            searches += 1
        return searches

    with ThreadPoolExecutor(12) as threads:
        jobs = [threads.submit(work, n) for n, work in enumerate([add] * 2 + [remove] * 2 + [search] * 8, start=10)]
        counts = [job.result() for job in jobs]
    assert all(count > 0 for count in counts), counts
    assert sqlite_store.index_agrees()
