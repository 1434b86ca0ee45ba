"""Idempotency: recognise a retried request and return its turn."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator
from contextlib import suppress
from datetime import timedelta
from time import monotonic
from typing import Any

from asgiref.sync import sync_to_async
from django.db import transaction
from django.utils import timezone

from chat import sessions, turns
from chat.api_keys import ApiKey
from chat.clients.sorting import Sorted
from chat.models import Turn
from chat.rendering.model_output import Piece
from chat.replying import writers
from chat.replying.deltas import ReplyDelta
from chat.requests import Ask, PageSession
from chat.sessions import NARROW
from checkpoints import trials
from checkpoints.models import Checkpoint
from core.errors import IllegalMove, TalkbackError
from core.prepared import Prepared

KEPT_S = 24 * 3600
"""How long an Idempotency-Key stands for its request."""
COUNTED_S = 600
"""How long after a request its client may count a retry of it."""
ALIKE_S = 120
"""How long the same body is a retry where nothing says so and the reply did not reach its reader whole."""

LOOK_S = 0.25
"""How often a retry looks whether the reply that is being written elsewhere has ended."""
BEAT_S = 3.0

LOOKED_AT = writers.LOOKED_AT
"""What is read of the row at each such look; the rest may be as long as a book."""

ANEW: dict[str, Any] = {
    "text": "",
    "message": {},
    "marks": [],
    "response_ids": [],
    "logprobs": [],
    "finish_reason": "",
    "error": "",
    "cached_tokens": 0,
    "weight_version": "",
    "first_token_s": None,
    "served_at": None,
}
"""What a reply leaves on its row, as it is before the reply."""


class KeyReused(TalkbackError):
    """The client sent an Idempotency-Key that it had sent with another request."""

    code, status = "idempotency_key_reused", 409

    def __init__(self) -> None:
        super().__init__("This Idempotency-Key was used for another request. Send each new request with a new one.")


def body_key(ask: Ask, sorted_: Sorted) -> str:
    """Digest of the request as it came, and of what its headers make of it: the session and the line it belongs to."""
    if not ask.body:
        return ""
    about = json.dumps([ask.session_id, ask.turn_type, sorted_.session, sorted_.is_main])
    return hashlib.sha256(about.encode() + ask.body).hexdigest()


def request_key(ask: Ask, sorted_: Sorted) -> str:
    """By what this request is known again: its Idempotency-Key, else its body; empty where it has neither."""
    if given := ask.headers.get("idempotency-key", "").strip():
        return hashlib.sha256(b"idempotency-key " + given.encode("utf-8", "replace")).hexdigest()
    return body_key(ask, sorted_)


def is_counted(ask: Ask) -> bool:
    """The client itself says that this is not its first try."""
    count = ask.headers.get("x-stainless-retry-count", "")
    return count.isascii() and count.isdecimal() and count.strip("0") != ""


def find_sent(page: PageSession) -> list[Turn]:
    """The turn that this message of a page made when it was sent before, `repeated`; none where it is new. Call it
    inside a transaction, which keeps the session locked: of two sendings at once the second finds the first."""
    sent = Turn.objects.visible_to(page.user)
    if page.session is not None:
        sent = sessions.locked(page.session.pk).turns.all()
    turn = sent.select_related("session").filter(completion_id=page.completion_id).first()
    if turn is None:
        return []
    turn.repeated = True
    return [turn]


def find_retried(key: ApiKey, ask: Ask, sorted_: Sorted, prompt: turns.Prompt, checkpoint: Checkpoint) -> list[Turn]:
    """The turns that this very request made before, one a choice, if it is a retry; else none.

    A reply that is not whole is opened anew, on its row; one that is, or that another request is writing now, is
    `repeated`. Of two retries at once one writes. Raises KeyReused. Call it inside a transaction.
    """
    digest = request_key(ask, sorted_)
    if not digest:
        return []
    named, counted = bool(ask.headers.get("idempotency-key", "").strip()), is_counted(ask)
    if named:  # two that come at once must be told apart before either is stored
        ApiKey.objects.select_for_update(no_key=True).only("pk").get(pk=key.pk)
    since = timezone.now() - timedelta(seconds=KEPT_S if named else COUNTED_S if counted else ALIKE_S)
    known = SAME.ask(digest, key.pk, since)
    if not known:
        return []
    stranded = [turn for turn in known if turn.status == Turn.Status.ANSWERING and writers.is_stranded(turn)]
    for turn in stranded:  # a reply that lost its writer is this request's at once
        sessions.locked(turn.session_id)
        writers.close_stranded(Turn.objects.filter(pk=turn.pk))
    if stranded:
        known = SAME.ask(digest, key.pk, since)
    if named and known[0].asked.get("body") not in (None, body_key(ask, sorted_)):
        raise KeyReused
    newest = known[0]
    if not named:  # the client's own count, or the circumstances, must say that the reply was lost
        lost = [turn for turn in known if turn.status == Turn.Status.CLOSED and not turn.is_whole]
        writing = [turn for turn in known if turn.status == Turn.Status.ANSWERING]
        if lost:
            newest = lost[0]
        elif not counted:
            return []
        elif writing:
            newest = writing[0]
    with transaction.atomic():  # a savepoint: rows that were locked in vain are free again, this may be no retry
        made = lock_made(newest, digest, named=named, counted=counted)
        transaction.set_rollback(not made)
    for turn in made:
        turn.repeated = not reopen_reply(turn, prompt, trials.answering(checkpoint, key.user_id, turn.session_id))
    return made


def lock_made(newest: Turn, digest: str, *, named: bool, counted: bool) -> list[Turn]:
    """The turns of the request that made `newest`, locked with their session; none where this is no retry of it."""
    session = sessions.locked(newest.session_id)
    first = newest.completion_id.partition(".")[0]
    made = list(
        session.turns.filter(request_key=digest, completion_id__startswith=first)
        .select_for_update(of=("self",))
        .select_related("checkpoint")
        .order_by("position")
    )
    later = session.turns.filter(position__gt=made[-1].position, line=Turn.Line.MAIN) if made else None
    if later is None or (not named and later.exists()):
        return []
    if not named and not counted and all(turn.status == Turn.Status.ANSWERING for turn in made):
        return []  # another retry has just taken it up: this one is a request beside it
    for turn in made:
        turn.session = session
    return made


SAME: Prepared[Turn] = Prepared(
    lambda digest, key, since: (
        Turn.objects.filter(request_key=digest, session__key=key, session__deleted_at=None, created_at__gte=since)
        .only(*NARROW, *LOOKED_AT)
        .order_by("-created_at", "-position")[:16]
    )
)
"""The newest turns that one request may have made."""


def reopen_reply(turn: Turn, prompt: turns.Prompt | None = None, checkpoint: Checkpoint | None = None) -> bool:
    """Have a reply that ended before it was whole written once more, on its row. False: it is whole, or another
    process writes it already."""
    if turn.status != Turn.Status.CLOSED or turn.is_whole:
        return False
    fields = ANEW | {"writer": writers.name()}
    if prompt is not None:
        fields |= {"prompt_ids": prompt.prompt_ids, "sampling": prompt.sampling, "checkpoint": checkpoint}
    tries = int(turn.asked.get("retries", 0)) + 1
    fields["asked"] = turn.asked | {"event": "retry", "retries": tries}
    try:
        with transaction.atomic():
            turn.move(Turn.Status.ANSWERING, **fields)
    except IllegalMove:
        return False
    return True


async def replay(turn: Turn) -> AsyncGenerator[ReplyDelta, None]:
    """A reply that was asked for twice, from its row. While another request writes it, signs of life.

    Ends without a finish reason when that writer gave up, or is gone: the reply is then this caller's to write, and
    the turn `repeated` no more.
    """
    row = Turn.objects.filter(pk=turn.pk)
    beat = monotonic() + BEAT_S
    while (held := await row.only(*LOOKED_AT).aget()).status == Turn.Status.ANSWERING:
        if await asyncio.to_thread(writers.is_stranded, held):  # it opens a file, which may lie on a slow disk
            await sync_to_async(writers.close_stranded)(row)
            continue
        if monotonic() >= beat:
            beat = monotonic() + BEAT_S
            yield ReplyDelta()
        await asyncio.sleep(LOOK_S)
    if not held.is_whole and await take_over(turn, held):
        return
    held = await row.aget()
    if held.status == Turn.Status.ANSWERING:  # a third one was quicker
        async for spoken in replay(turn):
            yield spoken
        return
    yield ReplyDelta(
        tuple(pieces_of(held)),
        tuple(held.response_ids),
        tuple(held.logprobs),
        finish_reason=held.finish_reason or "abort",
        cached_tokens=held.cached_tokens,
    )


async def take_over(turn: Turn, held: Turn) -> bool:
    """Have the turn be this caller's to write, or to close; `held` is its row. A caller that is cancelled meanwhile
    leaves it closed."""
    reopening = asyncio.ensure_future(sync_to_async(reopen_reply)(held))
    try:
        taken = await asyncio.shield(reopening)
    except asyncio.CancelledError:
        if await reopening:
            with suppress(IllegalMove):
                await asyncio.shield(sync_to_async(held.move)(Turn.Status.CLOSED, finish_reason="abort"))
        raise
    if taken:
        turn.repeated, turn.status = False, held.status
    return taken


def pieces_of(turn: Turn) -> list[Piece]:
    """A stored reply as a reader would have had it: reasoning, words, calls."""
    message = turn.message or {"content": turn.text}
    said = [Piece("reasoning", message["reasoning_content"])] if message.get("reasoning_content") else []
    if content := message.get("content"):
        said.append(Piece("content", content))
    for index, call in enumerate(message.get("tool_calls") or []):
        function = call.get("function") or {}
        said.append(Piece("call", index=index, id=str(call.get("id", "")), name=str(function.get("name", ""))))
        arguments = function.get("arguments", "")
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        said.append(Piece("arguments", text, index=index))
    return said
