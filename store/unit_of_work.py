"""Transactions: a read that survives one lost connection, and a write that is committed whole or not at all."""

import copy
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Self, TypeVar

from sqlalchemy import Connection, Engine, text, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from store.connections import (
    WRITING,
    connect,
    is_marked,
    overwrite_removed,
    refilling,
    rewrite_marked,
    translated_faults,
)
from store.consents import ConsentRepository
from store.errors import StoreUnavailable
from store.jobs_rows import JobRepository
from store.key_usage import KeyUsage
from store.keys import KeyRepository
from store.ledger import Ledger
from store.protection import ProtectionRepository
from store.speakers import SpeakerRepository
from store.tables import StateRow
from store.tenants import TenantSession
from store.trash import TrashRepository
from store.types import StoreConfig
from store.watching import CHANNEL

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reading:
    """One transaction's repositories."""

    speakers: SpeakerRepository
    trash: TrashRepository
    ledger: Ledger
    keys: KeyRepository
    jobs: JobRepository
    key_usage: KeyUsage
    consents: ConsentRepository
    protection: ProtectionRepository

    @classmethod
    def of(cls, session: Session) -> Self:
        return cls(
            SpeakerRepository(session),
            TrashRepository(session),
            Ledger(session),
            KeyRepository(session),
            JobRepository(session),
            KeyUsage(session),
            ConsentRepository(session),
            ProtectionRepository(session),
        )


@dataclass(frozen=True, slots=True)
class UnitOfWork(Reading):
    """One write transaction, and the revision that its changes carry."""

    revision: int = 0


class Database:
    """Opens transactions on one database."""

    def __init__(self, config: StoreConfig) -> None:
        self.engine: Engine = connect(config)
        self._reading, self._writing = self.engine, self.engine.execution_options(**{WRITING: True})
        if self.engine.dialect.name == "postgresql":
            # A reader sees one state throughout, as SQLite gives it; a writer sees what it waited for.
            self._reading = self.engine.execution_options(isolation_level="REPEATABLE READ")
            self._writing = self._writing.execution_options(isolation_level="READ COMMITTED")
        self._tenant: str | None = None
        self._actor = ""
        self._timeout_s = config.busy_timeout_s
        # SQLite has one writer, and its waiters poll: threads of one process queue here instead.
        self._turn = threading.Lock() if self.engine.dialect.name == "sqlite" else None

    def read(self, work: Callable[[SpeakerRepository], T]) -> T:
        """What `work` gives in one read transaction, repeated if the connection was lost. Raises: StoreUnavailable."""
        return self.read_all(lambda unit: work(unit.speakers))

    def read_all(self, work: Callable[[Reading], T]) -> T:
        """As `read`, with every repository. Raises: StoreUnavailable."""
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
            # The first statement of every writer: its row lock makes revisions become visible in order.
            yield replace(UnitOfWork.of(session), revision=_next_revision(session))

    @contextmanager
    def write_many(self) -> Iterator[UnitOfWork]:
        """As `write`, for what may remove most rows: no foreign key is checked, and none cascades, on SQLite.

        Raises: StorageFull, StoreUnavailable.
        """
        with (
            self._take_turn(),
            translated_faults(),
            refilling(self._writing) as connection,
            self._session(connection) as session,
            session.begin(),
        ):
            yield replace(UnitOfWork.of(session), revision=_next_revision(session))

    @contextmanager
    def write_usage(self) -> Iterator[SpeakerRepository]:
        """A transaction for figures that no index follows, so under no new revision.

        Raises: StorageFull, StoreUnavailable.
        """
        with self._transaction() as session:
            yield SpeakerRepository(session)

    @contextmanager
    def reading_session(self) -> Iterator[Session]:
        """One read transaction, for what reads whole tables. Raises: StoreUnavailable."""
        with translated_faults(), self._session(self._reading) as session, session.begin():
            yield session

    def writing_session(self) -> AbstractContextManager[Session]:
        """One write transaction under no new revision, for what fills whole tables.

        Raises: StorageFull, StoreUnavailable.
        """
        return self._transaction()

    def overwrite_removed(self) -> None:
        """Leaves nothing of what was removed in SQLite's files; not while others read. Raises: StoreUnavailable."""
        with self._take_turn(), translated_faults():
            overwrite_removed(self.engine)

    @property
    def is_marked(self) -> bool:
        """Whether a removal has left a file to rewrite, which `rewrite_marked` does. Raises: StoreUnavailable."""
        with translated_faults():
            return is_marked(self.engine)

    def rewrite_marked(self) -> None:
        """The longer half of `overwrite_removed`, which may go on while others read. Raises: StoreUnavailable."""
        with self._take_turn(), translated_faults():
            rewrite_marked(self.engine)

    def seen_by(self, tenant: str | None, actor: str = "") -> Self:
        """The same database, in which only this tenant's speakers and jobs are; all with None."""
        view = copy.copy(self)
        view._tenant, view._actor = tenant, actor
        return view

    def close(self) -> None:
        """Closes every connection."""
        self.engine.dispose()

    def _session(self, bind: Engine | Connection) -> Session:
        return TenantSession(bind, self._tenant, self._actor)

    def _read_once(self, work: Callable[[Reading], T]) -> T:
        with self._session(self._reading) as session, session.begin():
            return work(Reading.of(session))

    @contextmanager
    def _transaction(self) -> Iterator[Session]:
        with self._take_turn(), translated_faults(), self._session(self._writing) as session, session.begin():
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
    statement = update(StateRow).values(revision=StateRow.revision + 1).returning(StateRow.revision)
    revision: int = session.execute(statement, execution_options={"synchronize_session": False}).scalar_one()
    if session.get_bind().dialect.name == "postgresql":
        # Sent at the commit, and only then.
        session.execute(text(f"NOTIFY {CHANNEL}"))
    return revision
