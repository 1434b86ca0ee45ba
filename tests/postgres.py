"""The rooms' tests that ask a database, once more on PostgreSQL: a temporary cluster, gone after the run.

python -m tests.postgres [--all] [pytest's arguments]

Where several write at once a database is most itself, and where we write its SQL: without `--all` it is those that
commit for good, in files that speak of such things (OWN). The others, pages with them, are left to `make test-all`:
what an answer looks like is no matter of the database.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from installation.diagnosis import postgres_programs

ROOMS = (
    "core",
    "accounts",
    "checkpoints",
    "chat",
    "feedback",
    "episodes",
    "training",
    "judge",
    "privacy",
    "gate",
    "evaluation",
)
PAGES = ("webapp",)
OWN = re.compile(
    r"at_once\b|_races|Barrier|asyncio\.gather|threading\.|connection\.vendor|mark\.database|mark\.postgres|fts5"
)
"""What tells that a file is about several writers, or about SQL of ours."""
ALSO = ("chat/api/test_streams.py", "chat/test_turns.py", "episodes/test_api.py")
"""Files that speak of neither, and hold what every turn and every episode is to any database."""
SHAPES = "chat/test_schema.py"
LEFT = "Left to another command: what neither commits nor locks, on PostgreSQL. `make test-all` runs it."


@contextmanager
def cluster() -> Iterator[str]:
    """The DATABASE_URL of an empty PostgreSQL on a Unix socket, with nothing listening on a port.

    initdb refuses root, so as root the server belongs to `postgres` or `nobody`.
    """
    programs = postgres_programs()
    if programs is None:
        raise FileNotFoundError("PostgreSQL's initdb and postgres are not on this machine")
    folder = Path(tempfile.mkdtemp(prefix="talkback-postgres-"))
    owner = unprivileged()
    as_owner: dict[str, Any] = (
        {} if owner is None else {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
    )
    if owner is not None:
        os.chown(folder, owner.pw_uid, owner.pw_gid)
    quick = ["-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off"]
    listen = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={folder}", "-c", "max_connections=100"]
    try:
        subprocess.run(
            [
                str(programs / "initdb"),
                "-D",
                str(folder / "data"),
                "-U",
                "talkback",
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--no-sync",
            ],
            check=True,
            capture_output=True,
            cwd=folder,
            **as_owner,
        )
        with (folder / "log").open("wb") as log:
            start = [
                str(programs / "pg_ctl"),
                "start",
                "-w",
                "-D",
                str(folder / "data"),
                "-o",
                shell_words(quick + listen),
            ]
            subprocess.run(start, check=True, stdout=log, stderr=log, cwd=folder, **as_owner)
        yield f"postgresql://talkback@{quote(str(folder), safe='')}/postgres"
    except subprocess.CalledProcessError as error:
        log_file = folder / "log"
        said = error.stderr or (log_file.read_bytes() if log_file.exists() else b"")
        raise RuntimeError(f"PostgreSQL did not start: {said.decode(errors='replace')}") from error
    finally:
        stop = [str(programs / "pg_ctl"), "stop", "-m", "immediate", "-D", str(folder / "data")]
        subprocess.run(stop, capture_output=True, cwd="/", check=False, **as_owner)
        shutil.rmtree(folder, ignore_errors=True)


def shell_words(arguments: list[str]) -> str:
    return " ".join(f"'{argument}'" for argument in arguments)  # pg_ctl hands them to a shell


def unprivileged() -> pwd.struct_passwd | None:
    """Who runs the server: we ourselves unless we are root."""
    if os.geteuid() != 0:
        return None
    users = {user.pw_name: user for user in pwd.getpwall()}
    return users.get("postgres") or users["nobody"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--commits", action="store_true", help="only tests whose transactions are real ones")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what no database can change: it was run on SQLite's side already."""

    def asks(item: pytest.Item) -> bool:
        fixtures, marker = set(getattr(item, "fixturenames", ())), item.get_closest_marker("django_db")
        if config.getoption("--commits"):
            return "transactional_db" in fixtures or (marker is not None and marker.kwargs.get("transaction", False))
        return bool(fixtures & {"db", "transactional_db"}) or marker is not None

    config.hook.pytest_deselected(items=[item for item in items if not asks(item)])
    items[:] = [item for item in items if asks(item)]


def named_tests(arguments: Iterable[str]) -> list[str]:
    """The arguments that are files or folders of tests. What follows -k may be the name of a folder, too."""
    paths = [argument for argument in arguments if "/" in argument or argument.endswith((".py", "tests"))]
    return [path for path in paths if Path(path.partition("::")[0]).exists()]


def of_its_own(tests: Path) -> list[str]:
    """The files of the rooms in which databases differ."""
    also = {tests / name for name in ALSO}
    files = (file for room in ROOMS for file in sorted((tests / room).rglob("test_*.py")))
    return [str(file) for file in files if file in also or OWN.search(file.read_text("utf-8"))]


def main(arguments: list[str]) -> int:
    if postgres_programs() is None:
        print("No PostgreSQL here: its tests are left out.")
        return 0
    tests = Path(__file__).parent
    is_all = "--all" in arguments
    arguments = [argument for argument in arguments if argument != "--all"]
    rooms = [str(tests / room) for room in ROOMS + PAGES] if is_all else of_its_own(tests)
    left = [] if is_all else [f"--ignore={tests / SHAPES}", "--commits"]
    if named_tests(arguments):
        rooms, left = [], []
    with cluster() as url:
        print(f"The rooms' tests on PostgreSQL ({url})", flush=True)
        plugins = ["-p", "no:cacheprovider", "-p", "tests.postgres"]
        # The database goes with its cluster: to drop it first would wait for each process that still has it open.
        command = [sys.executable, "-m", "pytest", "--reuse-db", *plugins, *left, *rooms, *arguments]
        status = subprocess.run(command, env={**os.environ, "DATABASE_URL": url}, check=False).returncode
    if rooms and not is_all and "TESTS_SUMMARY" not in os.environ:
        print(LEFT)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
