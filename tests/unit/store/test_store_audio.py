"""The audio cache in every place that it can be in: a real Redis, a real server that speaks S3, a folder, memory."""

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from store_samples import wait_until

from store.audio_cache import AudioCache, Bounds
from store.audio_places import FolderPlace, open_place
from store.errors import StoreUnavailable
from store.types import KeptSpeech

BOUNDS = Bounds(max_bytes=100_000, max_age_s=3600.0)
ANNA, BEN = "00000000-0000-4000-8000-00000000000a", "00000000-0000-4000-8000-00000000000b"
SPEECH = KeptSpeech(b"spoken by Anna", 1.5, {"seed": "3", "notices": "none, é"})
Open = Callable[..., AudioCache]


@pytest.fixture
def open_cache(place_url: str, tmp_path: Path) -> Open:
    def begin(bounds: Bounds = BOUNDS, store_id: str = tmp_path.name, **options: object) -> AudioCache:
        return AudioCache(open_place(place_url, bounds, tmp_path, store_id), bounds, **options)  # type: ignore[arg-type]

    return begin


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
