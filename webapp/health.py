"""Answer /healthz and /readyz for machines, without a login and without secrets."""

from __future__ import annotations

import asyncio
import logging
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import redis
from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import Error, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path
from django.utils import translation
from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _
from django.views.decorators.cache import never_cache

from core import stores
from gpu_workers import engines
from judge.sittings import sitting
from webapp import heartbeats

log = logging.getLogger(__name__)

TIMEOUT_S = 2.0
FRESH_S = 1.0
"""How long one look serves everybody who asks."""

NAMES = (_("database"), _("disk"), _("redis"), _("engine"), _("judge worker"), _("learn worker"))

KNOWN_S = 10.0
"""How long what was last heard of the engine stands for pages that do not ask it themselves."""

LOCK_S = 1.0
"""How long the try to write waits for the process that has SQLite locked."""


@dataclass(frozen=True)
class Check:
    """One thing that must answer. The sentence says what to do when it does not."""

    ok: bool
    words: str = ""
    """In English: one look is kept for readers of all languages."""
    values: Mapping[str, str] = field(default_factory=dict)
    """What stands in the words by name."""

    @property
    def sentence(self) -> str:
        """In the reader's language."""
        return gettext(self.words) % self.values


@never_cache
async def healthz(request: HttpRequest) -> HttpResponse:
    """This process answers. Touches nothing else."""
    return HttpResponse("ok\n", content_type="text/plain")


@never_cache
async def readyz(request: HttpRequest) -> JsonResponse:
    """Everything that a reply and a lesson need, by name: 200 when all of it answers, else 503."""
    checks = await look()
    ready = all(check.ok for check in checks.values())
    with translation.override(settings.LANGUAGE_CODE):  # for programs and for the log
        said = {name: {"ok": check.ok, "sentence": check.sentence} for name, check in checks.items()}
    body = {"ready": ready, "checks": said}
    response = JsonResponse(body, status=200 if ready else 503)
    # An answer, and no error of ours: a program that waits for an engine asks every second. Django asks this of a
    # response before it writes a line about its status.
    response._has_been_logged = True  # type: ignore[attr-defined]
    note({name: str(check["sentence"]) for name, check in said.items() if not check["ok"]})
    return response


_seen: tuple[float, dict[str, Check]] = (-FRESH_S, {})
_missing: frozenset[str] = frozenset()
_heard: tuple[float, bool] = (-KNOWN_S, True)
"""When the engine was asked last, and whether it answered."""


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
            return Check(False, _("The database cannot keep anything, for its disk is full: make room there."))
        if isinstance(failure, stores.DatabaseBusy):
            return Check(False, _("The database cannot be written: something holds it. See what else has it open."))
        return Check(
            False, _("The database does not answer, or has no tables: look at DATABASE_URL, then run migrate.")
        )
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
            return Check(False, _("The disk of DATA_DIR is full: make room there. Until then nothing can be kept."))
        return Check(
            False,
            _("DATA_DIR cannot be written (%(why)s): see to its disk, and to who owns it."),
            {"why": error.strerror or ""},
        )
    if (short := -stores.learning_room()) > 0:
        said = _(
            "The disk of DATA_DIR has %(mib)s MiB less free than DISK_RESERVE_MB: make room there. Until then nothing "
            "is learned."
        )
        return Check(False, said, {"mib": f"{short / stores.MIB:.0f}"})
    return Check(True)


async def hear_engine() -> None:
    """Ask the engine, unless that was done less than FRESH_S ago, so that `is_engine_away` knows."""
    if time.monotonic() - _heard[0] >= FRESH_S:
        await _engine()


def is_engine_away() -> bool:
    """Whether the engine did not answer when it was asked last; False where that is KNOWN_S ago. Asks nothing."""
    at, answered = _heard
    return not answered and time.monotonic() - at < KNOWN_S


async def _engine() -> Check:
    global _heard
    try:
        ready = await asyncio.wait_for(engines.policy().ready(), TIMEOUT_S)
    except TimeoutError:
        ready = False
    _heard = time.monotonic(), ready
    if ready:
        return Check(True)
    return Check(False, _("The engine does not answer: it may still be loading its model; else see the engine's log."))


async def _workers() -> tuple[Check, Check, Check]:
    """Redis, and by what is written there the workers of both queues."""
    try:
        silences = await asyncio.wait_for(sync_to_async(heartbeats.silences)(), TIMEOUT_S)
    except redis.ResponseError as error:
        unknown = Check(False, _("Unknown while Redis keeps nothing."))
        said = _("Redis refuses to write (%(why)s): see to its disk, its memory and its log.")
        return Check(False, said, {"why": str(error).partition(".")[0]}), unknown, unknown
    except (redis.RedisError, TimeoutError):
        unknown = Check(False, _("Unknown while Redis is away."))
        return Check(False, _("Redis does not answer: look at REDIS_URL, or start it again.")), unknown, unknown
    except Error:
        unknown = Check(False, _("Unknown while the database is away."))
        return Check(True), unknown, unknown
    return Check(True), _worker("judge", silences["judge"]), _worker("learn", silences["learn"])


def _worker(queue: Literal["judge", "learn"], silence_s: float | None) -> Check:
    if silence_s is not None and silence_s <= heartbeats.LOST_S:
        return Check(True)
    if silence_s is None:
        never = {
            "judge": _("No judge worker was ever heard: see its log, or start it again."),
            "learn": _("No learn worker was ever heard: see its log, or start it again."),
        }
        return Check(False, never[queue])
    silent = {
        "judge": _("No judge worker has been heard for %(seconds)s s: see its log, or start it again."),
        "learn": _("No learn worker has been heard for %(seconds)s s: see its log, or start it again."),
    }
    return Check(False, silent[queue], {"seconds": f"{silence_s:.0f}"})


urlpatterns = [
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
]
