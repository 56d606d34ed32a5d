"""The audio cache in a store: nothing is left of who is gone, whoever erased them and wherever it lay."""

import json
from dataclasses import replace

import pytest
from sqlalchemy import text
from store_samples import new_speaker, wait_until

from store.audio_places import MemoryPlace
from store.schema import migrate
from store.service import Store
from store.types import KeptSpeech, PrunePolicy, Speaker, StoreConfig


@pytest.fixture
def audio_config(sqlite_config: StoreConfig, place_url: str) -> StoreConfig:
    migrate(sqlite_config)
    return replace(sqlite_config, audio_cache=place_url)


def keep(store: Store, speaker: Speaker, key: str = "k") -> KeptSpeech:
    spoken = KeptSpeech(f"the very voice of {speaker.name}".encode(), 1.0)
    store.keep_speech(speaker.id, speaker.revision, key, spoken)
    assert store.kept_speech(speaker.id, key) == spoken
    return spoken


def everything_in(store: Store, config: StoreConfig, redis_url: str = "") -> bytes:
    """Every file of the state folder, every row of every table, every value of the cache's place."""
    from store.tables import Base

    found = [path.read_bytes() for path in config.state_dir.rglob("*") if path.is_file()]
    with store._database.engine.connect() as connection:
        for table in Base.metadata.sorted_tables:
            found += [repr(tuple(row)).encode() for row in connection.execute(text(f"SELECT * FROM {table.name}"))]
    assert store._audio is not None
    place = store._audio._place
    if isinstance(place, MemoryPlace):
        found += [data for _, data in place._entries.values()]
    elif config.audio_cache.startswith("unix"):
        found += [
            place._client.dump(name)  # type: ignore[attr-defined]
            for name in place._client.keys(f"{place._base}*")  # type: ignore[attr-defined]
        ]
    elif config.audio_cache.startswith("s3"):
        bucket = place._bucket  # type: ignore[attr-defined]
        for entry in place._entries():  # type: ignore[attr-defined]
            found += [entry.name.encode(), place._client.get_object(Bucket=bucket, Key=entry.name)["Body"].read()]  # type: ignore[attr-defined]
    return b"\0".join(found)


@pytest.mark.parametrize("how", ["delete", "purge", "prune", "erase_again"])
def test_no_cached_audio_is_left_of_who_is_gone(how: str, audio_config: StoreConfig) -> None:
    grace = replace(audio_config, grace_s=1000.0 if how == "purge" else 0.0)
    with Store.open(grace) as store:
        anna, ben = store.enrol(new_speaker("Anna", [1])), store.enrol(new_speaker("Ben", [2], pinned=True))
        spoken, other = keep(store, anna), keep(store, ben)
        assert spoken.data in everything_in(store, grace)
        if how == "prune":
            store.prune(PrunePolicy(keep_newest_used=0))
        elif how == "erase_again":
            store._erasures.add([anna.id])
        else:
            store.delete(anna.id)
        if how == "purge":
            store.purge([anna.id])
        if how != "erase_again":
            assert store.kept_speech(anna.id, "k") is None and store.kept_speech(ben.id, "k") == other
            left = everything_in(store, grace)
            assert spoken.data not in left and other.data in left
    with Store.open(grace) as store:
        assert store.kept_speech(anna.id, "k") is None
        assert spoken.data not in everything_in(store, grace)
        store.delete(ben.id)


def test_a_speech_that_ends_after_its_speaker_went_is_not_kept(audio_config: StoreConfig) -> None:
    with Store.open(audio_config) as store:
        anna = store.enrol(new_speaker("Anna", [1]))
        store.delete(anna.id)
        spoken = KeptSpeech(b"too late", 1.0)
        store.keep_speech(anna.id, anna.revision, "k", spoken)
        assert store.kept_speech(anna.id, "k") is None and b"too late" not in everything_in(store, audio_config)
        ben = store.enrol(new_speaker("Ben", [2]))
        store.add_clips(ben.id, ben.encoder_id, new_speaker("", [3]).clips)
        store.keep_speech(ben.id, ben.revision, "k", spoken)
        assert store.kept_speech(ben.id, "k") is None, "its voice is another one by now"
        store.delete(ben.id)


def test_what_a_process_that_died_could_not_drop_goes_at_the_next_start(audio_config: StoreConfig) -> None:
    if audio_config.audio_cache == "memory":
        pytest.skip("it dies with its process")
    with Store.open(audio_config) as store:
        anna = store.enrol(new_speaker("Anna", [1]))
        keep(store, anna)
        with store._database.write() as unit:
            unit.speakers.remove([anna.id], unit.revision)
    with Store.open(audio_config) as store:
        assert store._audio is not None and store._audio._place.speakers() == set()


def test_another_process_forgets_what_it_has_in_memory(config: StoreConfig) -> None:
    config = replace(config, audio_cache="memory")
    with Store.open(config) as active, Store.open(replace(config, watch_every_s=0.2)) as idle:
        anna = active.enrol(new_speaker("Anna", [1]))
        wait_until(lambda: len(idle._index) == 1)
        keep(idle, anna)
        active.delete(anna.id)
        wait_until(lambda: idle._audio is not None and idle._audio._place.speakers() == set())


def test_a_store_without_a_cache_keeps_nothing(sqlite_store: Store) -> None:
    anna = sqlite_store.enrol(new_speaker("Anna", [1]))
    sqlite_store.keep_speech(anna.id, anna.revision, "k", KeptSpeech(b"spoken by Anna", 1.5))
    sqlite_store.tend_audio()
    assert not sqlite_store.keeps_audio and sqlite_store.kept_speech(anna.id, "k") is None
    assert sqlite_store.stats().audio_misses == 0


def test_the_figures_count_hits_and_misses(sqlite_config: StoreConfig) -> None:
    migrate(sqlite_config)
    with Store.open(replace(sqlite_config, audio_cache="memory")) as store:
        anna = store.enrol(new_speaker("Anna", [1]))
        store.kept_speech(anna.id, "k")
        keep(store, anna)
        stats = store.stats()
        assert (stats.audio_hits, stats.audio_misses, stats.audio_faults) == (1, 1, 0)


def test_the_header_of_an_entry_names_no_text(sqlite_config: StoreConfig) -> None:
    migrate(sqlite_config)
    with Store.open(replace(sqlite_config, audio_cache="disk")) as store:
        anna = store.enrol(new_speaker("Anna", [1]))
        keep(store, anna)
        (path,) = (sqlite_config.state_dir / "audio").rglob("k")
        header = json.loads(path.read_bytes().split(b"\n")[1])
        assert set(header) == {"key", "made_at", "duration_s", "facts"}
