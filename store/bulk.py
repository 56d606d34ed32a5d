"""Removing so many speakers that naming each in a statement would take minutes."""

import json
from collections.abc import Sequence

from sqlalchemy import text
from sqlalchemy.orm import Session

from store.connections import NOT_OVERWRITTEN
from store.tenants import tenant_of

# From here on one pass over a table is quicker than statements of a few hundred ids each.
MANY = 5000
# Where fewer stay than this share of those who go, and no more than this, SQLite's tables are filled anew.
_STAYING_SHARE = 0.5
_MAX_STAYING = 200_000
_LISTS = {
    "sqlite": "SELECT value FROM json_each(:ids)",
    "postgresql": "SELECT json_array_elements_text(CAST(:ids AS json))",
}
_TABLES = {"clips": "speaker_id", "usage": "speaker_id", "speakers": "id"}


def remove_many(session: Session, speaker_ids: Sequence[str], staying: Sequence[str] | None, revision: int) -> int:
    """Deletes these speakers with all that hangs on them, and leaves tombstones; how many clips there were.

    `staying` are all others, None where the caller does not know them.
    """
    if staying is None:
        return _remove(session, speaker_ids, revision)
    # Who sees one tenant alone does not know who stays.
    may_refill = session.get_bind().dialect.name == "sqlite" and tenant_of(session) is None
    if may_refill and _checks_no_keys(session) and len(staying) <= min(_MAX_STAYING, _STAYING_SHARE * len(speaker_ids)):
        return _refill(session, staying, revision)
    return _remove(session, speaker_ids, revision)


def _remove(session: Session, speaker_ids: Sequence[str], revision: int) -> int:
    _list(session, "chosen", speaker_ids)
    chosen = "(SELECT id FROM chosen)"
    n_clips = session.scalar(text(f"SELECT count(*) FROM clips WHERE speaker_id IN {chosen}")) or 0
    # Clips and usage before the speakers, so that the database has nothing left to cascade to, row by row.
    for table, key in _TABLES.items():
        session.execute(text(f"DELETE FROM {table} WHERE {key} IN {chosen}"))
    stones = "INSERT INTO tombstones (speaker_id, revision) SELECT id, :revision FROM chosen"
    session.execute(text(stones), {"revision": revision})
    session.execute(text("DROP TABLE chosen"))
    return int(n_clips)


def _refill(session: Session, staying: Sequence[str], revision: int) -> int:
    """The same by keeping who stays: SQLite would write each page of a large table several times to remove most rows.

    An emptied page is not overwritten here, which would cost as much; the mark has that made good right after the
    commit, or at the next start.
    """
    _list(session, "staying", staying)
    n_clips = session.scalar(text("SELECT count(*) FROM clips")) or 0
    stones = "INSERT INTO tombstones (speaker_id, revision) SELECT id, :revision FROM speakers"
    session.execute(text(f"{stones} WHERE id NOT IN (SELECT id FROM staying) ORDER BY id"), {"revision": revision})
    session.execute(text("PRAGMA secure_delete=OFF"))
    session.execute(text(f"PRAGMA user_version={NOT_OVERWRITTEN}"))
    try:
        for table, key in _TABLES.items():
            rows = f"SELECT {table}.* FROM staying CROSS JOIN {table} ON {table}.{key} = staying.id"
            session.execute(text(f"CREATE TEMPORARY TABLE kept AS {rows}"))
            session.execute(text(f"DELETE FROM {table}"))
            session.execute(text(f"INSERT INTO {table} SELECT * FROM kept"))
            session.execute(text("DROP TABLE kept"))
    finally:
        session.execute(text("PRAGMA secure_delete=ON"))
    session.execute(text("DROP TABLE staying"))
    return int(n_clips) - int(session.scalar(text("SELECT count(*) FROM clips")) or 0)


def _list(session: Session, name: str, ids: Sequence[str]) -> None:
    session.execute(text(f"CREATE TEMPORARY TABLE {name} (id VARCHAR(36) PRIMARY KEY)"))
    source = _LISTS[session.get_bind().dialect.name]
    session.execute(text(f"INSERT INTO {name} {source}"), {"ids": json.dumps(sorted(ids))})


def _checks_no_keys(session: Session) -> bool:
    return bool(session.scalar(text("PRAGMA foreign_keys")) == 0)
