"""The repository of API keys, inside a transaction that someone else opened. Of a secret only its SHA-256 is kept."""

import hashlib
import secrets
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from sqlalchemy import delete, func, literal, or_, select, tuple_, update
from sqlalchemy.orm import Session

from store.checks import NAME_CHARACTERS, check_tenant, clean_text, is_visible, read_cursor, write_cursor
from store.errors import BadArgument, KeyNotFound
from store.key_tables import ApiKeyRow
from store.key_types import ADMIN, SCOPES, ApiKey, KeyLimits, KeyPage, KeyTerms, KeyUses
from store.key_usage import KeyUsage
from store.tables import TENANT_CHARACTERS, StateRow, UtcDateTime

MARK = "vk_"
# What is shown of a secret says nothing about the 192 bits after it.
_SHOWN_BYTES, _HIDDEN_BYTES = 4, 24
# The least and the most of each limit, which both databases hold.
LIMITS = {"requests_per_minute": (1, 10**6), "characters_per_month": (0, 10**12), "speakers": (0, 10**9)}


class KeyRepository:
    """API keys and when they were last used."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, terms: KeyTerms, secret: str) -> ApiKey:
        """The new key of this secret; from now on the store needs a key. Raises: BadArgument (bad_key)."""
        checked, now = check_terms(terms), datetime.now(UTC)
        row = ApiKeyRow(id=str(uuid.uuid4()), prefix=_shown(secret), secret_sha256=digest(secret), created_at=now)
        _write_terms(row, checked)
        self._session.add(row)
        self._session.flush()
        self._session.execute(update(StateRow).values(keys_needed=True))
        return _key(row)

    def needed(self) -> bool:
        """Whether any key was ever made."""
        return bool(self._session.scalar(select(StateRow.keys_needed)))

    def of_secret(self, secret: str) -> ApiKey | None:
        """The key of this secret, live or not."""
        row = self._session.scalar(select(ApiKeyRow).where(ApiKeyRow.secret_sha256 == digest(secret)))
        return None if row is None else _key(row)

    def page(self, cursor: str | None, limit: int) -> KeyPage:
        """At most `limit` keys after the cursor, oldest first. Raises: BadArgument (bad_cursor)."""
        statement = select(ApiKeyRow).order_by(ApiKeyRow.created_at, ApiKeyRow.id).limit(limit + 1)
        if cursor is not None:
            statement = statement.where(tuple_(ApiKeyRow.created_at, ApiKeyRow.id) > read_cursor(cursor))
        rows = self._session.scalars(statement).all()
        shown = rows[:limit]
        usage = KeyUsage(self._session)
        next_cursor = write_cursor(shown[-1].created_at, shown[-1].id) if len(rows) > limit else None
        total = self._session.scalar(select(func.count()).select_from(ApiKeyRow)) or 0
        return KeyPage(tuple(usage.added_to(_key(row)) for row in shown), next_cursor, total)

    def change(self, key_id: str, change: Callable[[KeyTerms], KeyTerms]) -> tuple[ApiKey, bool]:
        """The key under the terms that `change` gives, and whether they are others.

        Raises: KeyNotFound, BadArgument (bad_key).
        """
        row = self._row(key_id)
        before = _key(row).terms
        # What it has enrolled stays where it is, and so must the key.
        after = replace(change(before), tenant=before.tenant)
        # An end that is over may stay beside other changes, but nobody sets one.
        _write_terms(row, check_terms(after, keeps_end=after.expires_at == before.expires_at))
        changed = _key(row)
        return changed, changed.terms != before

    def revoke(self, key_id: str) -> tuple[ApiKey, bool]:
        """The key, ended for good, and whether it was this call that ended it. Raises: KeyNotFound."""
        row = self._row(key_id)
        is_first = row.revoked_at is None
        row.revoked_at = row.revoked_at or datetime.now(UTC)
        return _key(row), is_first

    def remove(self, key_id: str) -> ApiKey:
        """The key that was there. Raises: KeyNotFound."""
        row = self._row(key_id)
        gone = _key(row)
        self._session.execute(delete(ApiKeyRow).where(ApiKeyRow.id == row.id))
        return gone

    def revoked(self) -> set[str]:
        """The ids of keys that were revoked and are still listed."""
        return set(self._session.scalars(select(ApiKeyRow.id).where(ApiKeyRow.revoked_at.is_not(None))))

    def live(self) -> set[str]:
        """The ids of all other keys."""
        return set(self._session.scalars(select(ApiKeyRow.id).where(ApiKeyRow.revoked_at.is_(None))))

    def touch(self, uses: KeyUses) -> None:
        """Moves the last use forward and counts what was spoken; keys that are gone are passed over."""
        # One order for all, so that two writers never wait for each other.
        for key_id in sorted(uses):
            usage = KeyUsage(self._session)
            if not usage.exists(key_id):
                continue
            usage.count(key_id, uses[key_id].at, uses[key_id].characters)
            when = literal(uses[key_id].at, UtcDateTime)
            later = or_(ApiKeyRow.last_used_at.is_(None), ApiKeyRow.last_used_at < when)
            statement = update(ApiKeyRow).where(ApiKeyRow.id == key_id, later).values(last_used_at=when)
            self._session.execute(statement, execution_options={"synchronize_session": False})

    def _row(self, key_id: str) -> ApiKeyRow:
        row = self._session.get(ApiKeyRow, key_id.strip().lower())
        if row is None:
            raise KeyNotFound("api_key_not_found", "there is no key of this id: list the keys to see those there are")
        return row


def new_secret() -> str:
    """A secret that nobody can guess, and that scanners of code recognise."""
    return MARK + secrets.token_hex(_SHOWN_BYTES + _HIDDEN_BYTES)


def digest(secret: str) -> str:
    """What is kept of a secret. It has too many bits to be tried, so it needs no slow hash."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def check_terms(terms: KeyTerms, keeps_end: bool = False) -> KeyTerms:
    """The terms as they are stored. Raises: BadArgument (bad_key)."""
    name = clean_text(terms.name)
    if len(name) > NAME_CHARACTERS or not is_visible(name):
        raise _bad("name", f"give 1 to {NAME_CHARACTERS} visible characters", NAME_CHARACTERS)
    unknown = sorted(terms.scopes - set(SCOPES))
    if unknown or not terms.scopes:
        raise _bad("scopes", f"give one or more of {', '.join(SCOPES)}")
    try:
        check_tenant(terms.tenant)
    except ValueError:
        words = f"give 1 to {TENANT_CHARACTERS} letters, digits, dots, dashes and underscores"
        raise _bad("tenant", words, TENANT_CHARACTERS) from None
    if terms.tenant and ADMIN in terms.scopes:
        raise _bad("tenant", "a key with the scope admin sees all tenants, so give it none")
    for field, (least, most) in LIMITS.items():
        value = getattr(terms.limits, field)
        if value is not None and not least <= value <= most:
            raise _bad(field, f"give {least} to {most}, or nothing for no limit", most)
    ends = terms.expires_at
    if ends is not None and not keeps_end and (ends.tzinfo is None or ends <= datetime.now(UTC)):
        raise _bad("expires_at", "give a time to come, with its offset from UTC")
    return replace(terms, name=name)


def _bad(field: str, remedy: str, limit: int | None = None) -> BadArgument:
    details: dict[str, object] = {"field": field} | ({} if limit is None else {"limit": limit})
    return BadArgument("bad_key", f"{field} cannot be used: {remedy}", **details)


def _shown(secret: str) -> str:
    return secret[: len(MARK) + 2 * _SHOWN_BYTES]


def _write_terms(row: ApiKeyRow, terms: KeyTerms) -> None:
    row.name, row.scopes, row.expires_at = terms.name, sorted(terms.scopes), terms.expires_at
    row.tenant = terms.tenant
    row.requests_per_minute = terms.limits.requests_per_minute
    row.characters_per_month = terms.limits.characters_per_month
    row.max_speakers = terms.limits.speakers


def _key(row: ApiKeyRow) -> ApiKey:
    limits = KeyLimits(row.requests_per_minute, row.characters_per_month, row.max_speakers)
    terms = KeyTerms(row.name, frozenset(row.scopes), limits, row.expires_at, row.tenant)
    return ApiKey(row.id, row.prefix, terms, row.created_at, row.revoked_at, row.last_used_at)
