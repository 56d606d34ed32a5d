"""Jobs on both databases: one owner at a time, pieces whole or not at all, gone with their speakers."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from store_samples import new_speaker

from store.backup import back_up, restore
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
from store.jobs_types import JobBounds, NewJob, NewPiece, SpokenPiece
from store.schema import migrate
from store.service import Store
from store.types import PrunePolicy, RequestKey, StoreConfig

BOUNDS = JobBounds(100, 10**9)
ROOM = 10**9
UNKNOWN = "00000000-0000-4000-8000-000000000000"
OPTIONS = {"seed": 1}


@pytest.fixture
def anna(store: Store) -> str:
    return store.enrol(new_speaker("Anna", [1])).id


@pytest.fixture
def bert(store: Store) -> str:
    return store.enrol(new_speaker("Bert", [2])).id


def job_of(*speaker_ids: str, text: str = "One. Two. Three.") -> NewJob:
    pieces = tuple(NewPiece(speaker_id, 5 * n, 5 * n + 4, 0.2) for n, speaker_id in enumerate(speaker_ids))
    return NewJob("A title", text, OPTIONS, (("", 0),), pieces, 1000)


def spoken(number: int, data: bytes = b"sound", voice: str = "v") -> SpokenPiece:
    return SpokenPiece(number, data, len(data) // 2, 24000, "model-1", voice, 0.5)


def files(store: Store) -> list[Path]:
    return [path for path in (store._config.state_dir / "jobs").rglob("*") if path.is_file()]


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


def ended(store: Store, job_id: str) -> tuple[str, str, int, int]:
    job = store.jobs.get(job_id)
    return job.state, store.jobs.text(job_id), len(store.jobs.pieces(job_id)), len(files(store))


def test_cancelling_frees_the_room_and_is_done_once(store: Store, anna: str) -> None:
    job = store.jobs.add(job_of(anna, anna), BOUNDS)
    store.jobs.lease("owner", 60)
    store.jobs.keep(job.id, "owner", spoken(0), ROOM)
    first = store.jobs.cancel(job.id)
    assert ended(store, job.id) == ("cancelled", "", 0, 0)
    assert not store.jobs.keep(job.id, "owner", spoken(1), ROOM) and not files(store)
    assert store.jobs.cancel(job.id) == first
    with pytest.raises(JobNotFound):
        store.jobs.cancel(UNKNOWN)


def done_job(store: Store, *speaker_ids: str) -> str:
    job = store.jobs.add(job_of(*speaker_ids), BOUNDS)
    store.jobs.lease("owner", 60, job.id)
    for number in range(len(speaker_ids)):
        store.jobs.keep(job.id, "owner", spoken(number), ROOM)
    assert store.jobs.finish(job.id, "owner", "done")
    return job.id


def test_a_finished_job_stays_finished_until_a_piece_is_lost(store: Store, anna: str) -> None:
    job_id = done_job(store, anna, anna)
    assert store.jobs.cancel(job_id).state == "done" and len(files(store)) == 2
    assert store.jobs.lease("owner", 60) is None
    store.jobs.speak_anew(job_id, [1])
    job = store.jobs.get(job_id)
    assert (job.state, job.n_done, job.expires_at, job.finished_at) == ("waiting", 1, None, None)


@pytest.mark.parametrize("grace_s", [0.0, 3600.0])
@pytest.mark.parametrize("how", ["delete", "prune"])
def test_a_speaker_takes_its_jobs_along(config: StoreConfig, how: str, grace_s: float) -> None:
    with Store.open(replace(config, grace_s=grace_s)) as store:
        anna, bert, carl = (store.enrol(new_speaker(name, [n])).id for n, name in enumerate(("Anna", "Bert", "Carl")))
        running = store.jobs.add(job_of(anna, bert), BOUNDS)
        store.jobs.lease("owner", 60, running.id)
        store.jobs.keep(running.id, "owner", spoken(0), ROOM)
        finished, other = done_job(store, bert), done_job(store, carl)
        store.update(carl, pinned=True)
        if how == "delete":
            store.delete(bert)
        else:
            assert len(store.prune(PrunePolicy(keep_newest_used=0)).victims) == 2
        assert ended(store, running.id)[:3] == ended(store, finished)[:3] == ("speaker_gone", "", 0)
        assert not store.jobs.keep(running.id, "owner", spoken(1), ROOM)
        assert store.jobs.get(other).state == "done" and len(files(store)) == 1, "another's is left alone"


def test_thousands_of_pruned_speakers_take_their_jobs_along(
    sqlite_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.jobs_rows._MANY", 3)
    ids = [sqlite_store.enrol(new_speaker(f"S{n}", [n])).id for n in range(5)]
    jobs = [sqlite_store.jobs.add(job_of(each), BOUNDS).id for each in ids]
    sqlite_store.update(ids[0], pinned=True)
    sqlite_store.prune(PrunePolicy(keep_newest_used=0))
    assert [sqlite_store.jobs.get(job_id).state for job_id in jobs] == ["waiting", *["speaker_gone"] * 4]


def test_another_process_keeps_nothing_of_a_speaker_who_went(config: StoreConfig) -> None:
    """The other process is another store: all that they share is the database and the folder."""
    with Store.open(config) as speaking, Store.open(config) as erasing:
        anna = erasing.enrol(new_speaker("Anna", [1])).id
        job = erasing.jobs.add(job_of(anna, anna), BOUNDS)
        speaking.jobs.lease("owner", 60)
        stop, kept = threading.Event(), list[bool]()

        def speak() -> None:
            while not stop.is_set():
                kept.append(speaking.jobs.keep(job.id, "owner", spoken(0), ROOM))

        thread = threading.Thread(target=speak)
        thread.start()
        while True not in kept and thread.is_alive():
            time.sleep(0.01)
        erasing.delete(anna)
        n_before = len(kept)
        while len(kept) < n_before + 3 and thread.is_alive():
            time.sleep(0.01)
        assert thread.is_alive(), "an erasure elsewhere is no failure of the writer"
        stop.set()
        thread.join()
        assert kept[-1] is False and True not in kept[n_before + 1 :]
        assert not files(speaking) and not erasing.jobs.pieces(job.id)


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


def test_an_expired_job_goes_with_all_it_holds(config: StoreConfig) -> None:
    with Store.open(replace(config, job_keep_s=0.05)) as store:
        anna = store.enrol(new_speaker("Anna", [1])).id
        job_id, waiting = done_job(store, anna), store.jobs.add(job_of(anna), BOUNDS)
        time.sleep(0.1)
        assert store.jobs.expire() == 1 and store.jobs.expire() == 0
        assert [job.id for job in store.jobs.page().jobs] == [waiting.id], "what is not finished never expires"
        assert not files(store)
        with pytest.raises(JobNotFound):
            store.jobs.delete(job_id)


def test_a_deleted_text_is_in_no_file(sqlite_store: Store, sqlite_config: StoreConfig) -> None:
    anna = sqlite_store.enrol(new_speaker("Anna", [1])).id
    words = "a sentence that nobody else has written"
    job = sqlite_store.jobs.add(job_of(anna, text=words), BOUNDS)
    everything = lambda: b"".join(path.read_bytes() for path in sqlite_config.state_dir.rglob("*") if path.is_file())  # noqa: E731
    assert words.encode() in everything()
    sqlite_store.jobs.delete(job.id)
    assert words.encode() not in everything()


def test_folders_that_nobody_knows_go_at_the_start(config: StoreConfig) -> None:
    with Store.open(config) as store:
        anna = store.enrol(new_speaker("Anna", [1])).id
        done_job(store, anna)
        (root,) = (store._config.state_dir / "jobs").iterdir()
    (root / UNKNOWN).mkdir()
    (root / UNKNOWN / "000000-x").write_bytes(b"of a job that was deleted by a process that died")
    with Store.open(config) as store:
        assert len(files(store)) == 1 and not (root / UNKNOWN).exists()


def test_a_restored_job_is_spoken_again(store: Store, anna: str, tmp_path: Path) -> None:
    job_id = done_job(store, anna)
    back_up(store._config, tmp_path / "backup.zip")
    other = StoreConfig(f"sqlite:///{tmp_path}/other/voices.db", tmp_path / "other")
    migrate(other)
    restore(other, tmp_path / "backup.zip")
    with Store.open(other) as restored:
        pieces = restored.jobs.pieces(job_id)
        assert restored.jobs.missing(job_id, pieces) == [0]
        restored.jobs.speak_anew(job_id, [0])
        assert restored.jobs.lease("owner", 60) is not None


def test_a_speaker_erased_since_the_backup_takes_its_restored_jobs_along(
    sqlite_store: Store, sqlite_config: StoreConfig, tmp_path: Path
) -> None:
    anna = sqlite_store.enrol(new_speaker("Anna", [1])).id
    job_id = done_job(sqlite_store, anna)
    back_up(sqlite_config, tmp_path / "backup.zip")
    sqlite_store.delete(anna)
    again = replace(sqlite_config, database_url=f"sqlite:///{tmp_path}/state/again.db")
    migrate(again)
    restore(again, tmp_path / "backup.zip")
    with Store.open(again) as restored:
        assert ended(restored, job_id) == ("speaker_gone", "", 0, 0)


Change = Callable[[Store, str], object]


@pytest.mark.parametrize("change", [lambda s, j: s.jobs.cancel(j), lambda s, j: s.jobs.delete(j)])
def test_ending_a_job_while_it_is_spoken_leaves_no_file(config: StoreConfig, change: Change) -> None:
    with Store.open(config) as speaking, Store.open(config) as ending:
        anna = ending.enrol(new_speaker("Anna", [1])).id
        job = ending.jobs.add(job_of(anna), BOUNDS)
        speaking.jobs.lease("owner", 60)
        assert speaking.jobs.keep(job.id, "owner", spoken(0), ROOM)
        change(ending, job.id)
        assert not speaking.jobs.is_owned(job.id, "owner")
        assert not speaking.jobs.keep(job.id, "owner", spoken(0), ROOM)
        assert not files(speaking) and not list((speaking._config.state_dir / "jobs").glob("*/*"))
