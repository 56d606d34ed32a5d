"""Full disks, databases that are not there or not databases, and connections that die."""

import json
import shutil
import subprocess
import sys
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import event, text
from store_samples import ENCODER, new_speaker

from store.connections import connect
from store.errors import SchemaMismatch, StorageFull, StoreUnavailable
from store.schema import check_schema, migrate
from store.service import Store
from store.speakers import SpeakerRepository
from store.types import StoreConfig

FILL_A_SMALL_DISK = """
import json, sys
from pathlib import Path
from store_samples import *
from store.errors import StorageFull
from store.schema import migrate
from store.service import Store
from store.types import StoreConfig

disk = Path(sys.argv[1])
config = StoreConfig(f"sqlite:///{disk}/voices.db", disk)
migrate(config)
filler = disk / "filler"
filler.write_bytes(bytes(900_000))
answered, refused = [], None
with Store.open(config) as store:
    for number in range(2000):
        try:
            answered.append(store.enrol(new_speaker(f"voice {number}", [number], labels={"k": "v" * 400})).id)
        except StorageFull as error:
            refused = error.code
            break
    there = [speaker.id for speaker in store.list(limit=1000).speakers]
    store._follower.save()
    leftovers = [path.name for path in disk.glob("*.part")]
    filler.unlink()
    answered.append(store.enrol(new_speaker("after", [5000])).id)
    agrees = store.index_agrees()
with Store.open(config) as store:
    again = [speaker.id for speaker in store.list(limit=1000).speakers]
print(json.dumps([refused, there == answered[:-1], leftovers, agrees, again == answered]))
"""


def test_a_full_disk_refuses_and_keeps_what_was_answered(tmp_path: Path) -> None:
    """On a real file system of 2 MB, in a mount namespace of its own."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size=2m none {disk}"
    own_namespace = ["unshare", "-rm", "sh", "-c"]
    if not shutil.which("unshare") or subprocess.run([*own_namespace, mount], check=False).returncode:
        pytest.skip("this machine allows no mount namespaces, so no small disk can be made")
    environment = {"PYTHONPATH": str(Path(__file__).parent), "OMP_NUM_THREADS": "1"}
    command = [*own_namespace, f'{mount} && exec "$@"', "sh", sys.executable, "-c", FILL_A_SMALL_DISK, str(disk)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["storage_full", True, [], True, True]


def test_sqlite_without_room_refuses_and_recovers(sqlite_store: Store) -> None:
    limit = {"pages": 0}
    engine = sqlite_store._database.engine

    @event.listens_for(engine, "checkout")
    def cap(connection: object, *_: object) -> None:
        connection.execute(f"PRAGMA max_page_count={limit['pages']}")  # type: ignore[attr-defined]

    limit["pages"] = 30
    kept = []
    with pytest.raises(StorageFull) as caught:
        for number in range(1000):
            kept.append(sqlite_store.enrol(new_speaker(f"voice {number}", [number])).id)
    assert caught.value.code == "storage_full" and "make room" in caught.value.message
    assert [speaker.id for speaker in sqlite_store.list(limit=1000).speakers] == kept
    limit["pages"] = 10**6
    sqlite_store.enrol(new_speaker("after", [5000]))
    assert sqlite_store.index_agrees()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "nonsense",
        "mysql://host/db",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite+aiosqlite:///x",
        "postgresql://h:x/d",
    ],
)
def test_a_url_that_cannot_serve_says_what_to_give(url: str, tmp_path: Path) -> None:
    for call in (check_schema, migrate, Store.open):
        with pytest.raises(StoreUnavailable, match=r"database_url.*postgresql://"):
            call(StoreConfig(url, tmp_path))


def test_a_file_that_is_no_database(sqlite_config: StoreConfig) -> None:
    sqlite_config.state_dir.mkdir()
    (sqlite_config.state_dir / "voices.db").write_bytes(b"no database at all" * 1000)
    for call in (check_schema, migrate, Store.open):
        with pytest.raises(StoreUnavailable, match="not a database"):
            call(sqlite_config)


def test_an_empty_file_has_no_tables(sqlite_config: StoreConfig) -> None:
    sqlite_config.state_dir.mkdir()
    (sqlite_config.state_dir / "voices.db").touch()
    with pytest.raises(SchemaMismatch):
        Store.open(sqlite_config)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match="database_url"):
        migrate(StoreConfig(f"sqlite:///{tmp_path}/file/deeper/voices.db", tmp_path))


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    config = StoreConfig("postgresql://someone:secret@127.0.0.1:9/test", tmp_path, busy_timeout_s=1)
    for call in (check_schema, migrate, Store.open):
        with pytest.raises(StoreUnavailable) as caught:
            call(config)
        assert "secret" not in caught.value.message


def test_a_database_that_goes_away_is_unhealthy(sqlite_store: Store, sqlite_config: StoreConfig) -> None:
    sqlite_store.health()
    sqlite_store._database.engine.dispose()
    database = sqlite_config.state_dir / "voices.db"
    database.rename(database.with_suffix(".away"))
    database.mkdir()
    with pytest.raises(StoreUnavailable):
        sqlite_store.health()
    database.rmdir()
    database.with_suffix(".away").rename(database)
    sqlite_store.health()


def test_dead_connections_are_replaced_before_anyone_notices(postgresql_url: str, tmp_path: Path) -> None:
    config = StoreConfig(postgresql_url, tmp_path)
    migrate(config)
    with Store.open(config) as store:
        for number in range(3):
            with store._database.engine.connect() as connection:
                pid = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
            terminate(config, pid)
            speaker = store.enrol(new_speaker(f"voice {number}", [number]))
            assert store.similar(speaker.vector, ENCODER, 1)[0].speaker_id == speaker.id


def test_a_connection_lost_in_the_middle_of_a_read_is_made_good_once(postgresql_url: str, tmp_path: Path) -> None:
    config = StoreConfig(postgresql_url, tmp_path)
    migrate(config)
    pids = []

    def work(speakers: SpeakerRepository, losses: int) -> int:
        pids.append(speakers._session.scalar(text("SELECT pg_backend_pid()")))
        if len(pids) <= losses:
            terminate(config, pids[-1])
        return speakers.position().revision

    with Store.open(config) as store:
        assert store._database.read(partial(work, losses=1)) == 0
        assert len(set(pids)) == 2
        pids.clear()
        with pytest.raises(StoreUnavailable):
            store._database.read(partial(work, losses=2))
        store.health()


def terminate(config: StoreConfig, pid: int) -> None:
    engine = connect(config)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT pg_terminate_backend(:pid, 2000)"), {"pid": pid}).scalar_one()
    engine.dispose()


def test_postgresql_without_its_driver_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from pathlib import Path\n"
        "from store.schema import check_schema\n"
        "from store.types import StoreConfig\n"
        "check_schema(StoreConfig('postgresql://localhost/test', Path('.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert "StoreUnavailable: database_url: PostgreSQL needs the driver that voicekin[postgres] installs" in done.stderr


def test_sqlite_commits_reach_the_disk(sqlite_store: Store) -> None:
    with sqlite_store._database.engine.connect() as connection:
        settings = {
            name: connection.execute(text(f"PRAGMA {name}")).scalar_one()
            for name in ("journal_mode", "synchronous", "foreign_keys", "secure_delete", "busy_timeout")
        }
    assert settings == {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "secure_delete": 1,
        "busy_timeout": 10000,
    }


def test_twenty_enrol_and_delete_at_once(store: Store) -> None:
    def come_and_go(number: int) -> None:
        speaker = store.enrol(new_speaker(f"voice {number}", [number]))
        store.touch({speaker.id: (speaker.created_at, 1)})
        if number % 2:
            store.delete(speaker.id)

    with ThreadPoolExecutor(20) as threads:
        list(threads.map(come_and_go, range(40)))
    assert store.list().total == 20 and store.index_agrees()


def test_a_writer_that_never_ends_is_given_up_on(sqlite_config: StoreConfig) -> None:
    migrate(sqlite_config)
    with (
        Store.open(replace(sqlite_config, busy_timeout_s=0.2)) as store,
        Store.open(sqlite_config) as other,
        other._database.write(),
    ):
        with pytest.raises(StoreUnavailable, match="does not answer: database is locked"):
            store.enrol(new_speaker("Anna", [1]))
        assert store.list().total == 0, "readers go on"


def test_a_thread_that_holds_the_turn_is_given_up_on(sqlite_config: StoreConfig) -> None:
    migrate(sqlite_config)
    with Store.open(replace(sqlite_config, busy_timeout_s=0.2)) as store, store._database.write():
        failures: list[StoreUnavailable] = []

        def enrol() -> None:
            try:
                store.enrol(new_speaker("Anna", [1]))
            except StoreUnavailable as error:
                failures.append(error)

        thread = threading.Thread(target=enrol)
        thread.start()
        thread.join(5)
        assert [failure.details for failure in failures] == [{"limit": 0.2}]


def test_a_failed_write_leaves_nothing(store: Store) -> None:
    before = store.stats().revision
    with pytest.raises(RuntimeError), store._database.write() as unit:
        unit.speakers.add(str(uuid.uuid4()), new_speaker("Anna", [1]), unit.revision)
        raise RuntimeError
    assert store.list().total == 0 and store.stats().revision == before
