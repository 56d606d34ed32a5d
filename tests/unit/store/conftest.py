"""One battery over both databases: a migrated, empty store on SQLite and on PostgreSQL; and places for its audio."""

import os
import shutil
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import SQLAlchemyError
from store_samples import new_speaker, wait_until

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


@pytest.fixture
def anna(store: Store) -> str:
    return store.enrol(new_speaker("Anna", [1])).id


@pytest.fixture
def bert(store: Store) -> str:
    return store.enrol(new_speaker("Bert", [2])).id


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Redis of these tests alone."""
    pytest.importorskip("redis")
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed")
    folder = tmp_path_factory.mktemp("redis")
    path = folder / "socket"
    command = ["redis-server", "--port", "0", "--unixsocket", str(path), "--save", "", "--dir", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    wait_until(path.exists)
    yield f"unix://{path}"
    process.terminate()
    process.wait(10)


@pytest.fixture(scope="module")
def bucket_url() -> Iterator[str]:
    """A bucket of moto's server, which clients reach as they reach S3."""
    boto3, _ = pytest.importorskip("boto3"), pytest.importorskip("moto.server")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    code = f"from moto.server import main; main(['-H', '127.0.0.1', '-p', '{port}'])"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: is_open(port), within_s=20)
    names = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in names.items():
            patch.setenv(name, value)
        boto3.client("s3").create_bucket(Bucket="speeches")
        yield "s3://speeches/of/tests"
    process.terminate()
    process.wait(10)


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(params=["memory", "disk", "redis", "s3"])
def place_url(request: pytest.FixtureRequest) -> str:
    fixtures = {"redis": "redis_url", "s3": "bucket_url"}
    return str(request.getfixturevalue(fixtures[request.param])) if request.param in fixtures else request.param
