"""The audio cache in every place that it can be in: a real Redis, a real server that speaks S3, a folder, memory."""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text
from store_samples import new_speaker

from store.audio_cache import AudioCache, Bounds
from store.audio_places import FolderPlace, MemoryPlace, open_place
from store.errors import StoreUnavailable
from store.schema import migrate
from store.service import Store
from store.types import KeptSpeech, PrunePolicy, Speaker, StoreConfig

BOUNDS = Bounds(max_bytes=100_000, max_age_s=3600.0)
ANNA, BEN = "00000000-0000-4000-8000-00000000000a", "00000000-0000-4000-8000-00000000000b"
SPEECH = KeptSpeech(b"spoken by Anna", 1.5, {"seed": "3", "notices": "none, é"})
Open = Callable[..., AudioCache]


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Redis of these tests alone."""
    pytest.importorskip("redis")
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed")
    folder = tmp_path_factory.mktemp("redis")
    path = folder / "socket"
    command = ["redis-server", "--port", "0", "--unixsocket", str(path), "--save", "", "--dir", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    wait_until(path.exists)
    yield f"unix://{path}"
    process.terminate()
    process.wait(10)


@pytest.fixture(scope="module")
def bucket_url() -> Iterator[str]:
    """A bucket of moto's server, which clients reach as they reach S3."""
    boto3, _ = pytest.importorskip("boto3"), pytest.importorskip("moto.server")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    code = f"from moto.server import main; main(['-H', '127.0.0.1', '-p', '{port}'])"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: is_open(port), within_s=20)
    names = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in names.items():
            patch.setenv(name, value)
        boto3.client("s3").create_bucket(Bucket="speeches")
        yield "s3://speeches/of/tests"
    process.terminate()
    process.wait(10)


@pytest.fixture(params=["memory", "disk", "redis", "s3"])
def place_url(request: pytest.FixtureRequest) -> str:
    fixtures = {"redis": "redis_url", "s3": "bucket_url"}
    return str(request.getfixturevalue(fixtures[request.param])) if request.param in fixtures else request.param


@pytest.fixture
def open_cache(place_url: str, tmp_path: Path) -> Open:
    def begin(bounds: Bounds = BOUNDS, store_id: str = tmp_path.name, **options: object) -> AudioCache:
        return AudioCache(open_place(place_url, bounds, tmp_path, store_id), bounds, **options)  # type: ignore[arg-type]

    return begin


def wait_until(happened: Callable[[], bool], within_s: float = 5.0) -> None:
    until = time.monotonic() + within_s
    while not happened():
        assert time.monotonic() < until
        time.sleep(0.02)


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_what_is_kept_is_given_again_until_its_speaker_goes(open_cache: Open) -> None:
    cache = open_cache()
    assert cache.get(ANNA, "k") is None
    assert cache.put(ANNA, "k", SPEECH) and cache.put(ANNA, "l", SPEECH) and cache.put(BEN, "k", SPEECH)
    assert cache.get(ANNA, "k") == SPEECH and cache.get(BEN, "k") == SPEECH and cache.get(BEN, "l") is None
    cache.drop([ANNA])
    assert cache.get(ANNA, "k") is None and cache.get(ANNA, "l") is None and cache.get(BEN, "k") == SPEECH
    cache.match(lambda found: [])
    assert cache.get(BEN, "k") is None
    usage = cache.usage()
    assert (usage.hits, usage.misses, usage.faults) == (3, 5, 0)


def test_many_speakers_are_dropped_by_looking_up_who_has_something(open_cache: Open) -> None:
    cache = open_cache()
    for speaker_id in (ANNA, BEN):
        cache.put(speaker_id, "k", SPEECH)
    cache.drop([ANNA, *(f"nobody {number}" for number in range(50_000))])
    assert cache.get(ANNA, "k") is None and cache.get(BEN, "k") == SPEECH


def test_the_room_is_bounded_and_one_speech_takes_no_more_than_its_share(open_cache: Open) -> None:
    cache = open_cache()
    for number in range(40):
        assert cache.put(ANNA, f"k{number}", KeptSpeech(bytes(9_000), 1.0))
        time.sleep(0.002)
    there = [number for number in range(40) if cache.get(ANNA, f"k{number}")]
    assert 8 <= len(there) <= 11 and there[-1] == 39
    assert not cache.put(ANNA, "large", KeptSpeech(bytes(30_000), 1.0)) and cache.get(ANNA, "large") is None


def test_what_was_used_last_stays_longest(open_cache: Open, place_url: str) -> None:
    if place_url.startswith("s3"):
        pytest.skip("a bucket knows when an object was made, not when it was read")
    cache = open_cache()
    for number in range(30):
        cache.put(ANNA, f"k{number}", KeptSpeech(bytes(9_000), 1.0))
        time.sleep(0.002)
        assert cache.get(ANNA, "k0"), number


def test_what_is_too_old_is_not_given_and_is_swept_away(open_cache: Open) -> None:
    now = [time.time()]
    cache = open_cache(clock=lambda: now[0])
    cache.put(ANNA, "k", SPEECH)
    now[0] += 3599
    assert cache.get(ANNA, "k") == SPEECH
    now[0] += 2
    assert cache.get(ANNA, "k") is None
    brief = open_cache(Bounds(100_000, 1.0))
    brief.put(BEN, "k", SPEECH)
    if brief._place.is_shared or brief.get(BEN, "k"):
        time.sleep(2.1)  # S3 counts in whole seconds
        brief.tend()
        assert BEN not in brief._place.speakers()


def test_two_databases_in_one_server_do_not_see_each_other(open_cache: Open, place_url: str) -> None:
    if place_url in ("memory", "disk"):
        pytest.skip("each has its own")
    mine, other = open_cache(store_id="mine"), open_cache(store_id="other")
    mine.put(ANNA, "k", SPEECH)
    assert other.get(ANNA, "k") is None
    other.match(lambda found: [])
    other.drop([ANNA])
    assert mine.get(ANNA, "k") == SPEECH
    mine.drop([ANNA])


def test_a_damaged_or_misplaced_entry_is_a_miss(open_cache: Open) -> None:
    cache = open_cache()
    cache.put(ANNA, "k", SPEECH)
    whole = cache._place.get(ANNA, "k")
    assert whole is not None
    for damaged in (b"", b"x", whole[:-1], whole[:70], whole[:80] + b"!" + whole[81:], whole + b"x"):
        cache._place.put(ANNA, "k", damaged)
        assert cache.get(ANNA, "k") is None, damaged
    cache._place.put(ANNA, "other", whole)
    assert cache.get(ANNA, "other") is None
    cache.put(ANNA, "k", SPEECH)
    assert cache.get(ANNA, "k") == SPEECH
    cache.drop([ANNA])


def test_thirty_threads_keep_and_drop_at_once(open_cache: Open, place_url: str) -> None:
    if place_url.startswith("s3"):
        pytest.skip("moto's server answers 500 to writes at the same time")
    cache = open_cache()

    def work(number: int) -> None:
        speaker_id = (ANNA, BEN)[number % 2]
        cache.put(speaker_id, f"k{number % 5}", KeptSpeech(bytes(5_000), float(number)))
        cache.get(speaker_id, f"k{number % 5}")
        if number % 7 == 0:
            cache.drop([speaker_id])

    with ThreadPoolExecutor(30) as threads:
        list(threads.map(work, range(120)))
    cache.drop([ANNA, BEN])
    assert cache.usage().faults == 0 and cache._place.speakers() == set()


def test_redis_counts_exactly(redis_url: str, tmp_path: Path) -> None:
    cache = AudioCache(open_place(redis_url, BOUNDS, tmp_path, "exact"), BOUNDS)
    place = cache._place
    for number in range(60):
        cache.put(ANNA, f"k{number % 20}", KeptSpeech(bytes(1_000 * (number % 7)), 1.0))
    client = place._client  # type: ignore[attr-defined]
    values = client.keys("voicekin:{exact}:audio:value:*")
    n_bytes = sum(client.strlen(name) for name in values)
    assert n_bytes == int(client.get("voicekin:{exact}:audio:bytes")) <= BOUNDS.max_bytes
    cache.drop([ANNA])
    left = {name: client.type(name) for name in client.keys("voicekin:{exact}:*")}
    assert left == {b"voicekin:{exact}:audio:bytes": b"string"} and int(client.get(*left)) == 0


def test_a_redis_that_is_gone_makes_misses_and_what_it_could_not_drop_goes_later(tmp_path: Path) -> None:
    pytest.importorskip("redis")
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed")
    path = tmp_path / "socket"
    command = ["redis-server", "--port", "0", "--unixsocket", str(path), "--dir", str(tmp_path)]

    def begin() -> "subprocess.Popen[bytes]":
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        wait_until(path.exists)
        return process

    cache = AudioCache(open_place(f"unix://{path}", BOUNDS, tmp_path, "s"), BOUNDS)
    assert cache.get(ANNA, "k") is None, "it was never there"
    process = begin()
    cache._rests_until_s = 0.0
    cache.put(ANNA, "k", SPEECH)
    assert cache.get(ANNA, "k") == SPEECH
    process.terminate()
    process.wait(10)
    before = cache.usage().faults
    assert [cache.get(ANNA, "k") for _ in range(50)] == [None] * 50
    assert cache.put(ANNA, "l", SPEECH)
    assert cache.usage().faults == before + 1, "one who waits warns the others"
    cache.drop([ANNA])
    path.unlink(missing_ok=True)
    process = begin()
    cache._rests_until_s = 0.0
    assert cache.get(ANNA, "k") == SPEECH, "Redis brought it back from its own file"
    cache.tend()
    assert cache.get(ANNA, "k") is None
    assert cache.usage().faults >= 2
    process.terminate()
    process.wait(10)


def test_a_full_disk_keeps_nothing_and_fails_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = AudioCache(FolderPlace(tmp_path / "audio", BOUNDS), BOUNDS)
    cache.put(ANNA, "k", SPEECH)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("store.audio_places.os.open", full)
        cache.put(ANNA, "l", SPEECH)
    cache._rests_until_s = 0.0
    assert cache.get(ANNA, "k") == SPEECH and cache.get(ANNA, "l") is None
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["k"]
    assert os.stat(tmp_path / "audio" / ANNA / "k").st_mode & 0o077 == 0


def test_what_a_process_left_half_written_goes_with_its_speaker(tmp_path: Path) -> None:
    cache = AudioCache(FolderPlace(tmp_path / "audio", BOUNDS), BOUNDS)
    cache.put(ANNA, "k", SPEECH)
    (tmp_path / "audio" / ANNA / "l.0.part").write_bytes(b"half")
    cache.drop([ANNA])
    assert list((tmp_path / "audio").iterdir()) == []


@pytest.mark.parametrize("url", ["", "somewhere", "http://x", "redis://h:port/", "ftp://x"])
def test_a_place_that_is_none_says_what_to_give(url: str, tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="audio cache"):
        open_place(url, BOUNDS, tmp_path, "s")


@pytest.mark.parametrize(("url", "library", "extra"), [("rediss://h", "redis", "redis"), ("s3://b", "boto3", "s3")])
def test_a_missing_library_is_named(
    url: str, library: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, f"store.audio_{extra}", raising=False)
    with pytest.raises(StoreUnavailable, match=rf"voicekin\[{extra}\]"):
        open_place(url, BOUNDS, tmp_path, "s")


# --- in a store


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
    sqlite_store.keep_speech(anna.id, anna.revision, "k", SPEECH)
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


def test_threads_see_no_half_entry(tmp_path: Path) -> None:
    cache = AudioCache(FolderPlace(tmp_path / "audio", BOUNDS), BOUNDS)
    ended = threading.Event()

    def write() -> None:
        while not ended.is_set():
            cache.put(ANNA, "k", KeptSpeech(bytes(20_000), 1.0))

    cache.put(ANNA, "k", KeptSpeech(bytes(20_000), 1.0))
    thread = threading.Thread(target=write)
    thread.start()
    found = [cache.get(ANNA, "k") for _ in range(300)]
    ended.set()
    thread.join()
    assert all(each is not None and len(each.data) == 20_000 for each in found)
