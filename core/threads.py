"""Run database work in threads that live as long as the process, each with a connection that it keeps.

Django gives each request under ASGI a thread of its own, and with it a new connection: a millisecond and more before
anything was asked. After `kept()` every `sync_to_async` runs in one of DATABASE_THREADS threads instead. No
transaction spans two such calls, so any thread may take any call. With DATABASE_THREADS = 0, as in tests, all is as
Django has it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import lru_cache, partial
from time import monotonic
from typing import Any, ParamSpec, TypeVar

from asgiref.sync import SyncToAsync, ThreadSensitiveContext, sync_to_async
from django.conf import settings
from django.db import connections

IDLE_S = 5.0
"""A connection that was not used for so long is looked at before it is used again."""

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def kept() -> bool:
    """From here on, in this task and those it starts, database work is done by the kept threads.

    False where the settings want none: nothing has changed then.
    """
    if not settings.DATABASE_THREADS:
        return False
    SyncToAsync.thread_sensitive_context.set(context())
    return True


@lru_cache
def context() -> ThreadSensitiveContext:
    """One for the process, never left: what outlives its request still finds its threads."""
    found = ThreadSensitiveContext()
    SyncToAsync.context_to_thread_executor[found] = executor()
    return found


@lru_cache
def executor() -> Threads:
    return Threads(settings.DATABASE_THREADS)


def call(work: Callable[[], Result]) -> asyncio.Future[Result]:
    """`sync_to_async(work)()`, already under way, by a shorter way where threads are kept: for what each reply does."""
    if not settings.DATABASE_THREADS:
        return asyncio.ensure_future(sync_to_async(work)())
    return asyncio.get_running_loop().run_in_executor(executor(), copy_context().run, work)


class Threads(ThreadPoolExecutor):
    """A pool whose threads keep and renew their database connections."""

    def __init__(self, count: int) -> None:
        super().__init__(max_workers=count, thread_name_prefix="database")

    def submit(  # type: ignore[override]
        self, call: Callable[Arguments, Result], /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Future[Result]:
        return super().submit(call_tended, partial(call, *args, **kwargs))

    def close(self) -> None:
        """End the threads, and their connections with them."""
        done = [super(Threads, self).submit(connections.close_all) for _ in range(self._max_workers)]
        for one in done:
            one.result()
        self.shutdown()


def call_tended(call: Callable[[], Any]) -> Any:
    """Call with sound connections, and keep them, unless something went wrong with them."""
    open_ = connections.all(initialized_only=True)
    for connection in open_:
        if monotonic() - getattr(connection, "used_at", 0.0) > IDLE_S:
            connection.close_if_unusable_or_obsolete()  # and have it checked before it is used
    try:
        return call()
    finally:
        for connection in connections.all(initialized_only=True):
            connection.used_at = monotonic()  # type: ignore[attr-defined]
            connection.close_at = None  # kept, whatever CONN_MAX_AGE says of threads that end
            if connection.errors_occurred:
                connection.close_if_unusable_or_obsolete()
