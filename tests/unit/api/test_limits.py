import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from api.errors import RateLimited, SettingsError
from api.limits import RateLimiter, Standing, Standings, check_rate
from api.settings import load_settings
from store.key_types import ApiKey, KeyLimits, KeyTerms

KEY = ApiKey("id-1", "vk_12345678", KeyTerms("a", frozenset({"speak"})), datetime.now(UTC))


def redis_server(folder: Path) -> subprocess.Popen[bytes]:
    pytest.importorskip("redis")
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed")
    command = [
        "redis-server",
        "--port",
        "0",
        "--unixsocket",
        str(folder / "socket"),
        "--save",
        "",
        "--dir",
        str(folder),
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    until = time.monotonic() + 20
    while not (folder / "socket").exists():
        assert time.monotonic() < until
        time.sleep(0.02)
    return process


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("redis")
    process = redis_server(folder)
    yield f"redis+unix://{folder}/socket"
    process.kill()
    process.wait()


def of_many(limiters: list[RateLimiter], key_id: str, limit: int, n_asked: int) -> int:
    with ThreadPoolExecutor(8) as threads:
        hits = threads.map(lambda number: limiters[number % len(limiters)].hit(key_id, limit), range(n_asked))
        return sum(allowed for _, allowed in hits)


def test_of_many_at_once_exactly_the_limit_passes() -> None:
    limiter = RateLimiter("memory")
    for number in range(20):
        assert of_many([limiter], f"key-{number}", 1, 16) == 1
    assert of_many([limiter], "another", 30, 64) == 30


def test_processes_that_share_a_redis_share_the_count(redis_url: str) -> None:
    limiters = [RateLimiter(redis_url), RateLimiter(redis_url)]
    assert of_many(limiters, "key", 9, 40) == 9
    assert of_many(limiters, "other key", 2, 8) == 2


def test_a_redis_that_is_gone_leaves_each_process_its_own_count(tmp_path: Path) -> None:
    process = redis_server(tmp_path)
    faults: list[int] = []
    limiter = RateLimiter(f"redis+unix://{tmp_path}/socket", lambda: faults.append(1))
    assert limiter.hit("key", 2)[1]
    assert not faults
    process.kill()
    process.wait()
    assert [limiter.hit("key", 2)[1] for _ in range(3)] == [True, True, False]
    assert len(faults) == 1, "it is left alone for a while"


def test_what_is_left_is_told_and_a_refusal_says_when_to_come_back() -> None:
    limiter, standings = RateLimiter("memory"), Standings()
    key = replace(KEY, terms=replace(KEY.terms, limits=KeyLimits(requests_per_minute=2)))
    left = []
    for _ in range(2):
        check_rate(limiter, key, standings)
        left.append(standings.found["requests"].remaining)
    assert left == [1, 0]
    with pytest.raises(RateLimited, match="2 requests in 60 s") as refused:
        check_rate(limiter, key, standings)
    details = refused.value.details
    assert (details["quota"], details["limit"], details["used"]) == ("requests", 2, 2)
    assert 1 <= int(str(details["retry_after_s"])) <= 60
    assert standings.found["requests"].reset_s == details["retry_after_s"]
    assert datetime.fromisoformat(str(details["resets_at"])) > datetime.now(UTC)


def test_a_key_without_a_limit_is_not_counted() -> None:
    standings = Standings()
    check_rate(RateLimiter("memory"), KEY, standings)
    assert standings.headers() == {}


def test_headers_are_lists_of_structured_fields() -> None:
    standings = Standings()
    standings.note(Standing("requests", 60, 59, 7, 60))
    standings.note(Standing("characters", 1000, 0, 86400, 2592000))
    headers = standings.headers()
    assert headers == {
        "RateLimit-Policy": '"requests";q=60;w=60, "characters";q=1000;w=2592000',
        "RateLimit": '"requests";r=59;t=7, "characters";r=0;t=86400',
    }
    assert all(re.fullmatch(r'("\w+"(;\w=\d+)+(, )?)+', value) for value in headers.values())


@pytest.mark.parametrize("url", ["", "disk", "http://hidden@host", "redis://:hidden@host:port/0", "memcached://host"])
def test_a_storage_that_cannot_be_is_named_without_its_password(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOICEKIN_RATE_STORAGE", url)
    with pytest.raises(SettingsError, match=r"VOICEKIN_RATE_STORAGE: .*memory or redis://") as refused:
        RateLimiter(load_settings().rate_storage.get_secret_value())
    assert "hidden" not in refused.value.message
