"""Jobs on both databases: one owner at a time, pieces whole or not at all."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from job_samples import BOUNDS, ROOM, UNKNOWN, files, job_of, spoken

from store.blobs import write_whole
from store.errors import (
    BadArgument,
    JobNotFound,
    KeyReused,
    SpeakerNotFound,
    StorageFull,
    StoreUnavailable,
    TooManyJobs,
)
from store.jobs_files import PieceFolder
from store.jobs_types import JobBounds
from store.service import Store
from store.types import RequestKey


def test_a_job_is_read_as_it_was_handed_in(store: Store, anna: str, bert: str) -> None:
    job = store.jobs.add(job_of(anna, bert, anna), BOUNDS)
    found = store.jobs.get(job.id.upper())
    assert found == job
    assert (found.state, found.title, found.n_pieces, found.n_chars, found.chapters) == (
        "waiting", "A title", 3, 12, (("", 0),),
    )  # fmt: skip
    assert store.jobs.text(job.id) == "One. Two. Three."
    assert [piece.speaker_id for piece in store.jobs.pieces(job.id)] == [anna, bert, anna]
    for unknown in (UNKNOWN, "../x", "", "x" * 5000):
        with pytest.raises(JobNotFound):
            store.jobs.get(unknown)


def test_the_newest_stands_first_page_by_page(store: Store, anna: str) -> None:
    ids = [store.jobs.add(job_of(anna), BOUNDS).id for _ in range(5)][::-1]
    first = store.jobs.page(None, 2)
    second = store.jobs.page(first.next_cursor, 2)
    third = store.jobs.page(second.next_cursor, 2)
    assert [job.id for page in (first, second, third) for job in page.jobs] == ids
    assert third.next_cursor is None and first.total == 5
    with pytest.raises(BadArgument):
        store.jobs.page("nonsense", 2)


def test_bounds_are_kept_when_a_job_is_handed_in(store: Store, anna: str) -> None:
    store.jobs.add(job_of(anna), JobBounds(2, 2500))
    store.jobs.add(job_of(anna), JobBounds(2, 2500))
    with pytest.raises(TooManyJobs) as refused:
        store.jobs.add(job_of(anna), JobBounds(2, 2500))
    assert refused.value.details == {"limit": 2}
    with pytest.raises(StorageFull) as full:
        store.jobs.add(job_of(anna), JobBounds(3, 2500))
    assert (full.value.code, full.value.details) == ("jobs_full", {"limit_bytes": 2500})
    store.jobs.cancel(store.jobs.page().jobs[0].id)
    assert store.jobs.add(job_of(anna), JobBounds(2, 2500)).state == "waiting", "what was cancelled makes room"


def test_a_speaker_who_is_gone_gets_no_job(store: Store, anna: str, bert: str) -> None:
    store.delete(bert)
    with pytest.raises(SpeakerNotFound):
        store.jobs.add(job_of(anna, bert), BOUNDS)
    assert store.jobs.page().total == 0


def test_one_key_makes_one_job(store: Store, anna: str) -> None:
    key = RequestKey("k", "a" * 64)
    assert store.jobs.added_before(key) is None
    with ThreadPoolExecutor(4) as threads:
        ids = {job.id for job in threads.map(lambda _: store.jobs.add(job_of(anna), BOUNDS, key), range(4))}
    assert len(ids) == 1 and store.jobs.page().total == 1
    known = store.jobs.added_before(key)
    assert known is not None and {known.id} == ids
    with pytest.raises(KeyReused):
        store.jobs.added_before(replace(key, request_sha256="b" * 64))
    store.jobs.delete(known.id)
    with pytest.raises(JobNotFound):
        store.jobs.add(job_of(anna), BOUNDS, key)


def test_a_job_has_one_owner_at_a_time_and_the_oldest_goes_first(store: Store, anna: str) -> None:
    first, second = (store.jobs.add(job_of(anna), BOUNDS) for _ in range(2))
    with ThreadPoolExecutor(8) as threads:
        leased = list(threads.map(lambda n: store.jobs.lease(f"owner-{n}", 60), range(8)))
    assert sorted(job.id for job in leased if job) == sorted([first.id, second.id])
    owner = f"owner-{next(n for n, job in enumerate(leased) if job and job.id == first.id)}"
    assert store.jobs.is_owned(first.id, owner) and not store.jobs.is_owned(first.id, "another")
    assert store.jobs.get(first.id).state == "running"
    store.jobs.hold_back(first.id, owner, 0.0, ("queue_full", "words"))
    assert (store.jobs.get(first.id).state, store.jobs.get(first.id).code) == ("waiting", "queue_full")
    store.jobs.hold_back(first.id, "another", 60.0)
    again = store.jobs.lease("next", 60, second.id)
    assert again is None, "it is somebody's"
    again = store.jobs.lease("next", 60)
    assert again is not None and again.id == first.id


def test_whose_lease_is_over_can_note_nothing_more(store: Store, anna: str) -> None:
    job = store.jobs.add(job_of(anna, anna), BOUNDS)
    assert store.jobs.lease("dead", 0.05)
    time.sleep(0.1)
    assert store.jobs.lease("heir", 60) is not None
    assert not store.jobs.keep(job.id, "dead", spoken(0), ROOM)
    assert not store.jobs.give_up(job.id, "dead", 1, "v", ("synthesis_failed", "words"))
    assert not store.jobs.finish(job.id, "dead", "failed")
    store.jobs.hold_back(job.id, "dead")
    assert store.jobs.is_owned(job.id, "heir") and not files(store), "nor is a file left of it"
    assert store.jobs.keep(job.id, "heir", spoken(0), ROOM) and len(files(store)) == 1


def test_a_renewed_lease_lasts(store: Store, anna: str) -> None:
    job = store.jobs.add(job_of(anna), BOUNDS)
    store.jobs.lease("owner", 0.05)
    store.jobs.renew("owner", [job.id], 60)
    time.sleep(0.1)
    assert store.jobs.lease("another", 60) is None


def test_what_is_given_back_for_a_time_is_left_alone_that_long(store: Store, anna: str) -> None:
    job = store.jobs.add(job_of(anna), BOUNDS)
    store.jobs.lease("owner", 60)
    store.jobs.hold_back(job.id, "owner", 60, ("storage_full", "words"))
    assert store.jobs.lease("another", 60) is None
    other = store.jobs.add(job_of(anna), BOUNDS)
    store.jobs.lease("owner", 60)
    store.jobs.hold_back(other.id, "owner", 0.01, ("storage_full", "words"))
    time.sleep(0.05)
    assert store.jobs.lease("another", 60) is not None


def test_pieces_add_up_and_are_read_back(store: Store, anna: str) -> None:
    job = store.jobs.add(job_of(anna, anna, anna), BOUNDS)
    store.jobs.lease("owner", 60)
    assert store.jobs.keep(job.id, "owner", spoken(1, b"middle"), ROOM)
    assert store.jobs.give_up(job.id, "owner", 2, "v", ("language_unsupported", "words"))
    found = store.jobs.get(job.id)
    assert (found.n_done, found.n_bad, found.chars_done, found.n_samples, found.n_bytes, found.spent_s) == (
        2, 1, 8, 3, 6, 0.5,
    )  # fmt: skip
    assert (found.sample_rate, found.model) == (24000, "model-1")
    (piece,) = store.jobs.pieces(job.id, "done")
    assert store.jobs.read(job.id, piece) == b"middle"
    (bad,) = store.jobs.pieces(job.id, "bad")
    assert (bad.number, bad.code) == (2, "language_unsupported")


def test_a_damaged_file_is_not_read_and_a_lost_one_is_missed(store: Store, anna: str) -> None:
    job = store.jobs.add(job_of(anna, anna), BOUNDS)
    store.jobs.lease("owner", 60)
    for number in range(2):
        store.jobs.keep(job.id, "owner", spoken(number, b"%d sound" % number), ROOM)
    pieces = store.jobs.pieces(job.id)
    first, second = (next(path for path in files(store) if path.name == piece.file) for piece in pieces)
    first.write_bytes(b"0 SOUND")
    second.write_bytes(b"1 s")
    assert store.jobs.read(job.id, pieces[0]) is None
    assert store.jobs.missing(job.id, pieces) == [1]
    (first.parent / "000009-left").write_bytes(b"by a dead writer")
    store.jobs.match(job.id, {anna: "v"})
    assert [piece.state for piece in store.jobs.pieces(job.id)] == ["done", "waiting"]
    assert [path.name for path in files(store)] == [pieces[0].file], "a file without a row counts for nothing"


def test_pieces_of_another_voice_are_spoken_anew(store: Store, anna: str, bert: str) -> None:
    job = store.jobs.add(job_of(anna, bert), BOUNDS)
    store.jobs.lease("owner", 60)
    for number, voice in enumerate(("anna-1", "bert-1")):
        store.jobs.keep(job.id, "owner", spoken(number, voice=voice), ROOM)
    store.jobs.match(job.id, {anna: "anna-1", bert: "bert-2"})
    assert [piece.state for piece in store.jobs.pieces(job.id)] == ["done", "waiting"]
    assert (store.jobs.get(job.id).n_done, len(files(store))) == (1, 1)


def test_more_than_the_room_is_not_kept(store: Store, anna: str) -> None:
    job = store.jobs.add(job_of(anna, anna), BOUNDS)
    store.jobs.lease("owner", 60)
    assert store.jobs.keep(job.id, "owner", spoken(0, b"12345678"), 10)
    with pytest.raises(StorageFull) as full:
        store.jobs.keep(job.id, "owner", spoken(1, b"12345678"), 10)
    assert full.value.code == "jobs_full" and len(files(store)) == 1


def test_a_full_disk_is_told_and_leaves_nothing(store: Store, anna: str, monkeypatch: pytest.MonkeyPatch) -> None:
    job = store.jobs.add(job_of(anna), BOUNDS)
    store.jobs.lease("owner", 60)
    for number, error in ((28, StorageFull), (5, StoreUnavailable)):

        def fail(_: int, number: int = number) -> None:
            raise OSError(number, "no")

        with monkeypatch.context() as broken:
            broken.setattr("store.blobs.os.fsync", fail)
            with pytest.raises(error):
                store.jobs.keep(job.id, "owner", spoken(0), ROOM)
        assert not files(store) and store.jobs.get(job.id).n_done == 0


def test_a_folder_that_is_dropped_while_a_piece_is_written_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, times = PieceFolder(tmp_path, "store"), [2]

    def dropped_first(path: Path, data: bytes) -> None:
        if times[0]:
            times[0] -= 1
            folder.drop("job")
        write_whole(path, data)

    monkeypatch.setattr("store.jobs_files.write_whole", dropped_first)
    name = folder.write("job", 0, b"spoken")
    assert (tmp_path / "jobs" / "store" / "job" / name).read_bytes() == b"spoken"
    times[0] = 10**6
    with pytest.raises(StoreUnavailable):
        folder.write("job", 1, b"spoken")
