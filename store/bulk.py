"""Removing so many speakers that naming each in a statement would take minutes."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import text
from sqlalchemy.orm import Session

# From here on one pass over a table is quicker than statements of a few hundred ids each.
MANY = 5000
_CACHE_KIB = 512 * 1024
_LISTS = {
    "sqlite": "SELECT value FROM json_each(:ids)",
    "postgresql": "SELECT json_array_elements_text(CAST(:ids AS json))",
}
_CHOSEN = "(SELECT id FROM chosen_speakers)"


def remove_many(session: Session, speaker_ids: Sequence[str], revision: int) -> int:
    """Deletes these speakers with all that hangs on them, and leaves tombstones; how many clips there were."""
    with _roomy_cache(session):
        return _remove(session, speaker_ids, revision)


@contextmanager
def _roomy_cache(session: Session) -> Iterator[None]:
    """SQLite's cache of 2 MB would write and read again most pages of a table many times."""
    if session.get_bind().dialect.name != "sqlite":
        yield
        return
    size = session.scalar(text("PRAGMA cache_size"))
    session.execute(text(f"PRAGMA cache_size=-{_CACHE_KIB}"))
    try:
        yield
    finally:
        session.execute(text(f"PRAGMA cache_size={size}"))


def _remove(session: Session, speaker_ids: Sequence[str], revision: int) -> int:
    ids = {"ids": json.dumps(list(speaker_ids))}
    session.execute(text("CREATE TEMPORARY TABLE chosen_speakers (id VARCHAR(36) PRIMARY KEY)"))
    session.execute(text(f"INSERT INTO chosen_speakers {_LISTS[session.get_bind().dialect.name]}"), ids)
    n_clips = session.scalar(text(f"SELECT count(*) FROM clips WHERE speaker_id IN {_CHOSEN}")) or 0
    # Before the speakers, so that the database has nothing left to cascade to, row by row.
    for table in ("clips", "usage"):
        session.execute(text(f"DELETE FROM {table} WHERE speaker_id IN {_CHOSEN}"))
    session.execute(text(f"DELETE FROM speakers WHERE id IN {_CHOSEN}"))
    stones = "INSERT INTO tombstones (speaker_id, revision) SELECT id, :revision FROM chosen_speakers"
    session.execute(text(stones), {"revision": revision})
    session.execute(text("DROP TABLE chosen_speakers"))
    return int(n_clips)
