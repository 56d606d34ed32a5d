"""The whole state in one archive: the database and the kept clips; and back into an empty one, of either kind.

Each table is `TABLE-N.json`: a list of rows by column name, times as ISO 8601, bytes as base64.
"""

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import LargeBinary, Table, delete, func, insert, select, text
from sqlalchemy.orm import Session

from store.archive import ArchiveReader, ArchiveWriter, reading, writing
from store.archived_clips import ArchivedClips, write_clips
from store.blobs import ClipFolder
from store.connections import translated_faults
from store.errors import ArchiveRefused
from store.schema import check_schema
from store.tables import Base, SpeakerRow, StateRow, TombstoneRow, UtcDateTime
from store.types import StoreConfig
from store.unit_of_work import Database
from store.voices import VoiceQueries, chunks

FORMAT = "voicekin-backup-1"
_ROWS_PER_MEMBER = 5000
# Recordings are megabytes each.
_WIDE_ROWS_PER_MEMBER = {"consent_recordings": 10}


def back_up(config: StoreConfig, path: Path) -> int:
    """Writes everything as it is at one moment, while others go on; how many speakers it holds.

    Raises: SchemaMismatch, ArchiveRefused, StorageFull, StoreUnavailable.
    """
    facts: dict[str, Any] = {"format": FORMAT, "created_at": datetime.now(UTC).isoformat()}
    facts["schema"] = check_schema(config)
    database = Database(config)
    try:
        with writing(path, facts) as archive, translated_faults(), database.reading_session() as session:
            for table in Base.metadata.sorted_tables:
                _dump(session, table, archive)
            _dump_clips(session, ClipFolder(config.state_dir), archive)
            facts["n_speakers"] = session.scalar(select(func.count()).select_from(SpeakerRow)) or 0
    finally:
        database.close()
    return int(facts["n_speakers"])


def restore(config: StoreConfig, path: Path) -> int:
    """Fills a migrated, empty database from a backup, and the folder of kept clips; how many speakers came.

    Who was erased since the backup is erased again by `Store.open`, where the state folder is still the same.
    Raises: SchemaMismatch, ArchiveRefused, StorageFull, StoreUnavailable.
    """
    schema = check_schema(config)
    database = Database(config)
    try:
        with reading(path, FORMAT) as archive, database.writing_session() as session:
            if archive.manifest["schema"] != schema:
                words = f"the backup is of schema {archive.manifest['schema']}, the database is at {schema}"
                remedy = "restore it with the program that made it, then migrate"
                raise ArchiveRefused("archive_refused", f"{words}: {remedy}")
            _require_empty(session)
            clips = ArchivedClips(archive)
            session.execute(delete(StateRow))
            for table in Base.metadata.sorted_tables:
                _load(session, table, archive)
            _count_on(session)
            # Before the commit: what a kill leaves of them without their rows, the next start removes.
            _load_clips(session, ClipFolder(config.state_dir), clips)
        return int(archive.manifest["n_speakers"])
    finally:
        database.close()


def _dump(session: Session, table: Table, archive: ArchiveWriter) -> None:
    n_rows = _WIDE_ROWS_PER_MEMBER.get(table.name, _ROWS_PER_MEMBER)
    statement = select(table).order_by(*table.primary_key.columns).execution_options(yield_per=n_rows)
    for number, rows in enumerate(session.execute(statement).mappings().partitions()):
        documents = [{name: _plain(value) for name, value in row.items()} for row in rows]
        archive.add(f"{table.name}-{number:06}.json", json.dumps(documents).encode())


def _dump_clips(session: Session, folder: ClipFolder, archive: ArchiveWriter) -> None:
    """Those that the database knew at this moment; a folder of another database's clips holds none of them."""
    number = 0
    for ids in chunks(folder.speakers()):
        number = write_clips(archive, folder, VoiceQueries(session).clip_digests(ids), number)


def _load_clips(session: Session, folder: ClipFolder, clips: ArchivedClips) -> None:
    if len(clips) and not folder.is_free_for(VoiceQueries(session).position().store_id):
        message = "the clips kept in the state folder belong to another database: move its folder clips away"
        raise ArchiveRefused("archive_refused", message)
    for speaker_id in clips.speakers():
        with folder.turn(speaker_id):
            folder.write(speaker_id, clips.of(speaker_id))


def _load(session: Session, table: Table, archive: ArchiveReader) -> None:
    for name in _members(table, archive):
        rows = [{key: _column_value(table, key, value) for key, value in row.items()} for row in archive.json(name)]
        session.execute(insert(table), rows)


def _count_on(session: Session) -> None:
    """PostgreSQL counts the audit's lines in a sequence, which rows that bring their number do not move."""
    if session.get_bind().dialect.name == "postgresql":
        last = "(SELECT coalesce(max(id), 0) + 1 FROM audit)"
        session.execute(text(f"SELECT setval(pg_get_serial_sequence('audit', 'id'), {last}, false)"))


def _members(table: Table, archive: ArchiveReader) -> Iterator[str]:
    for name in sorted(archive.manifest["sha256"]):
        if name.rpartition("-")[0] == table.name:
            yield name


def _require_empty(session: Session) -> None:
    for row in (SpeakerRow, TombstoneRow):
        if session.scalar(select(func.count()).select_from(row)):
            message = "the database holds speakers, or held some: restore into a new one"
            raise ArchiveRefused("archive_refused", message)


def _plain(value: object) -> object:
    if isinstance(value, bytes | memoryview):
        return {"base64": base64.b64encode(bytes(value)).decode()}
    return {"time": value.isoformat()} if isinstance(value, datetime) else value


def _column_value(table: Table, name: str, value: Any) -> object:
    if name not in table.columns:
        raise ArchiveRefused("archive_refused", f"the archive is damaged: {table.name} has no column {name[:80]}")
    kind = table.columns[name].type
    if isinstance(value, dict) and isinstance(kind, LargeBinary):
        return base64.b64decode(value["base64"])
    if isinstance(value, dict) and isinstance(kind, UtcDateTime):
        return datetime.fromisoformat(value["time"])
    return value
