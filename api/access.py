"""Who may call: keys of clients, the key of the administrator, and addresses that are safe without keys."""

import hashlib
import hmac
import ipaddress
from collections.abc import Iterable

from api.errors import AccessRefused, SettingsError
from api.settings import Settings

_ADMIN_HELP = "set VOICEKIN_ADMIN_KEY and send it as `Authorization: Bearer KEY`"


class Access:
    """Compares keys by their hashes, in constant time."""

    def __init__(self, settings: Settings) -> None:
        admin = settings.admin_key.get_secret_value()
        self._admin = frozenset({_digest(admin)} if admin else ())
        self._keys = frozenset(map(_digest, settings.keys()))

    def check_client(self, key: str | None) -> None:
        """Raises: AccessRefused, where keys are configured and this is none of them."""
        if self._keys:
            _check(key, self._keys | self._admin)

    def check_admin(self, key: str | None) -> None:
        """Raises: AccessRefused; always, where no admin key is configured."""
        if not self._admin:
            raise AccessRefused("admin_disabled", f"the admin routes are off, no key is configured; {_ADMIN_HELP}")
        _check(key, self._admin)


def check_binding(settings: Settings, host: str) -> None:
    """Raises: SettingsError, where anybody on the network could call without a key."""
    if settings.keys() or settings.allow_open or _is_loopback(host):
        return
    raise SettingsError(
        "settings_invalid",
        f"host {host} can be reached from the network and no keys are configured; set VOICEKIN_API_KEYS, "
        "listen on 127.0.0.1, or allow it with --allow-open",
    )


def _check(key: str | None, allowed: Iterable[bytes]) -> None:
    if key is None:
        raise AccessRefused("key_missing", "a key is needed; send it as `Authorization: Bearer KEY`")
    digest = _digest(key)
    # Every key is compared, so that the time says nothing about which one was near.
    if sum(hmac.compare_digest(digest, known) for known in allowed) == 0:
        raise AccessRefused("key_wrong", "the key is not one of the configured keys")


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
