"""The part of the store's front that keeps API keys. Each change is in the audit, by the key's id."""

from collections.abc import Callable
from datetime import UTC, datetime

from store import checks
from store.key_types import ApiKey, KeyLook, KeyPage, KeyTerms, KeyUses, Spending
from store.key_usage import KeyUsage
from store.keys import KeyRepository, new_secret
from store.replaying import Replaying
from store.unit_of_work import Reading, UnitOfWork


class Keyring(Replaying):
    """Verbs about API keys. Every look asks SQL, so a key that was ended anywhere is ended everywhere."""

    def create_key(self, terms: KeyTerms, actor: str = "api") -> tuple[ApiKey, str]:
        """A new key and its secret, which is given here once and kept nowhere.

        Raises: BadArgument (bad_key), StorageFull, StoreUnavailable.
        """
        secret = new_secret()
        with self._database.write() as unit:
            key = unit.keys.add(terms, secret)
            _note(unit, actor, "key_create", key)
        return key, secret

    def look_up_key(self, secret: str | None) -> KeyLook:
        """What is known of a secret; with None only whether one is needed. Raises: StoreUnavailable."""

        def look(unit: Reading) -> KeyLook:
            key = None if secret is None else unit.keys.of_secret(secret)
            return KeyLook(key is not None or unit.keys.needed(), key)

        return self._database.read_all(look)

    def keys(self, cursor: str | None = None, limit: int = 100) -> KeyPage:
        """One page, oldest key first. Raises: BadArgument (bad_cursor, bad_limit), StoreUnavailable."""
        checks.check_limit(limit, "limit")
        return self._database.read_all(lambda unit: unit.keys.page(cursor, limit))

    def change_key(
        self, key_id: str, change: Callable[[KeyTerms], KeyTerms], *, revoke: bool = False, actor: str = "api"
    ) -> ApiKey:
        """The key under the terms that `change` makes of those it has; with `revoke` ended for good, but still listed.

        Raises: KeyNotFound, BadArgument (bad_key), StorageFull, StoreUnavailable.
        """
        with self._database.write() as unit:
            key, is_other = unit.keys.change(key_id, change)
            if is_other:
                _note(unit, actor, "key_change", key)
            if revoke:
                key, is_first = unit.keys.revoke(key_id)
                if is_first:
                    _note(unit, actor, "key_revoke", key)
        if revoke:
            self._erasures.add([key.id])
        return key

    def delete_key(self, key_id: str, actor: str = "api") -> None:
        """Ends the key and forgets it. Raises: KeyNotFound, StorageFull, StoreUnavailable."""
        with self._database.write() as unit:
            key = unit.keys.remove(key_id)
            _note(unit, actor, "key_delete", key)
        self._erasures.add([key.id])

    def touch_keys(self, uses: KeyUses) -> None:
        """Notes when many keys were last used, and for what; those that are gone are passed over.

        Raises: StorageFull, StoreUnavailable.
        """
        if uses:
            with self._database.writing_session() as session:
                KeyRepository(session).touch(uses)

    def spend_characters(self, key_id: str, characters: int) -> Spending:
        """Counts characters before they are spoken; of two who want the last ones, one gets them.

        Raises: QuotaExceeded, KeyNotFound, StorageFull, StoreUnavailable.
        """
        with self._database.writing_session() as session:
            return KeyUsage(session).spend(key_id, characters, datetime.now(UTC))

    def give_back_characters(self, spending: Spending) -> None:
        """Takes off what was counted and not spoken. Raises: StorageFull, StoreUnavailable."""
        with self._database.writing_session() as session:
            KeyUsage(session).give_back(spending)

    def check_room(self) -> None:
        """Raises: QuotaExceeded, where the key that this store is used for may enrol nobody; StoreUnavailable."""
        key_id = self._owner.key_id
        if key_id is not None:
            self._database.read_all(lambda unit: unit.key_usage.check_room(key_id))


def _note(unit: UnitOfWork, actor: str, action: str, key: ApiKey) -> None:
    unit.ledger.note(actor, action, 0, receipt={"key_id": key.id, "prefix": key.prefix})
