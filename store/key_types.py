"""API keys as the store takes and gives them; all of it frozen, none of it a secret."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

SPEAK, ENROL, ADMIN = "speak", "enrol", "admin"
SCOPES = (SPEAK, ENROL, ADMIN)


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """How much a key may do; None is without limit. A month is one of the calendar, in UTC."""

    requests_per_minute: int | None = None
    characters_per_month: int | None = None
    speakers: int | None = None


@dataclass(frozen=True, slots=True)
class KeyTerms:
    """What a key is for. `admin` includes the other scopes; such a key sees all tenants and has none itself."""

    name: str
    scopes: frozenset[str]
    limits: KeyLimits = KeyLimits()
    expires_at: datetime | None = None
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A stored key: `prefix` is how its secret begins, which is all that is known of it. Times are UTC.

    What it has used is looked up for lists only.
    """

    id: str
    prefix: str
    terms: KeyTerms
    created_at: datetime
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None
    characters_this_month: int = 0
    n_speakers: int = 0

    def expired(self, now: datetime) -> bool:
        """Whether its time is over."""
        return self.terms.expires_at is not None and self.terms.expires_at <= now


@dataclass(frozen=True, slots=True)
class KeyPage:
    """Keys in order of (created_at, id), and the cursor of the next page, None at the end."""

    keys: tuple[ApiKey, ...]
    next_cursor: str | None
    total: int


@dataclass(frozen=True, slots=True)
class KeyLook:
    """What the store knows of a secret. `needed` is whether any key was ever made, so that none must be refused."""

    needed: bool
    key: ApiKey | None


@dataclass(frozen=True, slots=True)
class KeyUse:
    """When a key was last used, and how many characters were spoken that are not counted yet."""

    at: datetime
    characters: int = 0


@dataclass(frozen=True, slots=True)
class Spending:
    """Characters that were counted for a key in a month: how many of how many it has had now."""

    key_id: str
    month: str
    characters: int
    used: int
    limit: int | None


KeyUses = Mapping[str, KeyUse]
