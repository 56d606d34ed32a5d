"""API keys in the store: made once, told by a digest, ended everywhere at once."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import text

from store.backup import back_up, restore
from store.errors import BadArgument, KeyNotFound
from store.key_types import KeyLimits, KeyTerms, KeyUse
from store.schema import migrate
from store.service import Store
from store.types import StoreConfig

TERMS = KeyTerms("Reading room", frozenset({"speak"}))


def renamed(name: str) -> Callable[[KeyTerms], KeyTerms]:
    return lambda terms: replace(terms, name=name)


def test_a_key_is_found_by_its_secret_and_by_nothing_near(store: Store) -> None:
    limits = KeyLimits(60, 10**10, 5)
    ends = datetime.now(UTC) + timedelta(days=1)
    key, secret = store.create_key(replace(TERMS, limits=limits, expires_at=ends))
    assert secret.startswith("vk_") and len(bytes.fromhex(secret[3:])) * 8 - 32 >= 192
    assert secret.startswith(key.prefix) and len(key.prefix) == 11
    found = store.look_up_key(secret)
    assert found.key == key and found.needed
    assert found.key.terms == replace(TERMS, limits=limits, expires_at=ends)
    for other in (secret[:-1], secret.upper(), key.prefix, key.id, "", "\ud800"):
        assert store.look_up_key(other).key is None
    assert store.create_key(TERMS)[1] != secret


def test_the_secret_is_nowhere_but_in_the_reply(
    store: Store, config: StoreConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    key, secret = store.create_key(TERMS)
    store.change_key(key.id, renamed("Other"), revoke=True)
    back_up(config, tmp_path / "backup.zip")
    rows = store._database.read(lambda speakers: speakers._session.execute(text("SELECT * FROM api_keys")).all())
    shown = f"{rows} {store.audit()} {key!r} {caplog.text}"
    assert key.prefix in shown and secret not in shown
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or secret.encode() not in path.read_bytes(), path


def test_the_first_key_is_remembered_when_all_are_gone(store: Store) -> None:
    assert not store.look_up_key(None).needed
    assert not store.look_up_key("anything").needed
    key, secret = store.create_key(TERMS)
    assert store.look_up_key(None).needed
    store.delete_key(key.id)
    assert store.look_up_key(secret).key is None
    assert store.look_up_key(None).needed
    assert store.keys().total == 0


def test_what_one_process_ends_is_over_in_the_other(store: Store, config: StoreConfig) -> None:
    key, secret = store.create_key(TERMS)
    with Store.open(config) as other:
        assert other.look_up_key(secret).key == key
        ended = store.change_key(key.id, lambda terms: terms, revoke=True)
        seen = other.look_up_key(secret).key
        assert seen == ended and seen.revoked_at is not None
        again = store.change_key(key.id, lambda terms: terms, revoke=True)
        assert again.revoked_at == ended.revoked_at
        other.delete_key(key.id)
        assert store.look_up_key(secret).key is None


def test_every_change_is_in_the_audit_and_an_empty_one_is_not(store: Store) -> None:
    key, _ = store.create_key(TERMS, actor="key vk_boss")
    store.change_key(key.id, renamed("Other"))
    store.change_key(key.id, renamed("Other"))
    for _ in range(2):
        store.change_key(key.id, lambda terms: terms, revoke=True)
    store.delete_key(key.id)
    lines = store.audit()
    assert [line.action for line in lines] == ["key_delete", "key_revoke", "key_change", "key_create"]
    assert lines[-1].actor == "key vk_boss"
    assert {str(line.receipt) for line in lines} == {str({"key_id": key.id, "prefix": key.prefix})}


@pytest.mark.parametrize(
    ("terms", "field"),
    [
        (replace(TERMS, name=" \t\u200b"), "name"),
        (replace(TERMS, name="x" * 201), "name"),
        (replace(TERMS, scopes=frozenset()), "scopes"),
        (replace(TERMS, scopes=frozenset({"speak", "root"})), "scopes"),
        (replace(TERMS, limits=KeyLimits(requests_per_minute=0)), "requests_per_minute"),
        (replace(TERMS, limits=KeyLimits(characters_per_month=-1)), "characters_per_month"),
        (replace(TERMS, limits=KeyLimits(speakers=2**31)), "speakers"),
        (replace(TERMS, expires_at=datetime(2020, 1, 1, tzinfo=UTC)), "expires_at"),
        (replace(TERMS, expires_at=datetime(2999, 1, 1)), "expires_at"),
    ],
)
def test_terms_that_cannot_be_are_named(sqlite_store: Store, terms: KeyTerms, field: str) -> None:
    key, _ = sqlite_store.create_key(TERMS)
    for call in (lambda: sqlite_store.create_key(terms), lambda: sqlite_store.change_key(key.id, lambda _: terms)):
        with pytest.raises(BadArgument, match=field) as caught:
            call()
        assert (caught.value.code, caught.value.details["field"]) == ("bad_key", field)
    assert sqlite_store.keys().keys == (key,)


def test_unknown_ids_are_refused(store: Store) -> None:
    for key_id in ("", "nothing", "0b9d3a50-7d0c-4d1e-9a53-1f0f6f9f1d11", "x" * 9999):
        with pytest.raises(KeyNotFound):
            store.change_key(key_id, lambda terms: terms, revoke=True)
        with pytest.raises(KeyNotFound):
            store.delete_key(key_id)


def test_pages_hold_every_key_once(store: Store) -> None:
    made = [store.create_key(renamed(f"key {number}")(TERMS))[0].id for number in range(5)]
    first = store.keys(None, 2)
    second = store.keys(first.next_cursor, 2)
    last = store.keys(second.next_cursor, 2)
    assert [key.id for page in (first, second, last) for key in page.keys] == made
    assert (first.total, last.next_cursor) == (5, None)
    with pytest.raises(BadArgument):
        store.keys("nonsense")


def test_the_last_use_only_moves_forward(store: Store) -> None:
    key, secret = store.create_key(TERMS)
    noon = datetime(2026, 11, 30, 12, tzinfo=UTC)
    store.touch_keys({key.id: KeyUse(noon), "0b9d3a50-7d0c-4d1e-9a53-1f0f6f9f1d11": KeyUse(noon)})
    store.touch_keys({key.id: KeyUse(noon - timedelta(hours=1))})
    found = store.look_up_key(secret).key
    assert found is not None and found.last_used_at == noon


def test_an_ended_key_that_a_backup_brings_back_is_ended_again(config: StoreConfig, tmp_path: Path) -> None:
    with Store.open(config) as store:
        revoked, deleted, kept = (store.create_key(TERMS) for _ in range(3))
        back_up(config, tmp_path / "backup.zip")
        store.change_key(revoked[0].id, lambda terms: terms, revoke=True)
        store.delete_key(deleted[0].id)
    restored = replace(config, database_url=f"sqlite:///{tmp_path}/restored.db")
    migrate(restored)
    restore(restored, tmp_path / "backup.zip")
    with Store.open(restored) as store:
        states = [store.look_up_key(secret).key for _, secret in (revoked, deleted, kept)]
        assert [key is not None and key.revoked_at is None for key in states] == [False, False, True]
        assert [line.action for line in store.audit(2)] == ["key_revoke", "key_revoke"]
    with Store.open(restored) as store:
        assert len([line for line in store.audit() if line.action == "key_revoke"]) == 2
