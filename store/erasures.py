"""The list of who was removed, kept beside the database so that a restored backup cannot bring anybody back.

Ids of API keys that were ended stand on it too: no two ids are alike.
"""

import logging
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from store.checks import as_speaker_id
from store.unit_of_work import Database, Reading, UnitOfWork

_log = logging.getLogger(__name__)


class ErasureList:
    """Ids of removed speakers and ended keys, one a line, only ever added to."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / "erased.ids"

    def read(self) -> set[str]:
        """Every id on the list. Raises: OSError."""
        try:
            lines = self._path.read_text(encoding="ascii", errors="replace").splitlines()
        except FileNotFoundError:
            return set()
        # A line that was cut by a full disk is no id, and its tombstone adds it again.
        return {line for line in lines if as_speaker_id(line) == line}

    def add(self, speaker_ids: Iterable[str]) -> None:
        """Notes the ids; a failure is logged, because the tombstones in SQL add them at the next start."""
        # The leading newline ends a line that was cut.
        lines = "".join(f"\n{speaker_id}" for speaker_id in sorted(speaker_ids))
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
        listed = erasures.read()
    except OSError as error:
        _log.warning("the list of erased speakers cannot be read: %s", error)
        return 0
    erasures.add(database.read_all(_gone) - listed)
    _end_again(database, listed)
    returned, trashed = database.read_all(lambda unit: _returned(unit, listed))
    n_returned = len(returned) + len(trashed)
    if n_returned:
        _log.warning("%d erased speakers had come back, from a backup perhaps, and are erased again", n_returned)
        with database.write() as unit:
            n_clips = unit.speakers.remove(returned, unit.revision) + unit.trash.remove(trashed)[1]
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


def _gone(unit: Reading) -> set[str]:
    """Whose tombstones stand, who cannot be brought back, and which keys were revoked."""
    return set(unit.speakers.removed_since(0)) - unit.trash.existing() | unit.keys.revoked()


def _returned(unit: Reading, listed: set[str]) -> tuple[list[str], list[str]]:
    return sorted(unit.speakers.existing(listed)), sorted(unit.trash.existing(sorted(listed)))
