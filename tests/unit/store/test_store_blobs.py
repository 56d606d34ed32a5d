"""Kept clips: on disk with their speaker, gone with it, and nothing beside SQL that outlives a start."""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from store_samples import ENCODER, clip, new_speaker, sha256, unit_vector

from store.backup import back_up, restore
from store.blobs import ClipFolder
from store.errors import BadArgument, BadVector, NameTaken, SpeakerNotFound, StorageFull, StoreUnavailable
from store.schema import migrate
from store.service import Store
from store.types import ClipRecord, PrunePolicy, RequestKey, Speaker, StoreConfig

OTHER = "hasp-test"


def audio(*numbers: int) -> dict[str, bytes]:
    """What `store_samples` says the clips' bytes are."""
    return {sha256(number): str(number).encode() for number in numbers}


def files(config: StoreConfig) -> dict[str, set[str]]:
    folders = [each for each in (config.state_dir / "clips").glob("*") if each.is_dir()]
    return {folder.name: {file.name for file in folder.iterdir()} for folder in folders}


def enrol(store: Store, name: str, *numbers: int) -> Speaker:
    return store.enrol(new_speaker(name, numbers), audio=audio(*numbers))


def anew(number: int) -> ClipRecord:
    """The clip as another encoder hears it, whose vectors are wider."""
    return replace(clip(number), vector=unit_vector(100 + number, 48), voiced_s=3.5)


def test_clips_are_kept_with_the_speaker_and_counted(store: Store, config: StoreConfig) -> None:
    ada = enrol(store, "Ada", 1, 2)
    enrol_again = store.add_clips(ada.id, ENCODER, [clip(2), clip(3)], audio=audio(2, 3))
    assert enrol_again.n_clips == 3
    assert files(config) == {ada.id: {sha256(1), sha256(2), sha256(3)}}
    assert store.kept_clips(ada.id) == audio(1, 2, 3)
    assert store.stats().clip_bytes == 3
    (config.state_dir / "clips" / "stranger").mkdir()
    (config.state_dir / "clips" / "stranger" / "file").write_bytes(b"12345")
    assert store.stats().clip_bytes == 3, "the folder is not walked at each call"
    assert (config.state_dir / "clips" / ada.id / sha256(1)).stat().st_mode & 0o077 == 0


def test_nothing_is_kept_unless_it_is_given(store: Store, config: StoreConfig) -> None:
    ada = store.enrol(new_speaker("Ada", [1, 2]))
    assert not (config.state_dir / "clips").exists()
    assert store.stats().clip_bytes == 0
    store.add_clips(ada.id, ENCODER, [clip(3)], audio=audio(3))
    assert store.kept_clips(ada.id) == {sha256(1): None, sha256(2): None, **audio(3)}


def test_a_damaged_clip_is_none(store: Store, config: StoreConfig) -> None:
    ada = enrol(store, "Ada", 1)
    (config.state_dir / "clips" / ada.id / sha256(1)).write_bytes(b"cut")
    assert store.kept_clips(ada.id) == {sha256(1): None}


def test_a_refused_or_repeated_enrolment_keeps_nothing(store: Store, config: StoreConfig) -> None:
    key = RequestKey("key", "0" * 64)
    ada = store.enrol(new_speaker("Ada", [1]), key, audio=audio(1))
    assert store.enrol(new_speaker("Ada", [1]), key, audio=audio(1)).id == ada.id
    with pytest.raises(NameTaken):
        enrol(store, "ada", 2)
    with pytest.raises(BadVector):
        store.add_clips(ada.id, OTHER, [clip(3)], audio=audio(3))
    store.delete(ada.id)
    with pytest.raises(SpeakerNotFound):
        store.add_clips(ada.id, ENCODER, [clip(4)], audio=audio(4))
    assert files(config) == {}


def test_an_erased_speaker_leaves_no_file(store: Store, config: StoreConfig) -> None:
    ada, bert = enrol(store, "Ada", 1), enrol(store, "Bert", 1, 2)
    store.delete(ada.id)
    assert set(files(config)) == {bert.id}
    store.prune(PrunePolicy(older_than_days=0))
    assert files(config) == {}


def test_clips_stay_while_a_speaker_can_come_back_and_go_at_the_purge(config: StoreConfig) -> None:
    with Store.open(replace(config, grace_s=3600)) as store:
        ada = enrol(store, "Ada", 1)
        store.delete(ada.id)
    with Store.open(replace(config, grace_s=3600)) as store:
        store.bring_back(ada.id)
        assert store.kept_clips(ada.id) == audio(1)
        store.prune(PrunePolicy(older_than_days=0))
        assert set(files(config)) == {ada.id}
        store.purge([ada.id])
        assert files(config) == {}


def test_orphans_do_not_outlive_a_start(config: StoreConfig) -> None:
    with Store.open(config) as store:
        ada = enrol(store, "Ada", 1)
    folder = config.state_dir / "clips"
    lone = folder / "0b9d3a50-7d0c-4d1e-9a53-1f0f6f9f1d11"
    for path in (lone / sha256(7), folder / ada.id / sha256(8), folder / ada.id / f"{sha256(9)}.aa.part"):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"left by a crash")
    (folder / "6e5ab53a-3d5f-4d5e-8f0a-1f0f6f9f1d22").mkdir()
    with Store.open(config) as store:
        assert files(config) == {ada.id: {sha256(1)}}
        assert store.kept_clips(ada.id) == audio(1)


def test_a_start_waits_for_an_enrolment_under_way(config: StoreConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its clips are on disk and its rows are not yet: another process that opens the store must not take them."""
    written, go_on = threading.Event(), threading.Event()
    write = ClipFolder.write

    def slow(self: ClipFolder, speaker_id: str, clips: dict[str, bytes]) -> None:
        write(self, speaker_id, clips)
        written.set()
        assert go_on.wait(20)

    with Store.open(config) as store, monkeypatch.context() as patch:
        patch.setattr(ClipFolder, "write", slow)
        enrolling = threading.Thread(target=enrol, args=(store, "Ada", 1))
        enrolling.start()
        assert written.wait(20)
        opening = threading.Thread(target=lambda: Store.open(config).close())
        opening.start()
        opening.join(0.5)
        assert opening.is_alive()
        go_on.set()
        enrolling.join(20)
        opening.join(20)
        assert store.kept_clips(store.find("Ada").id) == audio(1)


def test_a_restored_backup_brings_no_clips_of_the_erased(config: StoreConfig, tmp_path: Path) -> None:
    with Store.open(config) as store:
        ada, bert = enrol(store, "Ada", 1), enrol(store, "Bert", 2)
        back_up(config, tmp_path / "backup.zip")
        store.delete(ada.id)
    fresh = replace(config, database_url=f"sqlite:///{tmp_path}/restored.db")
    migrate(fresh)
    restore(fresh, tmp_path / "backup.zip")
    assert set(files(config)) == {ada.id, bert.id}
    with Store.open(fresh) as store:
        assert set(files(config)) == {bert.id}
        assert store.kept_clips(bert.id) == audio(2)


def test_another_database_neither_takes_nor_adds_clips(config: StoreConfig, tmp_path: Path) -> None:
    with Store.open(config) as store:
        ada = enrol(store, "Ada", 1)
    other = replace(config, database_url=f"sqlite:///{tmp_path}/other.db")
    migrate(other)
    with Store.open(other) as store:
        with pytest.raises(StoreUnavailable, match="another database"):
            enrol(store, "Bert", 2)
        assert store.stats().n_speakers == 0
    assert files(config) == {ada.id: {sha256(1)}}


def test_a_full_disk_enrols_nobody(store: Store, config: StoreConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    store.enrol(new_speaker("Ada", [1]), audio=audio(1))
    with monkeypatch.context() as patch:
        patch.setattr("store.blobs.os.fsync", full)
        with pytest.raises(StorageFull):
            enrol(store, "Bert", 2)
    assert store.stats().n_speakers == len(files(config)) == 1


def test_a_speaker_moves_to_another_encoder(store: Store) -> None:
    ada, bert = enrol(store, "Ada", 1, 2), enrol(store, "Bert", 3)
    moved = store.reembed(ada.id, OTHER, [anew(1), anew(2)], {"voiced_s": 7.0})
    assert (moved.id, moved.encoder_id, moved.n_clips, moved.speech_s) == (ada.id, OTHER, 2, 7.0)
    assert moved.report == {"voiced_s": 7.0} and moved.created_at == ada.created_at
    assert moved.revision > bert.revision
    mean = anew(1).vector.astype(np.float64) + anew(2).vector
    np.testing.assert_allclose(store.get(ada.id).vector, mean / np.linalg.norm(mean), atol=1e-6)
    vector, encoder_id, revision = store.d_vector(ada.id)
    assert (len(vector), encoder_id, revision) == (48, OTHER, moved.revision)
    assert [match.speaker_id for match in store.similar(vector, OTHER, 5)] == [ada.id]
    assert [match.speaker_id for match in store.similar(bert.vector, ENCODER, 5)] == [bert.id]
    assert store.index_agrees()
    assert store.stats().encoder_ids == (ENCODER, OTHER)
    assert store.kept_clips(ada.id) == audio(1, 2)
    assert store.audit(1)[0].action == "reembed"


@pytest.mark.parametrize("clips", [[anew(1)], [anew(1), anew(2), anew(3)], [anew(1), anew(3)]])
def test_only_all_clips_of_a_speaker_move_it(store: Store, clips: list[ClipRecord]) -> None:
    ada = enrol(store, "Ada", 1, 2)
    with pytest.raises(BadArgument, match="must be the 2"):
        store.reembed(ada.id, OTHER, clips)
    assert store.get(ada.id).encoder_id == ENCODER and store.get(ada.id).revision == ada.revision


def test_vectors_of_a_wrong_width_move_nobody(store: Store) -> None:
    ada = enrol(store, "Ada", 1)
    store.reembed(ada.id, OTHER, [anew(1)])
    bert = enrol(store, "Bert", 2)
    with pytest.raises(BadVector):
        store.reembed(bert.id, OTHER, [clip(2)])
    assert store.get(bert.id).encoder_id == ENCODER
    assert store.index_agrees()


def test_a_turn_is_had_by_one_at_a_time_and_leaves_no_empty_folder(tmp_path: Path) -> None:
    folder, inside, most = ClipFolder(tmp_path), 0, 0
    speaker_id = "0b9d3a50-7d0c-4d1e-9a53-1f0f6f9f1d11"

    @contextmanager
    def counted() -> Iterator[None]:
        nonlocal inside, most
        with folder.turn(speaker_id):
            inside += 1
            most = max(most, inside)
            yield
            inside -= 1

    def work(number: int) -> None:
        data = str(number).encode()
        for _ in range(20):
            with counted():
                folder.write(speaker_id, {hashlib.sha256(data).hexdigest(): data})
                folder.keep_only(speaker_id, ())

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert most == 1 and folder.speakers() == []


def test_a_folder_that_cannot_be_made_is_named(store: Store, config: StoreConfig) -> None:
    config.state_dir.mkdir(exist_ok=True)
    (config.state_dir / "clips").write_text("a file where the folder should be")
    with pytest.raises(StoreUnavailable, match="kept clips"):
        enrol(store, "Ada", 1)
    assert store.stats().n_speakers == 0
    store.delete(store.enrol(new_speaker("Bert", [2])).id)
