"""The same upgrade on PostgreSQL, where a constraint that waits would refuse a change of its table."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.postgres import cluster
from tests.upgrade.conftest import ROOT, migrate

pytestmark = [pytest.mark.postgres, pytest.mark.processes]

AS_BEFORE = """
import django
django.setup()
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

replacing = {name: one for name, one in MigrationLoader(None).disk_migrations.items() if one.replaces}
executor = MigrationExecutor(connection)
nodes = executor.loader.graph.node_map
last = [name for name in replacing if not {child.key for child in nodes[name].children} & replacing.keys()]
state = executor.migrate([("auth", "0012_alter_user_first_name_max_length"), ("sessions", "0001_initial"), *last])
recorder = MigrationRecorder(connection)
for name, one in replacing.items():
    recorder.record_unapplied(*name)
for old in {old for one in replacing.values() for old in one.replaces}:
    recorder.record_applied(*old)

Checkpoint, Run = state.apps.get_model("checkpoints", "Checkpoint"), state.apps.get_model("training", "Run")
base = Checkpoint.objects.get(number=0)
for number in (1, 2):
    run = Run.objects.create(parent=base, recipe={}, status="finished", line_id="shared")
    Checkpoint.objects.create(number=number, kind="lora", status="passed", parent=base, run=run, line_id="shared")
"""
"""The tables as the migrations that ours replace left them, which old.sql holds against ours on SQLite; then rows."""

SCHEMA = """
SELECT table_name, column_name, data_type, is_nullable, character_maximum_length FROM information_schema.columns
WHERE table_schema = 'public' ORDER BY 1, 2;
SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1, 2;
SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2
"""


@pytest.fixture(scope="module")
def urls() -> Iterator[tuple[str, str]]:
    """Two empty databases: one to be of before, one fresh."""
    import psycopg

    with cluster() as url:
        with psycopg.connect(url, autocommit=True) as database:
            database.execute("CREATE DATABASE fresh")
        yield url, url.removesuffix("/postgres") + "/fresh"


def ask(url: str, *queries: str) -> list[list[tuple[Any, ...]]]:
    import psycopg

    with psycopg.connect(url) as database:
        return [database.execute(query).fetchall() for query in queries]


def test_an_upgrade_on_postgres_has_runs_name_their_checkpoints(urls: tuple[str, str], tmp_path: Path):
    before, fresh = urls
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "webapp.settings", "ENV_FILE": os.devnull, "RECIPE": ""}
    environment |= {"DATABASE_URL": before, "DATA_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", AS_BEFORE], cwd=ROOT, env=environment, check=True)
    [columns] = ask(
        before, "SELECT column_name FROM information_schema.columns WHERE table_name = 'training_checkpoint'"
    )
    assert ("run_id",) in columns

    for url in urls:
        outcome = migrate(tmp_path, DATABASE_URL=url)
        assert outcome.returncode == 0, outcome.stderr

    numbers = "SELECT run.id, checkpoint.number FROM training_run run JOIN training_checkpoint checkpoint"
    assert ask(before, f"{numbers} ON checkpoint.id = run.checkpoint_id ORDER BY 1") == [[(1, 1), (2, 2)]]
    assert ask(before, *SCHEMA.split(";")) == ask(fresh, *SCHEMA.split(";"))
