"""Migrations on both databases, from a checkout and from copied packages."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import inspect, text
from store_samples import ENCODER, new_speaker, sha256, unit_vector

from store.connections import connect
from store.errors import SchemaMismatch
from store.schema import _alembic_config, _scripts, check_schema, migrate
from store.service import Store
from store.tables import Base
from store.types import StoreConfig

ROOT = Path(__file__).parents[3]
HEAD = _scripts().get_current_head()
SPEAKER_ID = "0b9d3a50-7d0c-4d1e-9a53-1f0f6f9f1d11"
NEXT = """
import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "{head}"


def upgrade() -> None:
    op.add_column("encoders", sa.Column("note", sa.Text))
"""


def run(code: str, config: StoreConfig, cwd: Path, packages: Path = ROOT) -> str:
    """What a fresh process prints."""
    lines = (
        f"import sys; sys.path.insert(0, {str(packages)!r})",
        "from pathlib import Path",
        "from store.types import StoreConfig",
        "from store.schema import check_schema, migrate",
        f"config = StoreConfig({config.database_url!r}, Path({str(config.state_dir)!r}))",
        code,
    )
    arguments = [sys.executable, "-c", "\n".join(lines)]
    done = subprocess.run(arguments, cwd=cwd, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_bare_database_is_refused_with_the_command(bare_config: StoreConfig) -> None:
    for call in (check_schema, Store.open):
        with pytest.raises(SchemaMismatch, match="voicekin doctor --migrate") as caught:
            call(bare_config)
        assert caught.value.code == "schema_missing"
    assert not list(bare_config.state_dir.glob("*")), "asking creates nothing"


def test_migrating_twice_changes_nothing(config: StoreConfig) -> None:
    with Store.open(config) as store:
        speaker = store.enrol(new_speaker("Anna", [1]))
    assert migrate(config) == check_schema(config)
    with Store.open(config) as store:
        assert store.get(speaker.id).name == "Anna"


def test_the_migrations_make_the_tables_of_the_program(config: StoreConfig) -> None:
    engine = connect(config)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []
    engine.dispose()


def test_the_migrations_can_be_undone(config: StoreConfig) -> None:
    engine = connect(config)
    with engine.begin() as connection:
        script = _alembic_config()
        script.attributes["connection"] = connection
        command.downgrade(script, "base")
        assert inspect(connection).get_table_names() == ["alembic_version"]
    engine.dispose()
    migrate(config)
    Store.open(config).close()


def test_a_filled_first_revision_is_migrated_up_and_down_without_a_loss(bare_config: StoreConfig) -> None:
    bare_config.state_dir.mkdir(parents=True, exist_ok=True)
    run_alembic(bare_config, command.upgrade, "0001")
    vector, when = unit_vector(1), "2026-01-02 03:04:05.000006+00:00"
    rows = {
        "encoders": {"id": ENCODER, "width": 32},
        "speakers": {
            "id": SPEAKER_ID, "name": "Anna", "name_key": "anna", "encoder_id": ENCODER, "vector": vector.tobytes(),
            "labels": "{}", "report": '{"coherence": 0.5}', "pinned": False, "n_clips": 1, "speech_s": 4.25,
            "created_at": when, "updated_at": when, "revision": 1,
        },
        "clips": {
            "id": "c", "speaker_id": SPEAKER_ID, "sha256": sha256(1), "encoder_id": ENCODER, "vector": vector.tobytes(),
            "duration_s": 5.5, "voiced_s": 4.25, "n_partials": 3, "snr_db": None, "created_at": when,
        },
        "usage": {"speaker_id": SPEAKER_ID, "last_used_at": None, "uses": 7},
        "tombstones": {"speaker_id": "00000000-0000-4000-8000-000000000000", "revision": 2},
        "audit": {"id": 1, "at": when, "actor": "http", "action": "delete", "n_speakers": 1, "n_clips": 1},
    }  # fmt: skip
    engine = connect(bare_config)
    with engine.begin() as connection:
        connection.execute(text("UPDATE state SET revision = 2"))
        for table, row in rows.items():
            names = ", ".join(row), ", ".join(f":{name}" for name in row)
            connection.execute(text(f"INSERT INTO {table} ({names[0]}) VALUES ({names[1]})"), row)
    for _ in range(2):
        assert migrate(bare_config) == HEAD
        with engine.connect() as connection:
            for table in rows:
                assert connection.execute(text(f"SELECT count(*) FROM {table}")).scalar_one() == 1, table
        with Store.open(bare_config) as store:
            speaker = store.get(SPEAKER_ID)
            assert (speaker.name, speaker.uses, speaker.report) == ("Anna", 7, {"coherence": 0.5})
            assert store.similar(vector, ENCODER, 1)[0].speaker_id == SPEAKER_ID and store.index_agrees()
            assert store.audit()[0].action == "delete" and store.audit()[0].receipt is None
        run_alembic(bare_config, command.downgrade, "0001")
    engine.dispose()


def run_alembic(config: StoreConfig, verb: Callable[[Config, str], None], revision: str) -> None:
    engine = connect(config)
    with engine.begin() as connection:
        script = _alembic_config()
        script.attributes["connection"] = connection
        verb(script, revision)
    engine.dispose()


def test_processes_that_start_at_once_migrate_once(bare_config: StoreConfig, tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as threads:
        jobs = [threads.submit(run, "print(migrate(config))", bare_config, tmp_path) for _ in range(4)]
        assert {job.result() for job in jobs} == {HEAD}
    with Store.open(bare_config) as store:
        assert store.stats().revision == 0


def test_older_is_migrated_and_newer_is_refused(config: StoreConfig, tmp_path: Path) -> None:
    """A copy of the packages with one more revision stands for the next release."""
    for package in ("store", "migrations"):
        shutil.copytree(ROOT / package, tmp_path / "next" / package, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "next" / "migrations" / "versions" / "9999_next.py").write_text(NEXT.format(head=HEAD))
    ask = "try:\n    print(check_schema(config))\nexcept Exception as error:\n    print(error.code, error)"
    answer = run(ask, config, tmp_path, tmp_path / "next")
    assert answer.startswith("schema_older") and "voicekin doctor --migrate" in answer
    assert run("print(migrate(config))", config, tmp_path, tmp_path / "next") == "9999"
    for call in (check_schema, migrate, Store.open):
        with pytest.raises(SchemaMismatch, match="update the program") as caught:
            call(config)
        assert caught.value.details == {"expected": HEAD, "measured": "9999"}
        assert caught.value.code == "schema_newer"
