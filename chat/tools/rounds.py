"""Have a reply written, run the tools that it calls, and have the model go on from what they say, until it answers.

Each of these replies is a turn of its own, and the tool's results are its next state, as a client's are that runs its
tools itself. What is under way is in rows: a person's word, or Stop, may reach another process than the one that runs,
and where that one is gone another goes on (chat.tools.takeovers).
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections.abc import Callable, Coroutine
from contextlib import nullcontext, suppress
from datetime import datetime, timedelta
from typing import Any

from asgiref.sync import sync_to_async
from django.db import DatabaseError, close_old_connections, transaction
from django.utils import timezone
from django.utils.translation import gettext_noop

from chat import asking, branches, sessions
from chat.composing import terms
from chat.models import Session, Turn
from chat.replying import live_replies
from chat.requests import Ask, PageSession
from chat.tools import calls, leases, offering, reaching
from chat.tools.calls import ToolCall, ToolLease
from chat.tools.servers import Tool, ToolServer
from chat.turns import ContextTooLong, TurnUnfinished
from core.errors import TalkbackError
from core.mcp.results import MOST_SHOWN, cut_again
from core.visible import visible
from gpu_workers.engine.interface import Engine

log = logging.getLogger(__name__)

MOST_ROUNDS = 8
"""Replies in a row that may call tools; the next one must answer."""
MOST_CALLS = 8
"""Calls of one reply that are run."""
OWN = "chatcmpl-tools-"
"""How the completion ids of replies begin that go on from tools, by which one is opened once."""
LEAST_SHOWN = 100
"""Characters of a result below which it is not cut further."""
LOOK_S = 0.5
"""How often a call at work looks whether it was stopped."""
WORD_KEPT = timedelta(hours=1)
"""After so long a call that was allowed, and not begun since Talkback was stopped, is asked about again."""
TAKEN_AWAY = "Error: this call was stopped: its chat was deleted, or its person's account closed."

Status = ToolCall.Status


async def open_and_answer(open_turn: Callable[[], Turn], engine: Engine) -> Turn:
    """Open a turn and have the engine answer it, with its tools. Who asked may leave in between and take their request
    along: what is stored is answered all the same."""

    async def both() -> Turn:
        turn = await sync_to_async(open_turn)()
        if not turn.repeated:
            start(answer(turn, engine))
        return turn

    return await asyncio.shield(live_replies.begin(both()))


def start(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Run this beside the request that asks for it."""
    # A fresh context: the request that asked takes its thread for database work with it when it ends.
    return live_replies.begin(work, contextvars.Context())


async def answer(turn: Turn, engine: Engine) -> None:
    """Have the turn answered, and all that its tools lead to, as far as no person needs to be asked."""
    lease = None
    with suppress(DatabaseError):  # it is taken behind the reply then, which closes itself where it cannot be kept
        lease = await sync_to_async(leases.take)(turn) if turn.tools else None
    async with leases.beating(lease) if lease else nullcontext():
        await live_replies.speak(turn, engine)
    if turn.tools:
        await go_on_from(turn, lease or await sync_to_async(leases.take)(turn), engine)


async def go_on_from(turn: Turn, lease: ToolLease, engine: Engine) -> None:
    """Run what this reply calls, have what follows from it answered, and so on, until there is no more to do without a
    person. A process that ends within this leaves its lease to the next."""
    async with leases.beating(lease):
        while (following := await follow(turn, lease)) is not None:
            await live_replies.speak(following, engine)
            turn = following
        await sync_to_async(leases.give_up)(lease)


async def follow(turn: Turn, lease: ToolLease) -> Turn | None:
    """Run what this turn's reply calls; returns the turn that goes on from it, not answered yet. None: it calls
    nothing, its person is to be asked, or what it called was stopped."""
    try:
        return await _follow(turn, lease)
    except (Turn.DoesNotExist, Session.DoesNotExist):
        return None
    except TalkbackError as failure:
        await sync_to_async(note_failure)(turn, str(failure))
    except Exception:
        log.exception("the tools of turn %s broke", turn.pk)
        await sync_to_async(note_failure)(turn, gettext_noop("Something went wrong while tools were run."))
    finally:
        await sync_to_async(close_old_connections)()
    await live_replies.publish_calls(turn)
    return None


async def _follow(turn: Turn, lease: ToolLease) -> Turn | None:
    made = await sync_to_async(prepare)(turn, lease)
    if not made:
        return None
    await live_replies.publish_calls(turn)
    if any(call.status == Status.WAITING for call in made):
        return None
    for call in made:
        if call.status == Status.ALLOWED:
            await run(call, turn, lease)
    while True:
        try:
            return await sync_to_async(go_on_within)(turn, lease)
        except TurnUnfinished:  # its person writes on, or another reply of this chat is being written: that ends
            await asyncio.sleep(LOOK_S)


@transaction.atomic
def prepare(turn: Turn, lease: ToolLease) -> list[ToolCall]:
    """The calls of this turn's reply, written down once; none where it is not ours to run them, or its person went on
    already."""
    sessions.locked(turn.session_id)
    held = Turn.objects.select_related("session__user").defer("prompt_ids", "response_ids", "logprobs").get(pk=turn.pk)
    message, session = held.message, held.session
    if held.finish_reason != "tool_calls" or not branches.has_branches(session):
        return []
    if held.asked.get("event") == "comparison":  # a reply to look at: nothing is done for it
        return []
    if goes_on_without(held) or not (leases.is_held(lease) and leases.may_go_on(session)):
        return []
    known = offering.chosen(session)
    rows = [described(held, n, made, known, session) for n, made in enumerate(message.get("tool_calls") or [])]
    ToolCall.objects.bulk_create(rows, ignore_conflicts=True)
    made = list(held.calls.select_related("server"))
    if any(call.status == Status.WAITING for call in made):
        leases.give_up(lease)  # before its person can see them: their word takes a lease of its own
    return made


def described(turn: Turn, place: int, made: dict[str, Any], known: dict[str, Tool], session: Session) -> ToolCall:
    """One call as a row: allowed, to be asked about, or failed before it began."""
    function = made.get("function") or {}
    name, arguments = str(function.get("name", ""))[:128], str(function.get("arguments") or "")
    row = ToolCall(turn=turn, place=place, call_id=str(made.get("id", ""))[:100], arguments=arguments)
    row.name = visible(name, one_line=True)[:128]
    tool, fault = known.get(name), ""
    if place >= MOST_CALLS:
        fault = f"at most {MOST_CALLS} calls of one reply are run."
    elif tool is None:
        fault = f"there is no tool {reaching.name_of(name)!r} in this chat."
    elif offering.definitions({name: tool})[0] not in turn.tools:  # its chat, or its server, changed meanwhile
        fault = f"the tool {name} is another than before: ask for it once more."
    elif reaching.read_arguments(arguments) is None:
        fault = f"{name} takes its arguments as a JSON object."
    if tool is not None:
        row.server, row.tool, row.grant = tool.server, tool.name, tool.grant
    if fault or tool is None:
        row.status, row.result = Status.FAILED, f"Error: {fault}"
    elif tool.is_safe or (tool.grant in session.granted and is_fresh(turn.served_at)):
        row.status, row.started_at = Status.ALLOWED, timezone.now()
    return row


def is_fresh(said_at: datetime | None) -> bool:
    """Whether a person's yes of then still stands where nothing was done: they are asked again after a long stop."""
    return said_at is None or timezone.now() - said_at < WORD_KEPT


async def run(call: ToolCall, turn: Turn, lease: ToolLease) -> None:
    """Run one call, if no other process does, and write down what came of it; a person may stop it meanwhile, delete
    the chat, or have their account closed."""
    if not await sync_to_async(leases.claim)(call, turn.session_id, lease):
        return
    await live_replies.publish_calls(turn)
    began = time.monotonic()
    running = ToolCall.objects.filter(pk=call.pk, status=Status.RUNNING)
    wanted = running.filter(turn__session__deleted_at=None, turn__session__user__is_active=True)
    work = asyncio.ensure_future(asked_of_server(call))
    try:
        while not work.done():
            await asyncio.wait({work}, timeout=LOOK_S)
            if not await wanted.aexists():
                break
        else:
            status, result = work.result()
            said = {"status": status, "result": result, "seconds": round(time.monotonic() - began, 3)}
            await running.aupdate(**said)
    finally:
        if not work.done():
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
    await running.aupdate(status=Status.STOPPED, result=TAKEN_AWAY)  # nothing, where it ended or was stopped
    await live_replies.publish_calls(turn)


async def asked_of_server(call: ToolCall) -> tuple[str, str]:
    """What came of a call, and what the model reads of it."""
    arguments = reaching.read_arguments(call.arguments)
    server = await ToolServer.objects.filter(
        pk=call.server_id or 0
    ).afirst()  # as it is now: calls before it took a while
    if server is None or arguments is None:
        return Status.FAILED, "Error: the tool's server was removed."
    try:
        answered = await reaching.call(server, call.tool, call.grant.rpartition("/")[2], arguments)
    except TimeoutError:
        return Status.FAILED, f"Error: The server {server} did not answer in time."
    except TalkbackError as failure:
        return Status.FAILED, f"Error: {failure}"
    text = reaching.text_of(answered)
    return Status.FAILED if answered.is_error else Status.DONE, text


def go_on_within(turn: Turn, lease: ToolLease) -> Turn | None:
    """`go_on`, with results as short as the model's window asks for. Raises what that raises."""
    most = MOST_SHOWN
    while True:
        try:
            return go_on(turn, lease)
        except ContextTooLong:
            most //= 2
            if most < LEAST_SHOWN:
                raise
            for call in ToolCall.objects.filter(turn=turn.pk):
                call.result = cut_again(call.result, most)
                call.save(update_fields=["result"])


def go_on(turn: Turn, lease: ToolLease) -> Turn | None:
    """The turn that answers this one's tool results; None where it is there already, or a call was stopped, or is not
    over, or its person went on without them or deleted the chat. Raises what asking.open_turns raises."""
    held = Turn.objects.select_related("session__user").get(pk=turn.pk)
    session, made = held.session, list(held.calls.all())
    if any(call.is_open or call.status == Status.STOPPED for call in made) or not leases.may_go_on(session):
        return None
    if goes_on_without(held) or not leases.is_held(lease):
        return None
    tools = offering.chosen(session)
    said = [*held.messages, spoken(held), *calls.results_of(held.message, made)]
    ask = Ask(
        terms.with_instructions(said, offering.told(session.instructions, tools)),
        terms.sampling_of(session),
        terms.answering(session.user, session),
        protocol="",
        tools=offering.definitions(tools),
        tool_choice="none" if count_rounds(held) >= MOST_ROUNDS else "auto",
    )
    (following,) = asking.open_turns(PageSession(session.user, session, held, own_id(held)), ask)
    if following.repeated:
        return None
    if not leases.pass_on(lease, following):  # stopped while it was opened
        following.move(Turn.Status.CLOSED, finish_reason="abort")
        return None
    return following


def own_id(turn: Turn) -> str:
    """The completion id of the reply that goes on from this turn's tools."""
    return f"{OWN}{turn.pk.hex}"


def goes_on_without(turn: Turn) -> bool:
    """Whether its person went on from this turn, whatever its tools say."""
    return turn.followers.exclude(completion_id=own_id(turn)).exists()


def spoken(turn: Turn) -> dict[str, Any]:
    """A reply that called tools, as later requests have it."""
    return {"role": "assistant", "content": turn.text, "tool_calls": turn.message.get("tool_calls") or []}


def count_rounds(turn: Turn) -> int:
    """How many replies in a row called tools, this one the last of them."""
    called = dict(turn.session.turns.filter(finish_reason="tool_calls").values_list("pk", "follows_id"))
    goes_on = set(turn.session.turns.filter(completion_id__startswith=OWN).values_list("pk", flat=True))
    count, at = 1, turn.pk
    while at in goes_on and (before := called.get(at)) in called:
        count, at = count + 1, before
    return count


def note_failure(turn: Turn, sentence: str) -> None:
    """Why the model could not go on, on the reply whose tools were run. Calls that were not over are failed."""
    Turn.objects.filter(pk=turn.pk).update(error=sentence)
    held = ToolCall.objects.filter(turn=turn.pk, status__in=ToolCall.OPEN)
    held.update(status=Status.FAILED, result="Error: Talkback could not run this call.")


async def stop(session: Session) -> None:
    """End all calls of this chat that are not over, wherever they run."""
    for pk in await sync_to_async(leases.stop)(session):
        turn = await Turn.objects.select_related("session").aget(pk=pk)
        await live_replies.publish_calls(turn)


def decide(call: ToolCall, word: str) -> ToolLease | None:
    """Write down a person's word on a call: once, always or refuse. Returns the lease of this process where the reply's
    tools can go on."""
    to = Status.REFUSED if word == "refuse" else Status.ALLOWED
    with transaction.atomic():
        session = sessions.locked(call.turn.session_id)
        alike = ToolCall.objects.filter(turn=call.turn_id, status=Status.WAITING)
        held = alike.filter(grant=call.grant) if word == "always" else alike.filter(pk=call.pk)
        result = "Error: the person refused this call." if to == Status.REFUSED else ""
        if not held.update(status=to, result=result, started_at=timezone.now()):
            return None
        if word == "always" and call.grant not in session.granted:
            Session.objects.filter(pk=session.pk).update(granted=[*session.granted, call.grant])
        return None if alike.exists() else leases.take(call.turn)
