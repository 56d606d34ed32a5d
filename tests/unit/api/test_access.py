from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from api.access import Access, Caller, KeyLog
from api.errors import AccessRefused
from api.settings import Settings
from store.errors import StoreUnavailable
from store.key_types import ApiKey, KeyLook, KeyTerms, KeyUses

NOW = datetime.now(UTC)
KEY = ApiKey("id-1", "vk_12345678", KeyTerms("a", frozenset({"speak"})), NOW)
CLIENT, ADMIN = frozenset({"speak", "enrol"}), frozenset({"admin"})
EMPTY = KeyLook(needed=False, key=None)


def _access(api_keys: str = "", admin_key: str = "", require_keys: bool = False) -> Access:
    return Access(Settings(api_keys=api_keys, admin_key=admin_key, require_keys=require_keys))


def _look(found: KeyLook) -> Callable[[str | None], KeyLook]:
    return lambda key: found


def _code(call: Callable[[], object]) -> str:
    with pytest.raises(AccessRefused) as refused:
        call()
    return refused.value.code


def test_without_any_key_clients_pass_and_administrators_do_not() -> None:
    access = _access()
    for key in (None, "anything"):
        caller = access.caller(key, _look(EMPTY))
        access.check(caller, CLIENT)
        assert _code(lambda caller=caller: access.check(caller, ADMIN)) == "admin_disabled"  # type: ignore[misc]


def test_configured_keys_are_told_apart_without_asking_anybody() -> None:
    def asked(key: str | None) -> KeyLook:
        raise AssertionError("the store was asked")

    access = _access("key-one, key-two", "key-boss")
    for key in ("key-one", "key-two"):
        caller = access.caller(key, asked)
        assert caller.scopes == CLIENT
        assert _code(lambda caller=caller: access.check(caller, ADMIN)) == "scope_missing"  # type: ignore[misc]
    shares = {access.caller(key, asked).share for key in ("key-one", "key-two", "key-boss")}
    assert len(shares) == 3 and not any("key-" in share for share in shares), "each is a sharer of its own"
    access.check(access.caller("key-boss", asked), ADMIN)
    access.check(access.caller("key-boss", asked), frozenset({"enrol"}))
    assert _code(lambda: access.caller(None, asked)) == "key_missing"


def test_keys_of_one_tenant_share_and_those_of_none_are_each_for_themselves() -> None:
    def share(key_id: str, tenant: str) -> str:
        key = replace(KEY, id=key_id, terms=replace(KEY.terms, tenant=tenant))
        return _access().caller("x", _look(KeyLook(needed=True, key=key))).share

    assert share("id-1", "acme") == share("id-2", "acme") != share("id-3", "other")
    assert (
        len({share("id-1", ""), share("id-2", ""), share("id-1", "id-1"), _access().caller(None, _look(EMPTY)).share})
        == 4
    )


@pytest.mark.parametrize("key", ["key-on", "key-one, key-two", "", "KEY-ONE", "\ud800"])
def test_what_is_no_key_is_wrong_and_never_shown(key: str) -> None:
    with pytest.raises(AccessRefused) as refused:
        _access("key-one").caller(key, _look(EMPTY))
    assert refused.value.code == "key_wrong"
    assert not key or key not in refused.value.message


def test_the_admin_key_alone_leaves_the_door_open_to_clients() -> None:
    access = _access(admin_key="key-boss")
    nobody, guesser = access.caller(None, _look(EMPTY)), access.caller("guess", _look(EMPTY))
    access.check(nobody, CLIENT)
    assert _code(lambda: access.check(nobody, ADMIN)) == "key_missing"
    assert _code(lambda: access.check(guesser, ADMIN)) == "key_wrong"


def test_a_key_that_was_ever_made_closes_the_door() -> None:
    closed = KeyLook(needed=True, key=None)
    assert _code(lambda: _access().caller(None, _look(closed))) == "key_missing"
    assert _code(lambda: _access().caller("guess", _look(closed))) == "key_wrong"
    required = _access(require_keys=True)
    assert _code(lambda: required.caller(None, _look(EMPTY))) == "key_missing"
    assert _code(lambda: required.caller("guess", _look(EMPTY))) == "key_wrong"


def test_a_stored_key_has_its_scopes_and_admin_has_all() -> None:
    access = _access()
    speaker = access.caller("secret", _look(KeyLook(True, KEY)))
    access.check(speaker, CLIENT)
    with pytest.raises(AccessRefused, match="scope admin is needed") as refused:
        access.check(speaker, ADMIN)
    assert (refused.value.code, refused.value.details) == ("scope_missing", {"scope": "admin"})
    boss = replace(KEY, terms=replace(KEY.terms, scopes=ADMIN))
    for scopes in (CLIENT, ADMIN):
        access.check(access.caller("secret", _look(KeyLook(True, boss))), scopes)


@pytest.mark.parametrize(
    ("key", "code"),
    [
        (replace(KEY, revoked_at=NOW), "key_revoked"),
        (replace(KEY, terms=replace(KEY.terms, expires_at=NOW - timedelta(seconds=1))), "key_expired"),
    ],
)
def test_a_key_that_is_over_opens_nothing_even_where_no_key_is_needed(key: ApiKey, code: str) -> None:
    assert _code(lambda: _access().caller("secret", _look(KeyLook(False, key)))) == code


def test_an_access_does_not_hold_the_keys_themselves() -> None:
    access = _access("quite-secret", "more-secret")
    assert "secret" not in str(vars(access))
    assert "secret" not in repr(access.caller("quite-secret", _look(EMPTY)))


def test_uses_that_could_not_be_written_are_written_later() -> None:
    written: list[KeyUses] = []
    broken = True

    def write(uses: KeyUses) -> None:
        if broken:
            raise StoreUnavailable("store_unavailable", "gone")
        written.append(uses)

    log = KeyLog(write)
    log.add("first")
    with pytest.raises(StoreUnavailable):
        log.flush()
    broken = False
    log.add("second")
    log.flush()
    log.flush()
    assert [sorted(uses) for uses in written] == [["first", "second"], []]


def test_a_caller_says_in_the_audit_which_key_it_has() -> None:
    assert Caller(CLIENT).actor == "http"
    assert _access().caller("secret", _look(KeyLook(True, KEY))).actor == "key vk_12345678"
