"""Answer /healthz and /readyz for machines, without a login and without secrets."""

from __future__ import annotations

import asyncio
import logging
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import redis
from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import Error, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path
from django.views.decorators.cache import never_cache

from core import stores
from gpu_workers import engines
from judge.sittings import sitting
from webapp import heartbeats

log = logging.getLogger(__name__)

TIMEOUT_S = 2.0
FRESH_S = 1.0
"""How long one look serves everybody who asks."""

NAMES = ("database", "disk", "redis", "engine", "judge worker", "learn worker")

LOCK_S = 1.0
"""How long the try to write waits for the process that has SQLite locked."""


@dataclass(frozen=True)
class Check:
    """One thing that must answer. The sentence says what to do when it does not."""

    ok: bool
    sentence: str = ""


@never_cache
async def healthz(request: HttpRequest) -> HttpResponse:
    """This process answers. Touches nothing else."""
    return HttpResponse("ok\n", content_type="text/plain")


@never_cache
async def readyz(request: HttpRequest) -> JsonResponse:
    """Everything that a reply and a lesson need, by name: 200 when all of it answers, else 503."""
    checks = await look()
    ready = all(check.ok for check in checks.values())
    body = {"ready": ready, "checks": {name: asdict(check) for name, check in checks.items()}}
    response = JsonResponse(body, status=200 if ready else 503)
    # An answer, and no error of ours: a program that waits for an engine asks every second. Django asks this of a
    # response before it writes a line about its status.
    response._has_been_logged = True  # type: ignore[attr-defined]
    note({name: check.sentence for name, check in checks.items() if not check.ok})
    return response


_seen: tuple[float, dict[str, Check]] = (-FRESH_S, {})
_missing: frozenset[str] = frozenset()


def note(missing: Mapping[str, str]) -> None:
    """Say what does not answer once, and again when it is something else; `missing` has a sentence for each."""
    global _missing
    if _missing == missing.keys():
        return
    _missing = frozenset(missing)
    if missing:
        log.warning("not ready: %s", " ".join(missing.values()))
    else:
        log.info("ready: everything answers")


async def look() -> dict[str, Check]:
    """Each part by its name, all asked side by side; a look less than FRESH_S old serves again."""
    global _seen
    if time.monotonic() - _seen[0] >= FRESH_S:
        database, disk, engine, (store, judge, learn) = await asyncio.gather(
            _database(), asyncio.to_thread(_disk), _engine(), _workers()
        )
        checks = (database, disk, store, engine, judge, learn)
        _seen = time.monotonic(), dict(zip(NAMES, checks, strict=True))
    return _seen[1]


async def _database() -> Check:
    """Whether it reads, and takes a row: what is full, or locked by another process, answers questions all the same."""

    def ask() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM training_checkpoint LIMIT 1")
            patience_s = connection.settings_dict["OPTIONS"].get("timeout", 5)
            if connection.vendor == "sqlite":
                cursor.execute(f"PRAGMA busy_timeout = {LOCK_S * 1000:.0f}")
            try:
                with sitting("ready", for_s=TIMEOUT_S):
                    pass
            finally:
                if connection.vendor == "sqlite":
                    cursor.execute(f"PRAGMA busy_timeout = {patience_s * 1000:.0f}")

    try:
        await asyncio.wait_for(sync_to_async(ask)(), TIMEOUT_S)
    except (Error, TimeoutError) as error:
        failure = stores.name_failure(error)
        if isinstance(failure, stores.DiskFull):
            return Check(False, "The database cannot keep anything, for its disk is full: make room there.")
        if isinstance(failure, stores.DatabaseBusy):
            return Check(False, "The database cannot be written: something holds it. See what else has it open.")
        return Check(False, "The database does not answer, or has no tables: look at DATABASE_URL, then run migrate.")
    return Check(True)


def _disk() -> Check:
    """Whether DATA_DIR takes a file, and has what learning leaves free of it."""
    home = Path(settings.DATA_DIR)
    try:
        with tempfile.TemporaryFile(dir=home) as file:
            file.write(bytes(4096))
            file.flush()
    except OSError as error:
        if error.errno in stores.FULL_ERRNOS:
            return Check(False, "The disk of DATA_DIR is full: make room there. Until then nothing can be kept.")
        return Check(False, f"DATA_DIR cannot be written ({error.strerror}): see to its disk, and to who owns it.")
    if (short := -stores.learning_room()) > 0:
        said = f"The disk of DATA_DIR has {short / stores.MIB:.0f} MiB less free than DISK_RESERVE_MB"
        return Check(False, f"{said}: make room there. Until then nothing is learned.")
    return Check(True)


async def _engine() -> Check:
    try:
        ready = await asyncio.wait_for(engines.policy().ready(), TIMEOUT_S)
    except TimeoutError:
        ready = False
    if ready:
        return Check(True)
    return Check(False, "The engine does not answer: it may still be loading its model; else see the engine's log.")


async def _workers() -> tuple[Check, Check, Check]:
    """Redis, and by what is written there the workers of both queues."""
    try:
        silences = await asyncio.wait_for(sync_to_async(heartbeats.silences)(), TIMEOUT_S)
    except redis.ResponseError as error:
        unknown = Check(False, "Unknown while Redis keeps nothing.")
        said = f"Redis refuses to write ({str(error).partition('.')[0]}): see to its disk, its memory and its log."
        return Check(False, said), unknown, unknown
    except (redis.RedisError, TimeoutError):
        unknown = Check(False, "Unknown while Redis is away.")
        return Check(False, "Redis does not answer: look at REDIS_URL, or start it again."), unknown, unknown
    except Error:
        unknown = Check(False, "Unknown while the database is away.")
        return Check(True), unknown, unknown
    return Check(True), _worker("judge", silences["judge"]), _worker("learn", silences["learn"])


def _worker(queue: str, silence_s: float | None) -> Check:
    if silence_s is not None and silence_s <= heartbeats.LOST_S:
        return Check(True)
    since = "was ever heard" if silence_s is None else f"has been heard for {silence_s:.0f} s"
    return Check(False, f"No {queue} worker {since}: see its log, or start it again.")


urlpatterns = [
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
]
