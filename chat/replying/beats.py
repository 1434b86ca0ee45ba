"""Heartbeat of replies under way: one write says for all of them that they are alive, and reads which to stop."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable
from uuid import UUID
from weakref import WeakKeyDictionary

from asgiref.sync import sync_to_async
from django.db import DatabaseError, close_old_connections, transaction
from django.utils import timezone

from chat.models import Turn
from core import threads

log = logging.getLogger(__name__)

TOGETHER = 25
"""Rows that one transaction touches: few enough that no request waits long for them."""


class Writing:
    """One reply under way, as the heartbeat knows it."""

    def __init__(self, turn: Turn, every_s: float, rouse: Callable[[], None]) -> None:
        """`rouse` is called once the reply is not wanted any more: it was stopped elsewhere, or deleted."""
        self.pk: UUID = turn.pk
        self.every_s, self.rouse = every_s, rouse
        self.is_wanted = True
        self.words: list[str] = []
        """What was said so far, in pieces."""
        self.noted = 0
        """How many of them the row has."""

    async def __aenter__(self) -> Writing:
        self._beats = Beats.of_this_loop()
        self._beats.add(self)
        return self

    async def __aexit__(self, *error: object) -> None:
        """When this is left, no beat speaks of the turn any more."""
        await self._beats.discard(self)


class Beats:
    """Beat for all replies under way on one event loop, in one task."""

    _all: WeakKeyDictionary[asyncio.AbstractEventLoop, Beats] = WeakKeyDictionary()

    def __init__(self) -> None:
        self._writing: dict[UUID, Writing] = {}
        self._task: asyncio.Task[None] | None = None
        self._idle = asyncio.Event()
        """Set while no row is touched."""
        self._idle.set()

    @classmethod
    def of_this_loop(cls) -> Beats:
        loop = asyncio.get_running_loop()
        if loop not in cls._all:
            cls._all[loop] = cls()
        return cls._all[loop]

    def add(self, writing: Writing) -> None:
        self._writing[writing.pk] = writing
        if self._task is None or self._task.done():
            # A fresh context: the request that came first takes its thread for database work with it when it ends.
            self._task = asyncio.get_running_loop().create_task(self._beat(), context=contextvars.Context())

    async def discard(self, writing: Writing) -> None:
        if self._writing.get(writing.pk) is writing:
            del self._writing[writing.pk]
        if not self._idle.is_set():
            await self._idle.wait()
        if not self._writing and self._task is not None:
            self._task.cancel()
            self._task = None  # it is not done before the loop comes round: a reply that begins now needs another

    async def _beat(self) -> None:
        # Where no thread is kept, one of its own: the usual one may wait for a view, which waits for this to end.
        beat = sync_to_async(note_beats) if threads.kept() else sync_to_async(note_beats_once, thread_sensitive=False)
        while self._writing:
            await asyncio.sleep(min(writing.every_s for writing in self._writing.values()))
            everyone = list(self._writing.values())
            for start in range(0, len(everyone), TOGETHER):
                some = [one for one in everyone[start : start + TOGETHER] if one.pk in self._writing]
                said = {one.pk: "".join(one.words) if len(one.words) > one.noted else None for one in some}
                lengths = {one.pk: len(one.words) for one in some}
                self._idle.clear()
                try:
                    wanted = await beat(said)
                except DatabaseError as error:  # a beat is missed; the next one tries again
                    log.warning("%d replies could not say that they are being written: %s", len(some), error)
                    continue
                finally:
                    self._idle.set()
                for one in some:
                    one.noted = lengths[one.pk]
                    if one.pk not in wanted:
                        one.is_wanted = False
                        one.rouse()


def note_beats(said: dict[UUID, str | None]) -> set[UUID]:
    """Say that these replies are being written, and keep their text where it has grown. Those still wanted.

    These are turns of many sessions, and none of the sessions is locked: a row that another process has locked is left
    for the next beat, since a beat that waits here would hold what others wait for.
    """
    rows = Turn.objects.filter(pk__in=said, status=Turn.Status.ANSWERING, finish_reason="").order_by()
    with transaction.atomic():
        free = set(rows.select_for_update(skip_locked=True).values_list("pk", flat=True))
        now = timezone.now()
        # No row twice: PostgreSQL then looks whether its session is still there, and waits for the process that has it
        # locked.
        Turn.objects.filter(pk__in=[pk for pk in free if said[pk] is None]).update(moved_at=now)
        for pk in free:
            if said[pk] is not None:
                Turn.objects.filter(pk=pk).update(moved_at=now, text=said[pk])
    held = said.keys() - free
    return free | (set(rows.filter(pk__in=held).values_list("pk", flat=True)) if held else set())


def note_beats_once(said: dict[UUID, str | None]) -> set[UUID]:
    """`note_beats`, in a thread that keeps no connection."""
    try:
        return note_beats(said)
    finally:
        close_old_connections()
