"""Hold a reply while its tools are run: one process at a time has it in hand, and of one that is gone another takes it.

All that is decided of a reply's calls is decided under its session's lock (chat.sessions.locked), so that of two who
decide one comes first. A call is begun by the lease's holder alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db import DatabaseError, models, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from chat import sessions
from chat.models import Session, Turn
from chat.replying import writers
from chat.tools.calls import BROKEN_OFF, CALL_S, NOT_ASKED, START_S, ToolCall, ToolLease
from core.errors import TalkbackError

log = logging.getLogger(__name__)

BEAT_S = 5.0
"""How often a holder says that it lives, where its process cannot be looked at."""


class ToolAtWork(TalkbackError):
    """A message came while a tool was at work."""

    code, status = "tool_at_work", 409


def take(turn: Turn) -> ToolLease:
    """Have this process be the one that runs what this reply calls."""
    fresh = {"holder": writers.name(), "beat_at": timezone.now(), "tries": 0}
    lease, _made = ToolLease.objects.update_or_create(turn=turn, defaults=fresh)
    return lease


def own(lease: ToolLease) -> models.QuerySet[ToolLease]:
    """Its row, as long as it is this holder's: each that takes it from another counts one more."""
    return ToolLease.objects.filter(pk=lease.pk, holder=lease.holder, tries=lease.tries)


def is_held(lease: ToolLease) -> bool:
    """Whether its holder still has it: Stop takes it, and so does another process that thinks this one gone."""
    return own(lease).exists()


def pass_on(lease: ToolLease, to: Turn) -> bool:
    """Have it stand at the reply that goes on from its own; False where its holder has it no more."""
    lease.turn_id = to.pk
    return bool(own(lease).update(turn=to.pk, beat_at=timezone.now()))


def give_up(lease: ToolLease) -> None:
    """Nothing is left to do."""
    own(lease).delete()


def hand_back(lease: ToolLease) -> None:
    """Leave it to the next one at once: this process was asked to stop."""
    own(lease).update(holder="", beat_at=timezone.now() - timedelta(seconds=2 * writers.SILENCE_S))


def beat(lease: ToolLease) -> bool:
    return bool(own(lease).update(beat_at=timezone.now()))


@asynccontextmanager
async def beating(lease: ToolLease) -> AsyncIterator[None]:
    """Within this its holder is heard of."""

    async def beats() -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            try:
                if not await sync_to_async(beat)(lease):
                    return
            except DatabaseError as error:  # a beat is missed; the next one tries again
                log.warning("the tools of turn %s could not say that they are run: %s", lease.turn_id, error)

    task = asyncio.create_task(beats())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def is_lost(lease: ToolLease) -> bool:
    """Whether its holder is gone: at once where that is known, else after a silence."""
    state = writers.look(lease.holder)
    silent_s = (timezone.now() - lease.beat_at).total_seconds()
    return state == "gone" or silent_s > (writers.HUNG_S if state == "lives" else writers.SILENCE_S)


def lost() -> list[int]:
    """Those that wait for another process, the oldest first."""
    return [lease.pk for lease in ToolLease.objects.order_by("beat_at") if is_lost(lease)]


def take_over(pk: int) -> ToolLease | None:
    """Have this process be the holder in place of one that is gone; None where that lives, another was quicker, or
    nothing is left to do. `beat_at` stays as it was, which tells for how long it was gone."""
    lease = ToolLease.objects.filter(pk=pk).first()
    if lease is None or not is_lost(lease):
        return None
    name, seen = writers.name(), own(lease).filter(beat_at=lease.beat_at)
    if not seen.update(holder=name, tries=lease.tries + 1, beat_at=timezone.now()):
        return None
    lease.holder, lease.tries = name, lease.tries + 1
    return lease


@transaction.atomic
def claim(call: ToolCall, session: UUID, lease: ToolLease) -> bool:
    """Have this call be begun, by its reply's holder, once. False: it is not to be begun (any more)."""
    held = sessions.locked(session)
    if not (is_held(lease) and may_go_on(held)):
        return False
    begun = {"status": ToolCall.Status.RUNNING, "started_at": timezone.now()}
    return bool(ToolCall.objects.filter(pk=call.pk, status=ToolCall.Status.ALLOWED).update(**begun))


def may_go_on(session: Session) -> bool:
    """Whether anything is still to be done for this chat: it is not in the bin, and its person's account is open."""
    return session.deleted_at is None and session.user.is_active


@transaction.atomic
def check_idle(session: Session) -> None:
    """Raises ToolAtWork while a tool of this chat is at work. A person who writes on has said no to calls that wait
    for their word, and to those that wait with them."""
    held = ToolCall.objects.filter(turn__session=session)
    if not held.filter(status__in=ToolCall.OPEN).exists():
        return
    Session.objects.select_for_update().filter(pk=session.pk).first()  # no word on a call comes in between
    close_lost(session)
    if at_work(session).exists():
        raise ToolAtWork(_("A tool is still at work: stop it, or wait for its end."))
    held.filter(status__in=ToolCall.OPEN).update(status=ToolCall.Status.REFUSED, result=NOT_ASKED)


def at_work(session: Session) -> models.QuerySet[ToolCall]:
    """The calls of this chat that run or are about to (chat.tools.calls.is_at_work)."""
    held = ToolCall.objects.filter(turn__session=session)
    waiting = held.filter(status=ToolCall.Status.WAITING).values_list("turn", flat=True)
    return held.filter(status__in=ToolCall.AT_WORK).exclude(turn__in=list(waiting))


def close_lost(session: Session) -> None:
    """Its person goes on before another process did: calls whose holder is gone are over, and are made by none."""
    kept = {lease.turn_id for lease in ToolLease.objects.filter(turn__session=session) if not is_lost(lease)}
    gone = at_work(session).exclude(turn__in=kept)
    turns = list(gone.values_list("turn", flat=True).distinct())
    ToolLease.objects.filter(turn__in=turns).delete()
    close(turns)


def close_unheld() -> None:
    """End calls at work that no process has in hand, nor will have: their chat was in the bin meanwhile, or a Talkback
    without leases began them."""
    old = timezone.now() - timedelta(seconds=2 * (START_S + CALL_S))
    waiting = ToolCall.objects.filter(status=ToolCall.Status.WAITING).values("turn")
    left = ToolCall.objects.filter(turn__lease=None, status__in=ToolCall.AT_WORK, started_at__lt=old)
    if turns := list(left.exclude(turn__in=waiting).values_list("turn", flat=True).distinct()):
        close(turns)


@transaction.atomic
def close(turns: list[UUID]) -> None:
    """Calls of these replies that are at work are over, and are made by none."""
    break_off(turns)
    ToolCall.objects.filter(turn__in=turns, status=ToolCall.Status.ALLOWED).update(
        status=ToolCall.Status.REFUSED, result=NOT_ASKED
    )


def break_off(turns: list[UUID]) -> int:
    """Calls of these replies that were begun, and whose process is gone: none makes them again. How many."""
    begun = ToolCall.objects.filter(turn__in=turns, status=ToolCall.Status.RUNNING)
    return begun.update(status=ToolCall.Status.BROKEN, result=BROKEN_OFF)


@transaction.atomic
def stop(session: Session) -> list[UUID]:
    """End all calls of this chat that are not over, and have nothing go on from those that are; returns the turns of
    the calls."""
    sessions.locked(session.pk)
    ToolLease.objects.filter(turn__session=session).delete()
    held = ToolCall.objects.filter(turn__session=session, status__in=ToolCall.OPEN)
    turns = list(held.order_by("turn").values_list("turn_id", flat=True).distinct())
    held.update(status=ToolCall.Status.STOPPED, result="Error: the person stopped this call.")
    return turns
