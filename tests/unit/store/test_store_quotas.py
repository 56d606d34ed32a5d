"""What keys may have: counted where all processes see it, so the last unit is given once."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from store_samples import new_speaker

from store.errors import KeyNotFound, QuotaExceeded
from store.key_types import ApiKey, KeyLimits, KeyTerms, KeyUse
from store.key_usage import KeyUsage, month_begin, month_end, month_of
from store.service import Store
from store.types import Owner, StoreConfig

NOW = datetime(2026, 11, 30, 23, 59, 58, tzinfo=UTC)


def key_with(store: Store, **limits: int | None) -> ApiKey:
    return store.create_key(KeyTerms("a", frozenset({"speak", "enrol"}), KeyLimits(**limits)))[0]


def allowed(call: Callable[[], object]) -> bool:
    try:
        call()
    except QuotaExceeded:
        return False
    return True


def used(store: Store, key: ApiKey) -> tuple[int, int]:
    found = next(each for each in store.keys().keys if each.id == key.id)
    return found.characters_this_month, found.n_speakers


def test_characters_are_given_up_to_the_last_and_no_further(store: Store) -> None:
    key = key_with(store, characters_per_month=10)
    assert store.spend_characters(key.id, 7).used == 7
    with pytest.raises(QuotaExceeded, match="7 of 10 are spoken this month and the text has 4") as refused:
        store.spend_characters(key.id, 4)
    details = refused.value.details
    assert (details["limit"], details["used"], details["asked"], details["quota"]) == (10, 7, 4, "characters")
    assert details["resets_at"] == f"{month_end(datetime.now(UTC)):%Y-%m-%dT%H:%M:%SZ}"
    last = store.spend_characters(key.id, 3)
    assert not allowed(lambda: store.spend_characters(key.id, 1))
    store.give_back_characters(last)
    assert used(store, key) == (7, 0)
    assert not allowed(lambda: store.spend_characters(key_with(store, characters_per_month=0).id, 1))


def test_a_month_ends_in_utc_and_what_is_given_back_goes_to_its_own(store: Store) -> None:
    key = key_with(store, characters_per_month=10)
    with store._database.writing_session() as session:
        usage = KeyUsage(session)
        late = usage.spend(key.id, 10, NOW)
        assert usage.spend(key.id, 10, NOW + timedelta(seconds=2)).month == "2026-12"
        usage.give_back(late)
        assert usage.characters(key.id, NOW) == 0
        assert usage.characters(key.id, NOW + timedelta(seconds=2)) == 10
    west = datetime.fromisoformat("2026-12-31T20:00:00-08:00")
    assert (month_of(west), month_begin(west), month_end(west)) == (
        "2027-01",
        datetime(2027, 1, 1, tzinfo=UTC),
        datetime(2027, 2, 1, tzinfo=UTC),
    )
    assert month_end(NOW.replace(day=1)) == datetime(2026, 12, 1, tzinfo=UTC)


def test_of_many_at_once_exactly_as_many_pass_as_there_are_units(store: Store, config: StoreConfig) -> None:
    key = key_with(store, characters_per_month=9, speakers=2)
    with Store.open(config) as other, ThreadPoolExecutor(8) as threads:
        both = [store.seen_by(Owner(key.id)), other.seen_by(Owner(key.id))]
        spent = threads.map(lambda number: allowed(lambda: both[number % 2].spend_characters(key.id, 2)), range(16))
        assert sum(spent) == 4
        enrolled = threads.map(
            lambda number: allowed(lambda: both[number % 2].enrol(new_speaker(f"n{number}", [number]))), range(8)
        )
        assert sum(enrolled) == 2
    assert used(store, key) == (8, 2)


def test_deleting_a_speaker_makes_room_and_bringing_it_back_needs_some(config: StoreConfig) -> None:
    with Store.open(replace(config, grace_s=3600)) as store:
        key = key_with(store, speakers=1)
        mine = store.seen_by(Owner(key.id))
        first = mine.enrol(new_speaker("first", [1]))
        for call in (mine.check_room, lambda: mine.enrol(new_speaker("second", [2]))):
            with pytest.raises(QuotaExceeded, match="1 of 1") as refused:
                call()
            figures = {"quota": "speakers", "limit": 1, "used": 1, "resets_at": None, "retry_after_s": None}
            assert refused.value.details == figures
        store.enrol(new_speaker("of nobody", [3]))
        store.delete(first.id)
        second = mine.enrol(new_speaker("second", [2]))
        assert not allowed(lambda: store.bring_back(first.id))
        assert [each.id for each in store.deleted()] == [first.id], "what is refused changes nothing"
        store.delete(second.id)
        store.bring_back(first.id)
        assert used(store, key) == (0, 1)
        store.delete(first.id)
        store.delete_key(key.id)
        assert store.bring_back(first.id).name == "first", "a key that is gone limits nobody"


def test_a_limit_that_is_lifted_or_set_holds_from_the_next_request_on(store: Store) -> None:
    key = key_with(store)
    assert store.spend_characters(key.id, 10**9).limit is None
    store.change_key(key.id, lambda terms: replace(terms, limits=KeyLimits(characters_per_month=10**9 + 1)))
    assert store.spend_characters(key.id, 1).used == 10**9 + 1
    assert not allowed(lambda: store.spend_characters(key.id, 1))


def test_a_key_that_was_deleted_meanwhile_has_nothing(store: Store) -> None:
    key = key_with(store, characters_per_month=10, speakers=1)
    spending = store.spend_characters(key.id, 3)
    store.delete_key(key.id)
    store.give_back_characters(spending)
    for call in (lambda: store.spend_characters(key.id, 3), store.seen_by(Owner(key.id)).check_room):
        with pytest.raises(KeyNotFound):
            call()


def test_what_was_spoken_without_a_quota_is_counted_in_bulk(store: Store) -> None:
    key = key_with(store)
    now = datetime.now(UTC)
    store.touch_keys({key.id: KeyUse(now, 5), "0b9d3a50-7d0c-4d1e-9a53-1f0f6f9f1d11": KeyUse(now, 7)})
    store.touch_keys({key.id: KeyUse(now, 6)})
    assert used(store, key) == (11, 0)
