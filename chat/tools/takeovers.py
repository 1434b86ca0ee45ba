"""Go on with a reply whose process is gone: between its calls, their results, and the answer that follows from them.

What is kept is not done again: a call with a result keeps it, one that was begun is broken off, and the model reads
that; one that was allowed and not begun is made. An answer that was being written is written anew.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime

from asgiref.sync import sync_to_async
from django.db import transaction
from django.utils.translation import gettext_noop

from chat import sessions, turns
from chat.models import Session, Turn
from chat.replying import live_replies, retries, writers
from chat.tools import leases, rounds
from chat.tools.calls import ToolCall, ToolLease
from chat.turns import TurnUnfinished
from core import stops
from gpu_workers.engine.interface import Engine

log = logging.getLogger(__name__)

MOST_TRIES = 5
"""Processes that may go while they have one reply in hand: what brings them down must not do so for ever."""
GIVEN_UP = gettext_noop("Talkback was stopped again and again while it went on from here. Try again.")


async def take_up(pk: int, engine: Engine) -> bool:
    """Go on with what this lease stands for, unless its holder lives; returns whether this process did."""
    lease = await sync_to_async(take_over)(pk)
    if lease is None:
        return False
    with stops.handing_back(lambda: leases.hand_back(lease)):
        turn = await _reached(lease)
        if turn is not None:
            await live_replies.publish_calls(turn)
            if turn.status == Turn.Status.ANSWERING:
                async with leases.beating(lease):
                    await live_replies.speak(turn, engine)
            await rounds.go_on_from(turn, lease, engine)
    return True


async def _reached(lease: ToolLease) -> Turn | None:
    while True:
        try:
            return await sync_to_async(reach)(lease)
        except TurnUnfinished:  # another reply of this chat is being written: that ends
            await asyncio.sleep(rounds.LOOK_S)


def take_over(pk: int) -> ToolLease | None:
    """leases.take_over, of a reply that no process writes; one that too many processes had in hand is left to its
    person."""
    lease = ToolLease.objects.filter(pk=pk).select_related("turn").first()
    if lease is None:
        return None
    newest = newest_of(lease.turn)
    if newest.status == Turn.Status.ANSWERING and not writers.is_stranded(newest):
        return None
    if (taken := leases.take_over(pk)) is None:
        return None
    if taken.tries > MOST_TRIES:
        writers.close_stranded(Turn.objects.filter(pk=newest.pk))
        rounds.note_failure(newest, GIVEN_UP)
        leases.give_up(taken)
        return None
    log.info("turn %s goes on: the process that had its tools in hand is gone", newest.pk)
    return taken


def newest_of(turn: Turn) -> Turn:
    """The last of the replies that went on from this one's tools by themselves."""
    following: Turn | None = turn
    while following is not None:
        turn = following
        following = Turn.objects.filter(completion_id=rounds.own_id(turn), session=turn.session_id).first()
    return turn


@transaction.atomic
def reach(lease: ToolLease) -> Turn | None:
    """The reply that this lease has come to: ANSWERING where it is to be written (anew), else whole, and its calls as
    they are. None where nothing is left to do. Raises TurnUnfinished while another reply of the chat is written."""
    try:
        session = sessions.locked(Turn.objects.values_list("session", flat=True).get(pk=lease.turn_id))
    except (Turn.DoesNotExist, Session.DoesNotExist):
        return None
    turn = newest_of(Turn.objects.get(pk=lease.turn_id))
    if not leases.is_held(lease) or not leases.may_go_on(session) or not leases.pass_on(lease, turn):
        leases.give_up(lease)
        return None
    leases.break_off([turn.pk])
    ask_again(turn, session, lease.beat_at)
    if not turn.is_whole:
        turns.check_answered(session)  # it closes what is left of a reply whose writer is gone
        turn = Turn.objects.select_related("checkpoint", "session").get(pk=turn.pk)
        before = turn.follows if turn.completion_id.startswith(rounds.OWN) else None
        if before is None or rounds.goes_on_without(before) or not retries.reopen_reply(turn):
            leases.give_up(lease)
            return None
    return turn


def ask_again(turn: Turn, session: Session, left_at: datetime) -> None:
    """What was allowed long ago, and not begun, is a person's to allow anew, unless it only reads."""
    if rounds.is_fresh(left_at):
        return
    for call in turn.calls.filter(status=ToolCall.Status.ALLOWED).select_related("server"):
        safe = {} if call.server is None else call.server.safe
        if safe.get(call.tool) != call.grant.rpartition("/")[2]:
            ToolCall.objects.filter(pk=call.pk).update(status=ToolCall.Status.WAITING, started_at=None)
