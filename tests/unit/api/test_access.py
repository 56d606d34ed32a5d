import pytest

from api.access import Access
from api.errors import AccessRefused
from api.settings import Settings


def _access(api_keys: str = "", admin_key: str = "") -> Access:
    return Access(Settings(api_keys=api_keys, admin_key=admin_key))


def test_without_keys_clients_pass_and_administrators_do_not() -> None:
    access = _access()
    access.check_client(None)
    with pytest.raises(AccessRefused, match="VOICEKIN_ADMIN_KEY") as refused:
        access.check_admin("anything")
    assert refused.value.code == "admin_disabled"


def test_keys_are_told_apart() -> None:
    access = _access("key-one, key-two", "key-boss")
    for key in ("key-one", "key-two", "key-boss"):
        access.check_client(key)
    access.check_admin("key-boss")
    for check, key, code in [
        (access.check_client, None, "key_missing"),
        (access.check_client, "key-on", "key_wrong"),
        (access.check_client, "key-one, key-two", "key_wrong"),
        (access.check_admin, "key-one", "key_wrong"),
        (access.check_admin, "", "key_wrong"),
    ]:
        with pytest.raises(AccessRefused) as refused:
            check(key)
        assert refused.value.code == code
        assert not key or key not in refused.value.message


def test_an_access_does_not_hold_the_keys_themselves() -> None:
    access = _access("quite-secret", "more-secret")
    assert "secret" not in str(vars(access))
