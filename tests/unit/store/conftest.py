"""One battery over both databases: a migrated, empty store on SQLite and on PostgreSQL."""

import os
import sys
import uuid
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import SQLAlchemyError

from store.schema import migrate
from store.service import Store
from store.types import StoreConfig

# The benchmarks' d-vectors, which are no part of the installed packages.
sys.path.append(str(Path(__file__).parents[3]))
_SERVERS = ("postgresql+psycopg:///test", "postgresql+psycopg://postgres@127.0.0.1:5432/test")


@cache
def find_server() -> str | None:
    """The first PostgreSQL server that answers, the one in TEST_POSTGRES_URL before all."""
    for url in filter(None, (os.environ.get("TEST_POSTGRES_URL"), *_SERVERS)):
        engine = create_engine(url, connect_args={"connect_timeout": 2})
        try:
            with engine.connect():
                return url
        except SQLAlchemyError:
            continue
        finally:
            engine.dispose()
    return None


@pytest.fixture
def postgresql_url() -> Iterator[str]:
    """A schema of its own on a real server."""
    server = find_server()
    if server is None:
        pytest.skip("no PostgreSQL server answers: start one with a database `test`, or set TEST_POSTGRES_URL")
    schema = f"voicekin_{uuid.uuid4().hex}"
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE SCHEMA {schema}"))
    yield f"{server}?options=-csearch_path%3D{schema}"
    with engine.connect() as connection:
        connection.execute(text(f"DROP SCHEMA {schema} CASCADE"))
    engine.dispose()


@pytest.fixture
def sqlite_config(tmp_path: Path) -> StoreConfig:
    """An SQLite database that does not exist yet."""
    return StoreConfig(f"sqlite:///{tmp_path}/state/voices.db", tmp_path / "state")


@pytest.fixture(params=["sqlite", "postgresql"])
def bare_config(request: pytest.FixtureRequest, sqlite_config: StoreConfig) -> StoreConfig:
    """A database without tables."""
    if request.param == "sqlite":
        return sqlite_config
    return StoreConfig(request.getfixturevalue("postgresql_url"), sqlite_config.state_dir)


@pytest.fixture
def config(bare_config: StoreConfig) -> StoreConfig:
    """A migrated, empty database."""
    migrate(bare_config)
    return bare_config


@pytest.fixture
def store(config: StoreConfig) -> Iterator[Store]:
    with Store.open(config) as opened:
        yield opened


@pytest.fixture
def sqlite_store(sqlite_config: StoreConfig) -> Iterator[Store]:
    migrate(sqlite_config)
    with Store.open(sqlite_config) as opened:
        yield opened
