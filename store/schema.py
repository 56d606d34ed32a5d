"""The database's schema: whether this program can work with it, and how to bring it there."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, text

from store.connections import WRITING, connect, sqlite_path, translated_faults, use_write_ahead_log
from store.errors import SchemaMismatch, StoreUnavailable
from store.types import StoreConfig

REMEDY = "voicekin doctor --migrate"
# Any number will do, as long as it is this program's own.
_POSTGRESQL_LOCK = 0x766F6963


def migrate(config: StoreConfig) -> str:
    """The revision that the database is at afterwards; safe when several processes start at once.

    Raises: SchemaMismatch (schema_newer), StorageFull, StoreUnavailable.
    """
    _make_folder(config)
    with _engine(config) as engine:
        use_write_ahead_log(engine)
        with engine.execution_options(**{WRITING: True}).begin() as connection:
            _wait_for_turn(connection)
            _refuse_newer(connection)
            script = _alembic_config()
            script.attributes["connection"] = connection
            command.upgrade(script, "head")
            return str(_current(connection))


def check_schema(config: StoreConfig) -> str:
    """The revision that the database is at, which is the one this program needs.

    Raises: SchemaMismatch, StoreUnavailable.
    """
    path = sqlite_path(config)
    if path is not None and not path.is_file():
        # Connecting would create it.
        raise SchemaMismatch("schema_missing", f"there is no database at database_url: run `{REMEDY}`")
    with _engine(config) as engine, engine.connect() as connection:
        _refuse_newer(connection)
        current, head = _current(connection), _scripts().get_current_head()
    if current is None:
        raise SchemaMismatch("schema_missing", f"the database has no tables yet: run `{REMEDY}`", expected=head)
    if current != head:
        message = f"the database is at schema {current}, this program needs {head}: run `{REMEDY}`"
        raise SchemaMismatch("schema_older", message, expected=head, measured=current)
    return current


@contextmanager
def _engine(config: StoreConfig) -> Iterator[Engine]:
    with translated_faults():
        engine = connect(config)
        try:
            yield engine
        finally:
            engine.dispose()


def _make_folder(config: StoreConfig) -> None:
    path = sqlite_path(config)
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"database_url: the folder {path.parent} cannot be made: {error.strerror}"
        raise StoreUnavailable("store_unavailable", message) from error


def _wait_for_turn(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _POSTGRESQL_LOCK})


def _refuse_newer(connection: Connection) -> None:
    current, known = _current(connection), {script.revision for script in _scripts().walk_revisions()}
    if current is not None and current not in known:
        message = f"the database is at schema {current}, which this program does not know: update the program"
        raise SchemaMismatch("schema_newer", message, expected=_scripts().get_current_head(), measured=current)


def _current(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(_alembic_config())


def _alembic_config() -> Config:
    # Found beside the packages, so that it works from a checkout and when installed.
    config = Config()
    config.set_main_option("script_location", str(files("migrations")).replace("%", "%%"))
    return config
