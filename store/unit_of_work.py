"""Transactions: a read that survives one lost connection, and a write that is committed whole or not at all."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy import Engine, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from store.connections import WRITING, connect, empty_write_ahead_log, translated_faults
from store.errors import StoreUnavailable
from store.speakers import SpeakerRepository
from store.tables import StateRow
from store.types import StoreConfig

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class UnitOfWork:
    """One write transaction: its repository, and the revision that its changes carry."""

    speakers: SpeakerRepository
    revision: int


class Database:
    """Opens transactions on one database."""

    def __init__(self, config: StoreConfig) -> None:
        self.engine: Engine = connect(config)
        self._reading, self._writing = self.engine, self.engine.execution_options(**{WRITING: True})
        if self.engine.dialect.name == "postgresql":
            # A reader sees one state throughout, as SQLite gives it; a writer sees what it waited for.
            self._reading = self.engine.execution_options(isolation_level="REPEATABLE READ")
            self._writing = self._writing.execution_options(isolation_level="READ COMMITTED")
        self._timeout_s = config.busy_timeout_s
        # SQLite has one writer, and its waiters poll: threads of one process queue here instead.
        self._turn = threading.Lock() if self.engine.dialect.name == "sqlite" else None

    def read(self, work: Callable[[SpeakerRepository], T]) -> T:
        """What `work` gives in one read transaction, repeated if the connection was lost. Raises: StoreUnavailable."""
        with translated_faults():
            try:
                return self._read_once(work)
            except DBAPIError as error:
                if not error.connection_invalidated:
                    raise
            return self._read_once(work)

    @contextmanager
    def write(self) -> Iterator[UnitOfWork]:
        """A transaction under the next revision: committed on leaving, rolled back on an error.

        Raises: StorageFull, StoreUnavailable.
        """
        with self._transaction() as session:
            yield UnitOfWork(SpeakerRepository(session), _next_revision(session))

    @contextmanager
    def write_usage(self) -> Iterator[SpeakerRepository]:
        """A transaction for figures that no index follows, so under no new revision.

        Raises: StorageFull, StoreUnavailable.
        """
        with self._transaction() as session:
            yield SpeakerRepository(session)

    def empty_log(self) -> None:
        """Moves SQLite's log into the database, so that what was removed is nowhere on disk; not while others read."""
        with translated_faults():
            empty_write_ahead_log(self.engine)

    def close(self) -> None:
        """Closes every connection."""
        self.engine.dispose()

    def _read_once(self, work: Callable[[SpeakerRepository], T]) -> T:
        with Session(self._reading) as session, session.begin():
            return work(SpeakerRepository(session))

    @contextmanager
    def _transaction(self) -> Iterator[Session]:
        with self._take_turn(), translated_faults(), Session(self._writing) as session, session.begin():
            yield session

    @contextmanager
    def _take_turn(self) -> Iterator[None]:
        if self._turn is None:
            yield
            return
        if not self._turn.acquire(timeout=self._timeout_s):
            message = f"the database was busy for {self._timeout_s:g} s: try again"
            raise StoreUnavailable("store_unavailable", message, limit=self._timeout_s)
        try:
            yield
        finally:
            self._turn.release()


def _next_revision(session: Session) -> int:
    # The first statement of every writer: its row lock makes revisions become visible in order.
    statement = update(StateRow).values(revision=StateRow.revision + 1).returning(StateRow.revision)
    return session.execute(statement, execution_options={"synchronize_session": False}).scalar_one()
