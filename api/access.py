"""Who may call: configured keys, keys of the store, what each is for, and addresses that are safe without keys."""

import hashlib
import hmac
import ipaddress
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlsplit

from api.errors import AccessRefused, SettingsError
from api.settings import Settings
from store.key_types import ADMIN, ENROL, SCOPES, SPEAK, ApiKey, KeyLook, KeyUse, KeyUses
from store.types import Owner

_ADMIN_HELP = "set VOICEKIN_ADMIN_KEY and send it as `Authorization: Bearer KEY`"
_CLIENT_SCOPES = frozenset({SPEAK, ENROL})


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, and what it may do. `key` is the store's, where it has one; `actor` is what the audit says.

    `refusal` is what somebody without a key of ours is told who asks for more than is open to all. `configured` tells
    configured keys apart and says nothing of them; it is empty for others.
    """

    scopes: frozenset[str]
    actor: str = "http"
    key: ApiKey | None = None
    refusal: AccessRefused | None = None
    configured: str = ""

    @property
    def share(self) -> str:
        """With whom it shares the engine: its tenant, or where that has no name, all who use its key."""
        if self.key is None:
            return self.configured
        return share_of(self.key.terms.tenant) or f"key {self.key.id}"

    @property
    def owner(self) -> Owner:
        """On whose behalf its requests are done: an admin sees all tenants, who has no key of the store one."""
        is_admin = ADMIN in self.scopes
        if self.key is None:
            return Owner(None, None if is_admin else "")
        return Owner(self.key.id, None if is_admin else self.key.terms.tenant, self.actor)


class Access:
    """Tells callers by their keys. Configured ones are compared by their hashes, in constant time."""

    def __init__(self, settings: Settings) -> None:
        admin = settings.admin_key.get_secret_value()
        self._admin = frozenset({_digest(admin)} if admin else ())
        self._keys = frozenset(map(_digest, settings.keys()))
        self._required = settings.require_keys or bool(self._keys)

    def configured(self, key: str | None) -> Caller | None:
        """The caller, where its key is a configured one: then nobody else needs to be asked."""
        if key is None:
            return None
        digest = _digest(key)
        # Every key is compared, so that the time says nothing about which one was near.
        is_admin = sum(hmac.compare_digest(digest, known) for known in self._admin) > 0
        is_client = sum(hmac.compare_digest(digest, known) for known in self._keys) > 0
        if is_admin:
            return Caller(frozenset(SCOPES), configured="admin")
        return Caller(_CLIENT_SCOPES, configured=f"configured {digest.hex()[:16]}") if is_client else None

    def caller(self, key: str | None, look_up: Callable[[str | None], KeyLook]) -> Caller:
        """The caller by its key, configured or the store's; anybody, where no key was ever made.

        Raises: AccessRefused, and what looking a key up raises.
        """
        configured = self.configured(key)
        if configured is not None:
            return configured
        if key is None:
            refusal = AccessRefused("key_missing", "a key is needed; send it as `Authorization: Bearer KEY`")
        else:
            refusal = AccessRefused("key_wrong", "the key is none of this server's")
        if key is None and self._required:
            raise refusal
        found = look_up(key)
        if found.key is not None:
            return _caller_of(found.key, datetime.now(UTC))
        if found.needed or self._required:
            raise refusal
        return Caller(_CLIENT_SCOPES, refusal=refusal)

    def check(self, caller: Caller, scopes: frozenset[str]) -> None:
        """Raises: AccessRefused, where the caller has none of these scopes."""
        if caller.scopes & scopes:
            return
        if not self._admin and caller.key is None:
            raise AccessRefused("admin_disabled", f"the admin routes are off, no key is configured; {_ADMIN_HELP}")
        raise caller.refusal or _lacking(scopes)


class KeyLog:
    """Uses of the store's keys, remembered here and written in bulk, so that no request waits for it."""

    def __init__(self, write: Callable[[KeyUses], None]) -> None:
        self._write = write
        self._lock = threading.Lock()
        self._uses: dict[str, KeyUse] = {}

    def add(self, key_id: str, characters: int = 0) -> None:
        with self._lock:
            before = self._uses.get(key_id)
            self._uses[key_id] = KeyUse(datetime.now(UTC), characters + (before.characters if before else 0))

    def flush(self) -> None:
        """Writes what is new. Raises: StoreError; then it is kept for the next time."""
        with self._lock:
            uses, self._uses = self._uses, {}
        try:
            self._write(uses)
        except BaseException:
            for key_id, use in uses.items():
                self._give_back(key_id, use)
            raise

    def _give_back(self, key_id: str, use: KeyUse) -> None:
        with self._lock:
            later = self._uses.get(key_id, use)
            more = later.characters if later is not use else 0
            self._uses[key_id] = KeyUse(max(use.at, later.at), use.characters + more)


def share_of(tenant: str) -> str:
    """The share of a tenant by its name, empty for the one without."""
    return f"tenant {tenant}" if tenant else ""


def origin_allowed(headers: Mapping[str, str], origins: Collection[str]) -> bool:
    """Whether whoever sends these may open a WebSocket: no page, a page of this server, or one of these origins."""
    origin = headers.get("origin")
    return origin is None or origin in origins or "*" in origins or urlsplit(origin).netloc == headers.get("host")


def check_binding(settings: Settings, host: str) -> None:
    """Raises: SettingsError, where anybody on the network could call without a key."""
    if settings.keys() or settings.require_keys or settings.allow_open or _is_loopback(host):
        return
    raise SettingsError(
        "settings_invalid",
        f"host {host} can be reached from the network and no keys are configured; set VOICEKIN_API_KEYS, "
        "or VOICEKIN_REQUIRE_KEYS where `voicekin keys` makes them, listen on 127.0.0.1, or allow it with --allow-open",
    )


def _caller_of(key: ApiKey, now: datetime) -> Caller:
    if key.revoked_at is not None:
        raise AccessRefused("key_revoked", f"the key {key.prefix}... was revoked; ask for a new one")
    if key.expired(now):
        raise AccessRefused("key_expired", f"the key {key.prefix}... expired; ask for a new one, or for more time")
    scopes = key.terms.scopes
    return Caller(frozenset(SCOPES) if ADMIN in scopes else scopes, f"key {key.prefix}", key)


def _lacking(scopes: frozenset[str]) -> AccessRefused:
    needed = " or ".join(scope for scope in SCOPES if scope in scopes)
    return AccessRefused(
        "scope_missing", f"the key is not for this; a key with the scope {needed} is needed", scope=needed
    )


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
