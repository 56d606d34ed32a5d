"""Engines for SQLite and PostgreSQL, and what their faults mean to the store."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from store.errors import StorageFull, StoreError, StoreUnavailable
from store.types import StoreConfig

WRITING = "voicekin_writing"
# SQLite's `user_version` while removed rows can still be read in the file.
NOT_OVERWRITTEN = 1
# SQLite's own cache of 2 MB would write and read again most pages of a large table many times.
_ROOMY_CACHE_KIB = 512 * 1024
_DISK_FULL_SQLSTATES = frozenset({"53100"})


def connect(config: StoreConfig) -> Engine:
    """An engine that opens its first connection when it is first used. Raises: StoreUnavailable."""
    url = parse_url(config.database_url)
    if url.get_backend_name() == "sqlite":
        return _connect_sqlite(url, config.busy_timeout_s)
    try:
        return _connect_postgresql(url, config.busy_timeout_s)
    except ImportError as error:
        raise _bad_url("PostgreSQL needs the driver that voicekin[postgres] installs") from error


def parse_url(database_url: str) -> URL:
    """The URL with its driver. Raises: StoreUnavailable."""
    try:
        url = make_url(database_url)
    except (ArgumentError, ValueError) as error:
        raise _bad_url("it cannot be read") from error
    if url.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        return url.set(drivername="postgresql+psycopg")
    if url.drivername not in ("sqlite", "sqlite+pysqlite"):
        raise _bad_url(f"{url.drivername} is not supported")
    if url.database in (None, "", ":memory:"):
        raise _bad_url("SQLite needs a file, because each process opens it")
    return url


def sqlite_path(config: StoreConfig) -> Path | None:
    """The database's file; None for a server."""
    url = parse_url(config.database_url)
    return Path(str(url.database)) if url.get_backend_name() == "sqlite" else None


def use_write_ahead_log(engine: Engine) -> None:
    """Readers beside a writer; the mode is kept in the file."""
    if engine.dialect.name == "sqlite":
        with engine.connect() as connection:
            _driver(connection).execute("PRAGMA journal_mode=WAL")


def overwrite_removed(engine: Engine) -> None:
    """Leaves nothing in SQLite's files of what was removed; the log is not emptied while others read.

    The database is rewritten where a transaction has not overwritten what it removed.
    """
    if engine.dialect.name == "sqlite":
        with engine.connect() as connection:
            raw = _driver(connection)
            if _is_marked(raw):
                _rewrite(raw)
            (waits_ms,) = raw.execute("PRAGMA busy_timeout").fetchone()
            try:
                raw.execute("PRAGMA busy_timeout=100")
                raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            finally:
                raw.execute(f"PRAGMA busy_timeout={waits_ms}")


def rewrite_marked(engine: Engine) -> None:
    """The longer half of `overwrite_removed`, which may go on while others read."""
    if engine.dialect.name == "sqlite":
        with engine.connect() as connection:
            raw = _driver(connection)
            if _is_marked(raw):
                _rewrite(raw)


def is_marked(engine: Engine) -> bool:
    """Whether `rewrite_marked` has anything to do."""
    if engine.dialect.name != "sqlite":
        return False
    with engine.connect() as connection:
        return _is_marked(_driver(connection))


@contextmanager
def refilling(engine: Engine) -> Iterator[Connection]:
    """A connection to write with that may empty whole tables at once.

    SQLite does so only where it checks no foreign keys, which cannot be said within a transaction.
    """
    with engine.connect() as connection:
        if engine.dialect.name != "sqlite":
            yield connection
            return
        settings = {"foreign_keys": "OFF", "temp_store": "MEMORY", "cache_size": f"-{_ROOMY_CACHE_KIB}"}
        with _settings(_driver(connection), settings | {"wal_autocheckpoint": "0"}):
            yield connection


@contextmanager
def translated_faults() -> Iterator[None]:
    """Faults of the database as the store's errors. Raises: StorageFull, StoreUnavailable."""
    try:
        yield
    except SQLAlchemyError as error:
        meaning = _meaning(error)
        if meaning is None:
            raise
        raise meaning from error


@contextmanager
def _settings(raw: sqlite3.Connection, settings: Mapping[str, str]) -> Iterator[None]:
    """The connection with these settings, and with its own ones again afterwards."""
    before = {name: raw.execute(f"PRAGMA {name}").fetchone()[0] for name in settings}
    try:
        for name, value in settings.items():
            raw.execute(f"PRAGMA {name}={value}")
        yield
    finally:
        raw.rollback()
        for name, value in before.items():
            raw.execute(f"PRAGMA {name}={value}")


def _is_marked(raw: sqlite3.Connection) -> bool:
    return bool(raw.execute("PRAGMA user_version").fetchone() == (NOT_OVERWRITTEN,))


def _rewrite(raw: sqlite3.Connection) -> None:
    with _settings(raw, {"temp_store": "MEMORY", "wal_autocheckpoint": "0"}):
        raw.execute("VACUUM")
    raw.execute("PRAGMA user_version=0")


def _driver(connection: Connection) -> sqlite3.Connection:
    """The driver's connection outside any transaction, for what cannot be done inside one."""
    raw: Any = connection.connection.driver_connection
    raw.rollback()
    return cast(sqlite3.Connection, raw)


def _connect_sqlite(url: URL, busy_timeout_s: float) -> Engine:
    engine = create_engine(
        url,
        pool_size=8,
        max_overflow=24,
        pool_timeout=busy_timeout_s,
        connect_args={"timeout": busy_timeout_s, "check_same_thread": False},
        hide_parameters=True,
    )

    @event.listens_for(engine, "connect")
    def configure(connection: sqlite3.Connection, record: object) -> None:
        # The driver's own transactions begin late and not before DDL; ours begin where `begin` says.
        connection.isolation_level = None
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA foreign_keys=ON")
        # A removed voice must not stay readable in free pages.
        connection.execute("PRAGMA secure_delete=ON")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writing = connection.get_execution_options().get(WRITING, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    return engine


def _meaning(error: SQLAlchemyError) -> StoreError | None:
    if isinstance(error, PoolTimeout):
        return StoreUnavailable("store_unavailable", "all connections to the database are busy: try again")
    if not isinstance(error, DBAPIError):
        return None
    if _is_full(error.orig):
        return StorageFull("storage_full", "the database's disk is full: make room and try again; nothing was written")
    if error.connection_invalidated or type(error).__name__ in ("OperationalError", "DatabaseError"):
        return StoreUnavailable("store_unavailable", f"the database does not answer: {_first_line(error.orig)}")
    return None


def _connect_postgresql(url: URL, busy_timeout_s: float) -> Engine:
    return create_engine(
        url,
        pool_pre_ping=True,
        # A fault is logged with its statement; the names and texts in it are nobody's business.
        hide_parameters=True,
        pool_timeout=busy_timeout_s,
        # A pooler in transaction mode hands each transaction another server connection: nothing may stay prepared.
        connect_args={"prepare_threshold": None, "connect_timeout": max(2, round(busy_timeout_s))},
    )


def _is_full(original: BaseException | None) -> bool:
    code = getattr(original, "sqlite_errorcode", None)
    if code is not None:
        return int(code) & 0xFF == sqlite3.SQLITE_FULL
    return getattr(original, "sqlstate", None) in _DISK_FULL_SQLSTATES


def _first_line(original: BaseException | None) -> str:
    return (str(original).splitlines() or ["no reason given"])[0]


def _bad_url(reason: str) -> StoreUnavailable:
    message = f"database_url: {reason}; give sqlite:///PATH or postgresql://USER@HOST/DATABASE"
    return StoreUnavailable("store_unavailable", message)
