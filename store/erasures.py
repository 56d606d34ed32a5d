"""The list of who was removed, kept beside the database so that a restored backup cannot bring anybody back.

Ids of API keys that were ended, of deleted consents and of voices that are protected no more stand on it too: no two
ids are alike. Consents that were revoked, and may still be there, stand on it behind a word.
"""

import logging
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from store.checks import as_speaker_id
from store.unit_of_work import Database, Reading, UnitOfWork

_log = logging.getLogger(__name__)
_REVOKED = "revoked "


class ErasureList:
    """Ids of removed speakers and ended keys, one a line, only ever added to."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / "erased.ids"

    def read(self) -> set[str]:
        """Every id on the list. Raises: OSError."""
        # A line that was cut by a full disk is no id, and its tombstone adds it again.
        return {line for line in self._lines() if as_speaker_id(line) == line}

    def read_revoked(self) -> set[str]:
        """Every consent that was revoked. Raises: OSError."""
        ids = {line.removeprefix(_REVOKED) for line in self._lines() if line.startswith(_REVOKED)}
        return {each for each in ids if as_speaker_id(each) == each}

    def add(self, ids: Iterable[str]) -> None:
        """Notes the ids; a failure is logged, because the tombstones in SQL add them at the next start."""
        self._append(sorted(ids))

    def add_revoked(self, consent_ids: Iterable[str]) -> None:
        """Notes consents that were revoked, as `add` does."""
        self._append([_REVOKED + consent_id for consent_id in sorted(consent_ids)])

    def _lines(self) -> list[str]:
        try:
            return self._path.read_text(encoding="ascii", errors="replace").splitlines()
        except FileNotFoundError:
            return []

    def _append(self, entries: Iterable[str]) -> None:
        # The leading newline ends a line that was cut.
        lines = "\n".join(["", *entries])
        if not lines:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="ascii") as file:
                file.write(lines + "\n")
        except OSError as error:
            _log.warning("the list of erased speakers could not be extended: %s", error)


def erase_again(
    database: Database, erasures: ErasureList, end_jobs: Callable[[UnitOfWork, Collection[str]], None]
) -> int:
    """Removes listed speakers that a restored backup brought back, and lists what SQL knows to be gone; how many came.

    `end_jobs` ends what they have a part in.
    Raises: StorageFull, StoreUnavailable.
    """
    try:
        listed, revoked = erasures.read(), erasures.read_revoked()
    except OSError as error:
        _log.warning("the list of erased speakers cannot be read: %s", error)
        return 0
    erasures.add(database.read_all(_gone) - listed)
    erasures.add_revoked(database.read_all(lambda unit: unit.consents.revoked()) - revoked)
    _end_again(database, listed)
    _forget_again(database, listed, revoked)
    returned, trashed = database.read_all(lambda unit: _returned(unit, listed))
    n_returned = len(returned) + len(trashed)
    if n_returned:
        _log.warning("%d erased speakers had come back, from a backup perhaps, and are erased again", n_returned)
        with database.write() as unit:
            n_clips = unit.speakers.remove(returned, unit.revision) + unit.trash.remove(trashed)[1]
            unit.consents.remove_of([*returned, *trashed])
            end_jobs(unit, returned)
            unit.ledger.note("start", "erase_again", n_returned, n_clips)
    return n_returned


def _end_again(database: Database, listed: set[str]) -> None:
    """Revokes keys that were ended since the backup which brought them back."""
    returned = sorted(database.read_all(lambda unit: unit.keys.live()) & listed)
    if returned:
        _log.warning("%d API keys that had been ended came back and are revoked again", len(returned))
        with database.write() as unit:
            for key_id in returned:
                key, _ = unit.keys.revoke(key_id)
                unit.ledger.note("start", "key_revoke", 0, receipt={"key_id": key.id, "prefix": key.prefix})


def _forget_again(database: Database, listed: set[str], revoked: set[str]) -> None:
    """Deletes and revokes consents, and lets go of protected voices, as it was done since the backup."""

    def back(unit: Reading) -> tuple[list[str], list[str], list[str]]:
        there, protected = unit.consents.existing(), unit.protection.ids()
        return (
            sorted(there & listed),
            sorted(there & revoked - listed - unit.consents.revoked()),
            sorted(protected & listed),
        )

    deleted, ended, unprotected = database.read_all(back)
    if not (deleted or ended or unprotected):
        return
    _log.warning(
        "%d consents and protected voices had come back, and are ended again", len([*deleted, *ended, *unprotected])
    )
    with database.write() as unit:
        unit.consents.remove_listed(deleted)
        for consent_id in ended:
            unit.consents.revoke(consent_id)
        for voice_id in unprotected:
            unit.protection.remove(voice_id)
        for consent_id, action in [
            *((each, "consent_delete") for each in deleted),
            *((each, "consent_revoke") for each in ended),
        ]:
            unit.ledger.note("start", action, 0, receipt={"consent_id": consent_id})


def _gone(unit: Reading) -> set[str]:
    """Whose tombstones stand, who cannot be brought back, and which keys were revoked."""
    return set(unit.speakers.removed_since(0)[0]) - unit.trash.existing() | unit.keys.revoked()


def _returned(unit: Reading, listed: set[str]) -> tuple[list[str], list[str]]:
    return sorted(unit.speakers.existing(listed)), sorted(unit.trash.existing(sorted(listed)))
