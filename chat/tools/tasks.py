"""Tasks of tools: each takes an id, calls one function, and may run twice."""

from __future__ import annotations

import logging
import threading
from typing import Any

from asgiref.sync import async_to_sync
from celery import shared_task
from celery.signals import worker_shutdown
from django.db import connections

from chat.tools import takeovers
from gpu_workers import engines

log = logging.getLogger(__name__)

AT_ONCE = 8
"""Replies that one worker goes on with at the same time, each in a thread of its own."""

_places = threading.BoundedSemaphore(AT_ONCE)
_at_work: set[threading.Thread] = set()
_starting = threading.Lock()
"""Held while one is begun: only what has begun can be waited for."""


@shared_task
def take_up(pk: str) -> bool:
    """Go on with a reply whose process is gone, beside the worker's other work: its tools may take minutes, and
    verdicts wait for the worker's own threads. False where as many are at work as may be: the sweep asks again."""
    if not _places.acquire(blocking=False):
        return False
    thread = threading.Thread(target=_run, args=(pk,), name=f"tools {pk}", daemon=True)
    with _starting:
        try:
            _at_work.add(thread)
            thread.start()
        except Exception:  # the system has no thread for it: it will not give its place back itself
            _at_work.discard(thread)
            _places.release()
            raise
    return True


@worker_shutdown.connect
def finish(**kwargs: Any) -> None:
    """Let what is at work end before its process does; what takes longer than that may is handed back (core.stops)."""
    with _starting:
        begun = list(_at_work)
    for thread in begun:
        thread.join()


def _run(pk: str) -> None:
    try:
        try:
            _take_up(int(pk))
        finally:
            connections.close_all()  # this thread's own
    except Exception:  # the row stands as it was: its lease is lost, and the sweep finds it
        log.exception("the tools of lease %s could not be gone on with", pk)
    finally:
        _places.release()
        _at_work.discard(threading.current_thread())


@async_to_sync
async def _take_up(pk: int) -> bool:
    engine = engines.policy()
    try:
        return await takeovers.take_up(pk, engine)
    finally:
        await engine.aclose()  # this event loop ends here, and its connections with it
