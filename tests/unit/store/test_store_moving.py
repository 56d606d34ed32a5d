"""Export, import, backup and restore, within and between the two databases, whole or not at all."""

import hashlib
import json
import threading
import zipfile
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from store_samples import ENCODER, clip, new_speaker, unit_vector

from store.archive import MANIFEST
from store.backup import back_up, restore
from store.errors import ArchiveRefused, SchemaMismatch, SpeakerNotFound
from store.schema import migrate
from store.service import Store
from store.types import ClipRecord, NewSpeaker, Speaker, StoreConfig

NOW = datetime(2030, 1, 1, tzinfo=UTC)
Change = Callable[[bytes], bytes | str | None]


@pytest.fixture(params=["sqlite", "postgresql"])
def other(request: pytest.FixtureRequest, tmp_path: Path) -> StoreConfig:
    """A second database, of either kind."""
    state = tmp_path / "other"
    url = f"sqlite:///{state}/voices.db" if request.param == "sqlite" else request.getfixturevalue("postgresql_url")
    config = StoreConfig(url, state)
    migrate(config)
    return config


@pytest.fixture
def empty(tmp_path: Path) -> StoreConfig:
    config = StoreConfig(f"sqlite:///{tmp_path}/n/v.db", tmp_path / "n")
    migrate(config)
    return config


@pytest.fixture
def filled(sqlite_store: Store) -> Store:
    for number in range(5):
        sqlite_store.enrol(new_speaker(f"voice {number}", [number, number + 100], labels={"n": str(number)}))
    wide = NewSpeaker("wide", "another encoder", (clip(7, 64),), report={"coherence": 0.5}, pinned=True)
    sqlite_store.touch({sqlite_store.enrol(wide).id: (NOW, 4)})
    return sqlite_store


def everyone(store: Store) -> dict[str, Speaker]:
    return {speaker.id: speaker for speaker in store.list(limit=100).speakers}


def assert_same(left: dict[str, Speaker], right: dict[str, Speaker]) -> None:
    assert set(left) == set(right)
    for speaker_id, speaker in left.items():
        found = right[speaker_id]
        np.testing.assert_allclose(found.vector, speaker.vector, atol=1e-6)
        assert (
            replace(found, vector=speaker.vector, revision=speaker.revision, updated_at=speaker.updated_at) == speaker
        )


def rewrite(path: Path, name: str, change: Change) -> None:
    """The archive with one member changed, and the manifest as it was."""
    with zipfile.ZipFile(path) as file:
        members: dict[str, bytes | str | None] = {each: file.read(each) for each in file.namelist()}
    members[name] = change(members[name])  # type: ignore[arg-type]
    with zipfile.ZipFile(path, "w") as file:
        for each, data in members.items():
            if data is not None:
                file.writestr(each, data)


def manifest_with(**fields: object) -> Change:
    return lambda data: json.dumps(json.loads(data) | fields)


def test_speakers_move_whole_to_a_store_of_either_kind(filled: Store, other: StoreConfig, tmp_path: Path) -> None:
    assert filled.export(tmp_path / "a.zip") == 6
    with Store.open(other) as store:
        assert store.import_speakers(tmp_path / "a.zip").imported == 6
        assert_same(everyone(filled), everyone(store))
        assert store.index_agrees() and store.similar(unit_vector(3), ENCODER, 1)[0].name == "voice 3"
        again = store.import_speakers(tmp_path / "a.zip")
        assert again.imported == 0 and {reason for _, _, reason in again.refused} == {"exists"}
        assert [line.action for line in store.audit()] == ["import"] * 4
    assert filled.audit()[0].action == "export"


def test_who_cannot_come_is_listed_with_the_reason(filled: Store, other: StoreConfig, tmp_path: Path) -> None:
    filled.export(tmp_path / "a.zip")
    ids = {speaker.name: speaker.id for speaker in everyone(filled).values()}
    with Store.open(other) as store:
        store.enrol(new_speaker("VOICE 1", [50]))
        store.enrol(NewSpeaker("x", "another encoder", (clip(7, 32),)))
        report = store.import_speakers(tmp_path / "a.zip")
        assert {name: reason for _, name, reason in report.refused} == {"voice 1": "name_taken", "wide": "bad_vector"}
        store.delete(ids["voice 2"])
        report = store.import_speakers(tmp_path / "a.zip")
        assert (ids["voice 2"], "voice 2", "erased") in report.refused, "an erased speaker never comes back"
        assert store.index_agrees()


def test_some_are_exported_and_an_unknown_one_is_refused(filled: Store, tmp_path: Path) -> None:
    assert filled.export(tmp_path / "a.zip", list(everyone(filled))[:2]) == 2
    with pytest.raises(SpeakerNotFound):
        filled.export(tmp_path / "b.zip", ["nobody"])
    assert [path.name for path in tmp_path.glob("*.zip*")] == ["a.zip"], "nothing is left of one that failed"
    with pytest.raises(ArchiveRefused, match="cannot be written"):
        filled.export(tmp_path / "nowhere" / "a.zip")


DAMAGES: dict[str, tuple[str, Change]] = {
    "a changed vector": ("speakers-000000.safetensors", lambda data: data[:-1] + bytes([data[-1] ^ 1])),
    "a changed speaker": ("speakers-000001.json", lambda data: data.replace(b"voice 1", b"voice 9")),
    "a missing member": ("speakers-000000.safetensors", lambda data: None),
    "no manifest": (MANIFEST, lambda data: None),
    "a manifest of words": (MANIFEST, lambda data: b"words"),
    "a newer format": (MANIFEST, manifest_with(format="voicekin-speakers-2")),
    "a list for a manifest": (MANIFEST, lambda data: b"[]"),
    "a manifest of less": (MANIFEST, manifest_with(sha256={})),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_archive_is_refused_whole(filled: Store, damage: str, empty: StoreConfig, tmp_path: Path) -> None:
    filled.export(tmp_path / "a.zip")
    rewrite(tmp_path / "a.zip", *DAMAGES[damage])
    with Store.open(empty) as store:
        with pytest.raises(ArchiveRefused):
            store.import_speakers(tmp_path / "a.zip")
        assert store.list().total == 0


@pytest.mark.parametrize("keep", [0, 10, 0.5, -1])
def test_a_truncated_archive_is_refused(filled: Store, keep: float, tmp_path: Path) -> None:
    filled.export(tmp_path / "a.zip")
    data = (tmp_path / "a.zip").read_bytes()
    (tmp_path / "a.zip").write_bytes(data[: int(len(data) * keep) if keep == 0.5 else int(keep)])
    with pytest.raises(ArchiveRefused, match="damaged"):
        filled.import_speakers(tmp_path / "a.zip")
    with pytest.raises(ArchiveRefused):
        filled.import_speakers(tmp_path / "nowhere.zip")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"voiced_s": 4.25', b'"voiced_s": -1.0'),
        (b'"name": "voice 1"', b'"name": ""'),
        (b"+00:00", b""),
        (b'"uses"', b'"use"'),
        (b'"clips": [', b'"clips": [], "other": ['),
    ],
)
def test_a_speaker_that_no_store_would_take_is_refused(
    filled: Store, old: bytes, new: bytes, empty: StoreConfig, tmp_path: Path
) -> None:
    """Honest digests, dishonest contents."""
    path, name = tmp_path / "a.zip", "speakers-000001.json"
    filled.export(path)
    rewrite(path, name, lambda data: data.replace(old, new))
    with zipfile.ZipFile(path) as file:
        changed, manifest = file.read(name), json.loads(file.read(MANIFEST))
    assert new in changed and (not old or old not in changed or old in new)
    digests = manifest["sha256"] | {name: hashlib.sha256(changed).hexdigest()}
    rewrite(path, MANIFEST, manifest_with(sha256=digests))
    with Store.open(empty) as store:
        with pytest.raises(ArchiveRefused, match=r"speakers-000001\.json"):
            store.import_speakers(path)
        assert store.list().total == 0


def test_a_backup_under_load_is_one_moment_and_restores_on_either_kind(
    filled: Store, sqlite_config: StoreConfig, other: StoreConfig, tmp_path: Path
) -> None:
    before, ended = everyone(filled), threading.Event()

    def load() -> None:
        number = 1000
        while not ended.is_set():
            number += 1
            filled.delete(filled.enrol(new_speaker(f"load {number}", [number])).id)

    thread = threading.Thread(target=load)
    thread.start()
    try:
        n_speakers = back_up(sqlite_config, tmp_path / "b.zip")
    finally:
        ended.set()
        thread.join()
    assert restore(other, tmp_path / "b.zip") == n_speakers
    with Store.open(other) as store:
        found = everyone(store)
        assert_same(before, {speaker_id: found[speaker_id] for speaker_id in before})
        assert n_speakers == len(found) <= len(before) + 1 and store.index_agrees()
        assert store.enrol(new_speaker("after", [9000])).revision > max(each.revision for each in before.values())
        with pytest.raises(ArchiveRefused, match="restore into a new one"):
            restore(other, tmp_path / "b.zip")


def test_who_was_erased_since_the_backup_is_erased_again(sqlite_config: StoreConfig, tmp_path: Path) -> None:
    migrate(sqlite_config)
    with Store.open(sqlite_config) as store:
        gone, kept = (store.enrol(new_speaker(name, [n])) for n, name in enumerate(("Anna", "Ben")))
        back_up(sqlite_config, tmp_path / "b.zip")
        store.delete(gone.id)
    for path in sqlite_config.state_dir.glob("voices.db*"):
        path.unlink()
    migrate(sqlite_config)
    assert restore(sqlite_config, tmp_path / "b.zip") == 2
    with Store.open(sqlite_config) as store:
        assert list(everyone(store)) == [kept.id] and store.index_agrees()


def test_a_backup_of_another_schema_or_format_is_refused(
    filled: Store, sqlite_config: StoreConfig, empty: StoreConfig, tmp_path: Path
) -> None:
    back_up(sqlite_config, tmp_path / "b.zip")
    with pytest.raises(SchemaMismatch):
        restore(StoreConfig(f"sqlite:///{tmp_path}/bare.db", tmp_path), tmp_path / "b.zip")
    filled.export(tmp_path / "a.zip")
    with pytest.raises(ArchiveRefused, match="this program reads voicekin-backup-1"):
        restore(empty, tmp_path / "a.zip")
    rewrite(tmp_path / "b.zip", MANIFEST, manifest_with(schema="0001"))
    with pytest.raises(ArchiveRefused, match="schema 0001"):
        restore(empty, tmp_path / "b.zip")
    with Store.open(empty) as store:
        assert store.list().total == 0


def recorded(number: int) -> tuple[ClipRecord, bytes]:
    sound = f"clip {number} as it was uploaded".encode() * 100
    return replace(clip(number), sha256=hashlib.sha256(sound).hexdigest()), sound


@pytest.fixture
def keeping(sqlite_store: Store) -> Store:
    """Voice 0 has both clips kept, voice 1 one of them, voice 2 none."""
    for number in range(3):
        clips = [recorded(number), recorded(100 + number)]
        new = replace(new_speaker(f"voice {number}", []), clips=tuple(record for record, _ in clips))
        sqlite_store.enrol(new, audio={record.sha256: sound for record, sound in clips[: 2 - number]})
    return sqlite_store


def kept(store: Store) -> dict[str, dict[str, bytes | None]]:
    return {speaker.name: dict(store.kept_clips(speaker.id)) for speaker in store.list().speakers}


def test_kept_clips_move_where_both_sides_wish_it(
    keeping: Store, other: StoreConfig, empty: StoreConfig, tmp_path: Path
) -> None:
    expected = kept(keeping)
    keeping.export(tmp_path / "with.zip", with_clips=True)
    keeping.export(tmp_path / "without.zip")
    sounds = [sound for clips in expected.values() for sound in clips.values() if sound]
    assert len(sounds) == 3 and all(sound in (tmp_path / "with.zip").read_bytes() for sound in sounds)
    assert not any(sound in (tmp_path / "without.zip").read_bytes() for sound in sounds)
    with Store.open(empty) as store:
        assert store.import_speakers(tmp_path / "with.zip").imported == 3
        assert {sound for clips in kept(store).values() for sound in clips.values()} == {None}
        assert store.import_speakers(tmp_path / "with.zip", keep_clips=True).imported == 0
        assert {sound for clips in kept(store).values() for sound in clips.values()} == {None}, (
            "nor are they given later"
        )
    with Store.open(other) as store:
        assert store.import_speakers(tmp_path / "with.zip", keep_clips=True).imported == 3
        assert kept(store) == expected
    with Store.open(other) as store:
        assert kept(store) == expected, "a start leaves them"


def test_a_backup_takes_kept_clips_along(keeping: Store, other: StoreConfig, tmp_path: Path) -> None:
    expected = kept(keeping)
    back_up(keeping._config, tmp_path / "all.zip")
    restore(other, tmp_path / "all.zip")
    with Store.open(other) as store:
        assert kept(store) == expected and store.index_agrees()


def test_a_backup_is_not_restored_over_another_database_s_clips(
    keeping: Store, empty: StoreConfig, tmp_path: Path
) -> None:
    back_up(keeping._config, tmp_path / "all.zip")
    with Store.open(empty) as store:
        record, sound = recorded(7)
        speaker = store.enrol(replace(new_speaker("Anna", []), clips=(record,)), audio={record.sha256: sound})
    away = replace(empty, database_url=f"sqlite:///{tmp_path}/away.db")
    migrate(away)
    with pytest.raises(ArchiveRefused, match="move its folder clips away"):
        restore(away, tmp_path / "all.zip")
    with Store.open(empty) as store:
        assert list(store.kept_clips(speaker.id).values()) == [sound]
    with Store.open(away) as store:
        assert store.list().total == 0


@pytest.mark.parametrize("member", ["audio-000000.bin", "audio-000000.index"])
@pytest.mark.parametrize(
    "change", [lambda data: data[:-1], lambda data: b"x" + data[1:], lambda data: data + b"[]", lambda data: b""]
)
def test_damaged_clips_stop_an_import_before_anything_is_added(
    keeping: Store, empty: StoreConfig, tmp_path: Path, member: str, change: Change
) -> None:
    """The manifest is made to agree, so that the clips' own checks must find it."""
    keeping.export(tmp_path / "a.zip", with_clips=True)
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members[member] = change(members[member])  # type: ignore[assignment]
    manifest = json.loads(members[MANIFEST])
    manifest["sha256"][member] = hashlib.sha256(members[member]).hexdigest()
    members[MANIFEST] = json.dumps(manifest).encode()
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    with Store.open(empty) as store:
        with pytest.raises(ArchiveRefused):
            store.import_speakers(tmp_path / "b.zip", keep_clips=True)
        assert store.list().total == 0 and not any((empty.state_dir / "clips").glob("*-*"))
