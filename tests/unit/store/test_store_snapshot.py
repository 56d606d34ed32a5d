"""The index on disk: never trusted, never in the way, gone when a voice is erased."""

import logging
import os
import time
from pathlib import Path

import pytest
from sqlalchemy import text
from store_samples import ENCODER, clip, new_speaker, unit_vector

from store.index import SpeakerIndex
from store.schema import migrate
from store.service import Store
from store.snapshot import Snapshot, SnapshotDamaged, SnapshotFile
from store.types import StoreConfig
from store.voices import Position


def fill(config: StoreConfig, n_speakers: int = 5) -> list[str]:
    with Store.open(config) as store:
        return [store.enrol(new_speaker(f"voice {n}", [n])).id for n in range(n_speakers)]


def file_of(config: StoreConfig) -> Path:
    return SnapshotFile(config.state_dir).path


def assert_whole(config: StoreConfig, ids: list[str]) -> None:
    with Store.open(config) as store:
        assert store.index_agrees() and store.stats().index_size == len(ids)
        for number, speaker_id in enumerate(ids):
            assert store.similar(unit_vector(number), ENCODER, 1)[0].speaker_id == speaker_id


def test_a_start_reads_the_snapshot_and_only_follows_what_is_newer(config: StoreConfig) -> None:
    ids = fill(config)
    saved = SnapshotFile(config.state_dir).read()
    assert saved is not None and sorted(saved.shelves[0].speaker_ids) == sorted(ids)
    with Store.open(config) as store:
        stats = store.stats()
        assert stats.snapshot_revision == stats.index_revision == stats.revision and stats.index_repaired == 0
        ids.append(store.enrol(new_speaker("later", [5])).id)
    assert_whole(config, ids)


@pytest.mark.parametrize("keep", [0, 1, 64, 65, 200, 0.5, -1])
def test_a_truncated_snapshot_is_rebuilt(config: StoreConfig, keep: float, caplog: pytest.LogCaptureFixture) -> None:
    ids = fill(config)
    data = file_of(config).read_bytes()
    file_of(config).write_bytes(data[: int(len(data) * keep) if keep == 0.5 else int(keep)])
    with caplog.at_level(logging.WARNING, "store"):
        assert_whole(config, ids)
    assert "rebuilt" in caplog.text
    assert SnapshotFile(config.state_dir).read() is not None


@pytest.mark.parametrize("place", [0, 70, 100, -1, -200])
def test_one_wrong_byte_is_noticed(config: StoreConfig, place: int) -> None:
    ids = fill(config)
    data = bytearray(file_of(config).read_bytes())
    data[place] ^= 1
    file_of(config).write_bytes(data)
    with pytest.raises(SnapshotDamaged):
        SnapshotFile(config.state_dir).read()
    assert_whole(config, ids)


def test_a_missing_snapshot_is_rebuilt(config: StoreConfig) -> None:
    ids = fill(config)
    file_of(config).unlink()
    assert_whole(config, ids)


def test_the_snapshot_of_another_database_is_not_used(config: StoreConfig, tmp_path: Path) -> None:
    other = StoreConfig(f"sqlite:///{tmp_path}/other/voices.db", tmp_path / "other")
    migrate(other)
    fill(other, 9)
    ids = fill(config)
    file_of(other).replace(file_of(config))
    assert_whole(config, ids)


def test_rows_and_index_are_made_equal_at_start(config: StoreConfig, caplog: pytest.LogCaptureFixture) -> None:
    """A snapshot that claims a revision it does not hold: one voice is missing, one is surplus, one is old."""
    ids = fill(config)
    good = SnapshotFile(config.state_dir).read()
    assert good is not None
    index = SpeakerIndex()
    index.apply(good.shelves)
    stranger = "00000000-0000-4000-8000-000000000000"
    shelf = good.shelves[0]
    wrong_ids = (stranger, *shelf.speaker_ids[1:])
    revisions = shelf.revisions.copy()
    revisions[-1] = 0
    file_of(config).unlink()
    wrong = type(shelf)(shelf.encoder_id, wrong_ids, revisions, shelf.vectors)
    SnapshotFile(config.state_dir).write(Snapshot(good.position, [wrong]))
    with caplog.at_level(logging.WARNING, "store"), Store.open(config) as store:
        assert store.stats().index_repaired == 3
        assert store.similar(unit_vector(0), ENCODER, 5)[0].speaker_id == ids[0]
    assert "3 entries" in caplog.text
    assert_whole(config, ids)


def test_a_database_set_back_is_followed_back(config: StoreConfig) -> None:
    ids = fill(config)
    with Store.open(config) as store:
        with store._database.engine.begin() as connection:
            connection.execute(text("DELETE FROM speakers WHERE id = :id"), {"id": ids[-1]})
            connection.execute(text("UPDATE state SET revision = 2"))
        assert [match.speaker_id for match in store.similar(unit_vector(4), ENCODER, 1)] != [ids[-1]]
        assert store.index_agrees() and store.stats().index_size == 4


def test_a_snapshot_that_cannot_be_written_fails_no_enrolment(
    config: StoreConfig, caplog: pytest.LogCaptureFixture
) -> None:
    file_of(config).mkdir(parents=True)
    (file_of(config) / "in the way").touch()
    with caplog.at_level(logging.WARNING, "store"), Store.open(config) as store:
        speaker = store.enrol(new_speaker("Anna", [1]))
        store._follower.save()
        assert store.similar(speaker.vector, ENCODER, 1)[0].speaker_id == speaker.id
        store.delete(speaker.id)
    assert "no snapshot was saved" in caplog.text
    assert not list(config.state_dir.glob("*.part"))


def test_an_older_process_does_not_replace_a_newer_snapshot(tmp_path: Path) -> None:
    file = SnapshotFile(tmp_path)
    file.write(Snapshot(Position("store", 7), []))
    inode = file.path.stat().st_ino
    file.write(Snapshot(Position("store", 6), []))
    assert file.position() == Position("store", 7) and file.path.stat().st_ino == inode
    file.write(Snapshot(Position("other store", 1), []))
    assert file.position() == Position("other store", 1) and file.path.stat().st_ino != inode


def test_an_erased_voice_leaves_the_snapshot_of_every_process(config: StoreConfig) -> None:
    ids = fill(config)
    with Store.open(config) as first, Store.open(config) as second:
        assert file_of(config).exists()
        first.delete(ids[0])
        assert not file_of(config).exists()
        second._follower.save()
        second._follower.follow()
        second._follower.save()
        saved = SnapshotFile(config.state_dir).read()
        assert saved is not None and ids[0] not in saved.shelves[0].speaker_ids


def test_a_snapshot_overtaken_by_an_erasure_is_thrown_away(config: StoreConfig) -> None:
    """Another process erases a voice between this one's last look at SQL and its save."""
    ids = fill(config)
    with Store.open(config) as slow, Store.open(config) as other:
        slow.enrol(new_speaker("one more", [77]))
        other.delete(ids[0])
        slow._follower.save()
        assert not file_of(config).exists()


def test_leftovers_of_dead_writers_are_swept(config: StoreConfig) -> None:
    config.state_dir.mkdir(parents=True, exist_ok=True)
    old, fresh = (config.state_dir / f"speakers.index.{name}.part" for name in ("old", "fresh"))
    old.touch()
    fresh.touch()
    os.utime(old, (time.time() - 7200,) * 2)
    Store.open(config).close()
    assert not old.exists() and fresh.exists()


def test_many_changes_save_without_a_close(config: StoreConfig) -> None:
    with Store.open(config) as store:
        store.enrol(new_speaker("Anna", [1]))
        assert not file_of(config).exists()
        store._follower._n_unsaved = 1023
        store.enrol(new_speaker("Ben", [2]))
        assert file_of(config).exists() and store.stats().snapshot_revision == 2


def test_a_restored_backup_brings_no_erased_voice_back(sqlite_config: StoreConfig) -> None:
    migrate(sqlite_config)
    ids = fill(sqlite_config)
    database = sqlite_config.state_dir / "voices.db"
    backup = database.read_bytes()
    with Store.open(sqlite_config) as store:
        store.delete(ids[0])
    # As if the process had died before it could extend the list: the tombstone does it at the next start.
    (sqlite_config.state_dir / "erased.ids").unlink()
    Store.open(sqlite_config).close()
    for rest in sqlite_config.state_dir.glob("voices.db-*"):
        rest.unlink()
    database.write_bytes(backup)
    with Store.open(sqlite_config) as store:
        assert {speaker.id for speaker in store.list().speakers} == set(ids[1:])
        assert store.index_agrees() and store.similar(clip(0).vector, ENCODER, 1)[0].speaker_id != ids[0]
        assert store.cached_embedding(clip(0).sha256, ENCODER) is None


def test_an_erased_voice_leaves_what_a_dead_writer_left_too(config: StoreConfig) -> None:
    with Store.open(config) as store:
        speaker = store.enrol(new_speaker("Anna", [1]))
        store._follower.save()
        half = config.state_dir / "speakers.index.0.part"
        half.write_bytes((config.state_dir / "speakers.index").read_bytes()[:-1])
        store.delete(speaker.id)
        assert not half.exists()
        store.enrol(new_speaker("Ben", [2]))
        store._follower.save()
        assert (config.state_dir / "speakers.index").exists() and store.index_agrees()
