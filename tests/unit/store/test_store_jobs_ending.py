"""How jobs end on both databases: cancelled, gone with their speakers, expired, restored; and what is left of them."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from job_samples import BOUNDS, ROOM, UNKNOWN, done_job, ended, files, job_of, spoken
from store_samples import new_speaker

from store.backup import back_up, restore
from store.errors import JobNotFound
from store.schema import migrate
from store.service import Store
from store.types import PrunePolicy, StoreConfig


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
