"""Migrations on both databases, from a checkout and from copied packages."""

import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect
from store_samples import new_speaker

from store.connections import connect
from store.errors import SchemaMismatch
from store.schema import _alembic_config, check_schema, migrate
from store.service import Store
from store.tables import Base
from store.types import StoreConfig

ROOT = Path(__file__).parents[3]
NEXT = """
import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


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


def test_processes_that_start_at_once_migrate_once(bare_config: StoreConfig, tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as threads:
        jobs = [threads.submit(run, "print(migrate(config))", bare_config, tmp_path) for _ in range(4)]
        assert {job.result() for job in jobs} == {"0002"}
    with Store.open(bare_config) as store:
        assert store.stats().revision == 0


def test_older_is_migrated_and_newer_is_refused(config: StoreConfig, tmp_path: Path) -> None:
    """A copy of the packages with one more revision stands for the next release."""
    for package in ("store", "migrations"):
        shutil.copytree(ROOT / package, tmp_path / "next" / package, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "next" / "migrations" / "versions" / "0003_next.py").write_text(NEXT)
    ask = "try:\n    print(check_schema(config))\nexcept Exception as error:\n    print(error.code, error)"
    answer = run(ask, config, tmp_path, tmp_path / "next")
    assert answer.startswith("schema_older") and "voicekin doctor --migrate" in answer
    assert run("print(migrate(config))", config, tmp_path, tmp_path / "next") == "0003"
    for call in (check_schema, migrate, Store.open):
        with pytest.raises(SchemaMismatch, match="update the program") as caught:
            call(config)
        assert caught.value.details == {"expected": "0002", "measured": "0003"}
        assert caught.value.code == "schema_newer"
