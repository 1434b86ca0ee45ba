"""What every test begins with and would make anew: the tables of an empty database, and the list of static files."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import django
import pytest

from installation.places import ROOT
from webapp.serving import static_files


class StaticFiles(static_files.StaticFiles):
    """A client of a test reads the middleware anew: to look at each static file again takes longer than to answer."""

    kept: dict[str, Any] = {}

    def add_files_from_finders(self) -> None:
        if not self.kept:
            super().add_files_from_finders()
            self.kept.update(self.files)
        self.files.update(self.kept)


def written() -> str:
    """The digest of what writes the tables: of every migration there is, the settings and the versions installed."""
    from django.apps import apps

    folders = [Path(app.path) / "migrations" for app in apps.get_app_configs()]
    files = [file for folder in folders for file in sorted(folder.glob("*.py"))]
    files += [ROOT / "webapp" / "settings.py", ROOT / "webapp" / "wiring.py", Path(__file__)]
    digest = hashlib.sha256(f"{django.__version__} {sqlite3.sqlite_version}".encode())
    for file in files:
        digest.update(str(file).encode() + file.read_bytes())
    return digest.hexdigest()[:16]


@contextmanager
def alone(file: Path) -> Iterator[None]:
    """Hold a lock, which other processes wait for."""
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def write_tables(file: Path) -> None:
    """Run all migrations on an SQLite file that is not there yet."""
    from django.core.management import call_command
    from django.db import connection

    making, name = file.with_suffix(f".{os.getpid()}"), connection.settings_dict["NAME"]
    connection.close()
    connection.settings_dict["NAME"] = str(making)
    try:
        call_command("migrate", verbosity=0, interactive=False, run_syncdb=True)
    finally:
        connection.close()
        connection.settings_dict["NAME"] = name
    making.replace(file)


def is_wanted(config: pytest.Config) -> bool:
    """Whether the test database is to begin from a file that is kept."""
    from django.db import connection

    return connection.vendor == "sqlite" and not config.getvalue("create_db") and not config.getvalue("nomigrations")


@pytest.fixture(scope="session")
def empty_database(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, django_db_blocker: Any
) -> Path:
    """An SQLite file as the migrations leave it, made by the first process that asks; to be copied, never written."""
    cache = getattr(request.config, "cache", None)
    folder = cache.mkdir("tables") if cache else tmp_path_factory.mktemp("tables")
    file = folder / f"{written()}.sqlite3"
    with alone(folder / "lock"):
        if not file.exists():
            for old in folder.glob("*.*"):
                old.unlink()
            with django_db_blocker.unblock():
                write_tables(file)
    return file


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    request: pytest.FixtureRequest, django_db_modify_db_settings_parallel_suffix: None
) -> None:
    """Have the tables there before pytest-django makes the database: it runs such migrations as are still missing."""
    from django.db import connection

    if is_wanted(request.config):
        shutil.copyfile(request.getfixturevalue("empty_database"), connection.settings_dict["TEST"]["NAME"])


@pytest.fixture(scope="session")
def django_db_keepdb(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getvalue("reuse_db")) or is_wanted(request.config)
