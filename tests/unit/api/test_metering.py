from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from api.access import KeyLog
from api.limits import Standings
from api.metering import KeyMeter
from cloning.errors import Overloaded, SynthesisFailed
from store.connections import connect
from store.errors import QuotaExceeded, SpeakerNotFound
from store.key_types import ApiKey, KeyLimits, KeyTerms
from store.schema import migrate
from store.service import Store
from store.types import StoreConfig


@pytest.fixture
def config(tmp_path: Path) -> StoreConfig:
    found = StoreConfig(f"sqlite:///{tmp_path}/voices.db", tmp_path)
    migrate(found)
    return found


@pytest.fixture
def store(config: StoreConfig) -> Iterator[Store]:
    with Store.open(config) as opened:
        yield opened


def _meter(store: Store, limit: int | None) -> KeyMeter:
    terms = KeyTerms("a", frozenset({"speak"}), KeyLimits(characters_per_month=limit))
    return KeyMeter(store, KeyLog(store.touch_keys), store.create_key(terms)[0], Standings())


def _used(meter: KeyMeter) -> int:
    meter.log.flush()
    return _listed(meter.store, meter.key).characters_this_month


def _listed(store: Store, key: ApiKey) -> ApiKey:
    return next(each for each in store.keys().keys if each.id == key.id)


def _fail(error: BaseException) -> Callable[[], None]:
    def work() -> None:
        raise error

    return work


def test_what_is_spoken_stays_counted(store: Store) -> None:
    for limit in (100, None):
        meter = _meter(store, limit)
        with meter.charged(7):
            pass
        assert _used(meter) == 7
    meter = _meter(store, 100)
    with meter.charged(7):
        standing = meter.standings.found["characters"]
        assert (standing.limit, standing.remaining) == (100, 93)
        assert 28 * 86400 <= standing.window_s <= 31 * 86400 and 0 < standing.reset_s <= standing.window_s


@pytest.mark.parametrize(
    ("error", "used"),
    [
        (SynthesisFailed("synthesis_failed", "ours"), 0),
        (SpeakerNotFound("speaker_not_found", "nothing was spoken"), 0),
        (RuntimeError("a bug"), 0),
        (Overloaded("deadline_missed", "ours"), 0),
        (Overloaded("cancelled", "the listener left"), 7),
        (GeneratorExit(), 7),
    ],
)
def test_what_we_failed_to_speak_is_given_back_and_what_nobody_waited_for_is_not(
    store: Store, error: BaseException, used: int
) -> None:
    meter = _meter(store, 100)
    with pytest.raises(type(error)), meter.charged(7):
        _fail(error)()
    assert _used(meter) == used


def test_a_quota_that_is_used_up_refuses_before_the_work(store: Store) -> None:
    meter = _meter(store, 10)
    with pytest.raises(QuotaExceeded), meter.charged(11):
        raise AssertionError("it was spoken")
    assert _used(meter) == 0


def test_a_stream_pays_once_and_gets_back_what_broke(store: Store) -> None:
    meter = _meter(store, 100)

    def stream(error: BaseException | None) -> Iterator[int]:
        with meter.charged(5):
            yield 1
            if error is not None:
                raise error
            yield 2

    assert list(stream(None)) == [1, 2]
    left = stream(None)
    next(left)
    left.close()  # type: ignore[attr-defined]
    assert _used(meter) == 10
    with pytest.raises(SynthesisFailed):
        list(stream(SynthesisFailed("synthesis_failed", "in the middle")))
    assert _used(meter) == 10


def test_a_database_that_is_gone_refuses_to_count_and_hides_no_error(config: StoreConfig, store: Store) -> None:
    meter = _meter(store, 100)
    engine = connect(config)
    with pytest.raises(SynthesisFailed), meter.charged(5):
        with engine.begin() as connection:
            connection.exec_driver_sql("DROP TABLE key_usage")
        raise SynthesisFailed("synthesis_failed", "what the caller must hear of")
    engine.dispose()


def test_limits_are_those_of_the_key_now(store: Store) -> None:
    meter = _meter(store, 5)
    store.change_key(meter.key.id, lambda terms: replace(terms, limits=KeyLimits(characters_per_month=50)))
    with meter.charged(20):
        pass
    assert _used(meter) == 20
