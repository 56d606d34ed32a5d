"""How many requests a key may send, counted here or in Redis, and what replies say about limits."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from limits import RateLimitItemPerMinute
from limits.errors import ConfigurationError, StorageError
from limits.storage import MemoryStorage, Storage, storage_from_string
from limits.strategies import MovingWindowRateLimiter

from api.errors import RateLimited, SettingsError

if TYPE_CHECKING:
    from store.key_types import ApiKey

logger = logging.getLogger("voicekin")
# A request waits for Redis no longer than this, and leaves it alone for a while after a fault.
_PATIENCE_S = 0.25
_REST_S = 5.0
_WINDOW_S = 60


@dataclass(frozen=True, slots=True)
class Standing:
    """How a key stands with one of its limits: what is left of `limit`, of which more comes in `reset_s`."""

    policy: str
    limit: int
    remaining: int
    reset_s: int
    window_s: int


@dataclass(slots=True)
class Standings:
    """What a reply says about the limits of its caller.

    Source: draft-ietf-httpapi-ratelimit-headers-10, sections 3 and 4.
    """

    found: dict[str, Standing] = field(default_factory=dict)

    def note(self, standing: Standing) -> None:
        self.found[standing.policy] = standing

    def headers(self) -> dict[str, str]:
        if not self.found:
            return {}
        found = self.found.values()
        return {
            "RateLimit-Policy": ", ".join(f'"{each.policy}";q={each.limit};w={each.window_s}' for each in found),
            "RateLimit": ", ".join(f'"{each.policy}";r={each.remaining};t={each.reset_s}' for each in found),
        }


class RateLimiter:
    """Counts requests in a moving window, so that any 60 seconds hold so many and no more."""

    def __init__(self, url: str, on_fault: Callable[[], None] = lambda: None) -> None:
        """Raises: SettingsError."""
        self._own = _Window(MovingWindowRateLimiter(MemoryStorage()))
        self._shared = None if url == "memory" else _Window(MovingWindowRateLimiter(_redis(url)))
        self._on_fault = on_fault
        self._rests_until_s = 0.0

    def hit(self, key_id: str, limit: int) -> tuple[Standing, bool]:
        """How the key stands after this request, and whether it may be answered.

        Where the shared count cannot be reached this process counts for itself: a fault of Redis stops nobody, and
        still nobody sends without limit.
        """
        if self._shared is not None and time.monotonic() >= self._rests_until_s:
            try:
                return self._shared.hit(key_id, limit)
            except StorageError as error:
                self._rests_until_s = time.monotonic() + _REST_S
                self._on_fault()
                logger.warning("requests are counted by this process alone for %g s: %s", _REST_S, error)
        return self._own.hit(key_id, limit)


class _Window:
    def __init__(self, limiter: MovingWindowRateLimiter) -> None:
        self._limiter = limiter
        # The memory of the library may let two through at once when it forgets old entries meanwhile.
        self._turn = threading.Lock() if isinstance(limiter.storage, MemoryStorage) else None

    def hit(self, key_id: str, limit: int) -> tuple[Standing, bool]:
        if self._turn is None:
            return self._hit(key_id, limit)
        with self._turn:
            return self._hit(key_id, limit)

    def _hit(self, key_id: str, limit: int) -> tuple[Standing, bool]:
        item = RateLimitItemPerMinute(limit, namespace="voicekin")
        allowed = self._limiter.hit(item, key_id)
        reset_time, remaining = self._limiter.get_window_stats(item, key_id)
        reset_s = min(max(1, math.ceil(reset_time - time.time())), _WINDOW_S)
        return Standing("requests", limit, max(0, remaining), reset_s, _WINDOW_S), allowed


def check_rate(limiter: RateLimiter, key: ApiKey, standings: Standings) -> None:
    """Counts a request of the key. Raises: RateLimited."""
    limit = key.terms.limits.requests_per_minute
    if limit is None:
        return
    standing, allowed = limiter.hit(key.id, limit)
    standings.note(standing)
    if not allowed:
        raise RateLimited(
            "rate_limited",
            f"the key has sent {limit} requests in {_WINDOW_S} s, which is its limit; wait {standing.reset_s} s",
            quota="requests",
            limit=limit,
            used=limit - standing.remaining,
            resets_at=f"{datetime.fromtimestamp(time.time() + standing.reset_s, UTC):%Y-%m-%dT%H:%M:%SZ}",
            retry_after_s=standing.reset_s,
        )


def _redis(url: str) -> Storage:
    # Nobody waits for a second try: this process can count for itself.
    options: dict[str, Any] = {"socket_timeout": _PATIENCE_S, "socket_connect_timeout": _PATIENCE_S, "retry": None}
    try:
        storage = storage_from_string(url, wrap_exceptions=True, key_prefix="voicekin-rates", **options)
    except ConfigurationError:
        raise SettingsError("settings_invalid", "VOICEKIN_RATE_STORAGE: Redis needs voicekin[redis]") from None
    except ValueError:
        # Its words may hold the password.
        words = "VOICEKIN_RATE_STORAGE: give memory or redis://HOST/NUMBER"
        raise SettingsError("settings_invalid", words) from None
    assert isinstance(storage, Storage)
    return storage
