"""Name failures of disk and database: full, locked, away. None of them is the caller's fault."""

from __future__ import annotations

import errno
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import InterfaceError, OperationalError

from core.errors import TalkbackError

MIB = 2**20

LEAST_FREE = 4 * MIB
"""Bytes of the database's disk below which no reply is begun: those under way must still be written down."""

FULL_ERRNOS = frozenset((errno.ENOSPC, errno.EDQUOT))

BUSY_STATES = frozenset(("40001", "40P01", "55P03", "57014"))
"""PostgreSQL's SQLSTATE: serialization failure, deadlock, a lock not to be had, a statement that took too long."""

FULL_STATE = "53100"
"""PostgreSQL's SQLSTATE for a full disk."""

AWAY_CLASSES = ("08", "53", "57P", "58")
"""How SQLSTATE begins for connections, resources, a server that stops, and its operating system."""


class DiskFull(TalkbackError):
    """The disk has no room for what was to be kept."""

    code, status, retryable, retry_after_s = "disk_full", 507, True, 30


class DatabaseBusy(TalkbackError):
    """Another process has locked what was to be written; nothing was changed."""

    code, status, retryable, retry_after_s = "database_busy", 503, True, 5


class DatabaseAway(TalkbackError):
    """The database does not answer; nothing was changed, as far as is known."""

    code, status, retryable, retry_after_s = "database_unavailable", 503, True, 5


FULL = "The disk of this Talkback is full, so nothing of this was kept: make room there, then send it again."
BUSY = "The database is busy with something else, and nothing of this was kept: send it again in a few seconds."
AWAY = "The database does not answer, and nothing of this was kept: send it again in a moment."


def name_failure(error: BaseException) -> TalkbackError | None:
    """A failure of the database or of a disk, by its name and with a sentence for the caller; one that has a name
    already as it is. None for any other: that is a fault in the code."""
    if isinstance(error, TalkbackError):
        return error
    if any(_is_full(one) for one in _causes(error)):
        return DiskFull(FULL)
    if any(_is_busy(one) for one in _causes(error)):
        return DatabaseBusy(BUSY)
    if any(_is_away(one) for one in _causes(error)):
        return DatabaseAway(AWAY)
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error, and what it was raised from, down to the driver's own."""
    one: BaseException | None = error
    while one is not None:
        yield one
        one = one.__cause__


def _is_full(error: BaseException) -> bool:
    """Says so by a number, where it has one; else in words. SQLite says no more than that it could not open or write a
    file when not even the smallest one fits."""
    if isinstance(error, OSError):
        return error.errno in FULL_ERRNOS
    if isinstance(error, sqlite3.Error):
        code = _sqlite_code(error)
        if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN):
            return (free := database_room()) is not None and free < LEAST_FREE
        return code == sqlite3.SQLITE_FULL
    if isinstance(error, DatabaseError) and error.__cause__ is None:
        said = str(error)
        return "disk is full" in said or "No space left on device" in said
    return _sqlstate(error) == FULL_STATE


def _is_busy(error: BaseException) -> bool:
    if isinstance(error, sqlite3.Error):
        return _sqlite_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    if isinstance(error, DatabaseError) and error.__cause__ is None:
        return "is locked" in str(error)
    return _sqlstate(error) in BUSY_STATES


def _is_away(error: BaseException) -> bool:
    """A driver that never reached its server has no SQLSTATE, and raises OperationalError or InterfaceError."""
    if isinstance(error, sqlite3.Error):
        return _sqlite_code(error) in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
    if isinstance(error, OperationalError | InterfaceError):
        return not isinstance(error.__cause__, sqlite3.Error) and not _sqlstate(error.__cause__)
    return _sqlstate(error).startswith(AWAY_CLASSES)


def _sqlite_code(error: sqlite3.Error) -> int:
    """The primary code: the extended ones say more in their higher bits."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _sqlstate(error: BaseException | None) -> str:
    return str(getattr(error, "sqlstate", None) or "")


def database_room() -> int | None:
    """Bytes that are free where the database lies; None where it is not ours to look at."""
    name = str(settings.DATABASES["default"]["NAME"])
    if not settings.DATABASES["default"]["ENGINE"].endswith("sqlite3") or not Path(name).is_absolute():
        return None
    return free_bytes(Path(name).parent)


def free_bytes(folder: Path) -> int:
    """Bytes that are free where `folder` lies, or will lie."""
    return shutil.disk_usage(existing(folder)).free


def existing(folder: Path) -> Path:
    """The folder, or the nearest above it that is there."""
    while not folder.exists():
        folder = folder.parent
    return folder


def check_room() -> None:
    """Raises DiskFull where the database's disk has no room for another reply."""
    free = database_room()
    if free is not None and free < LEAST_FREE:
        raise DiskFull(FULL)


def learning_room() -> int:
    """Bytes in DATA_DIR that learning may take: what is free beyond the reserve that is kept for people."""
    return free_bytes(Path(settings.DATA_DIR)) - settings.DISK_RESERVE_MB * MIB
