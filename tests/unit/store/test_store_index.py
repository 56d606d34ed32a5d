"""The index in memory: identities after removals, odd queries, many threads."""

import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from store_samples import ENCODER, new_speaker, unit_vector

from store.errors import BadVector, SpeakerNotFound
from store.index import Shelf, SpeakerIndex, check_library
from store.service import Store


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
