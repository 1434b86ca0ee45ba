"""Write a reply: read the engine's stream, hand out its pieces, store the turn when it ends."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from array import array
from collections.abc import AsyncGenerator
from contextlib import aclosing
from contextvars import ContextVar
from functools import partial
from time import monotonic
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import OperationalError, transaction
from django.utils import timezone
from django.utils.translation import gettext_noop

from chat import limits, sessions, stories
from chat.models import Session, Turn
from chat.pictures import keeping as pictures
from chat.rendering.model_output import Reader
from chat.rendering.renderer import Renderer
from chat.replying import retries, writers
from chat.replying.beats import Writing
from chat.replying.continuing import Begun
from chat.replying.deltas import ReplyDelta
from chat.replying.flow import Flow
from chat.replying.resuming import Course
from chat.search import keeping
from checkpoints.loading import ensure_loaded
from checkpoints.models import Checkpoint
from core import stores, threads
from core.errors import IllegalMove, TalkbackError
from gpu_workers.engine.interface import Engine
from gpu_workers.errors import (
    AdapterMissing,
    AdapterNotApplied,
    EngineGarbled,
    EngineUnavailable,
    KeyRefused,
    NoRoom,
    WeightsExchanged,
)
from gpu_workers.types import Delta, Sampling

log = logging.getLogger(__name__)

PRIORITY = 10
"""People wait for a reply: it goes before the gate and the judge."""

BEAT_S = 3.0
"""How often a reply under way says that it is still being written."""

SILENT_S = 15.0
"""After so long without a word of the engine's a reply says that it is silent."""

CLOSE_S = 2.0
"""How often a reply that could not be written down is tried to be closed, until it can."""

PATIENCE_S: float = settings.ENGINE_PATIENCE_S
"""How long a reply waits for an engine that does not answer."""

FIRST_PAUSE_S = 0.25
"""How soon an engine that did not answer is asked again; the pauses grow to 4 s."""

arrived_at: ContextVar[float] = ContextVar("arrived_at")
"""When the request that is being answered arrived, on the monotonic clock."""


class Draft:
    """A reply under way: the engine's ids and log-probs as they came, the text as it was read, and the one write that
    ends it."""

    def __init__(self, turn: Turn, *, holds: bool) -> None:
        self.turn = turn
        self.reader = Reader.of(turn.tools, turn.asked, holds=holds)
        # A quarter of the room that lists take, for as long as the reply lasts.
        self.ids, self.logprobs = array("q"), array("d")
        self.first_token_s: float | None = None
        self.ending: asyncio.Future[None] | None = None
        """The write that ends it, once it is begun."""

    def go_on(self, begun: Begun) -> ReplyDelta:
        """Take up what an earlier request said; returns its words."""
        self.ids.extend(begun.ids)
        self.logprobs.extend(begun.logprobs)
        self.first_token_s = self.turn.first_token_s
        return ReplyDelta(tuple(self.reader.feed(begun.text)))

    def take(self, given: Delta) -> ReplyDelta:
        """Add what the engine gave; returns it as readers get it. Raises EngineGarbled."""
        if len(given.ids) != len(given.logprobs):
            raise EngineGarbled(f"The engine gave {len(given.logprobs)} log-probs for {len(given.ids)} tokens.")
        if self.first_token_s is None and given.ids:
            self.first_token_s = waited_s(self.turn)
        self.ids.extend(given.ids)
        self.logprobs.extend(given.logprobs)
        pieces, finish_reason = self.reader.feed(given.text), given.finish_reason
        if finish_reason:
            pieces += self.reader.end()
            if finish_reason == "stop" and "tool_calls" in self.reader.message:
                finish_reason = "tool_calls"
        return ReplyDelta(tuple(pieces), given.ids, given.logprobs, finish_reason, given.top, given.cached_tokens)

    def keep(self, delta: ReplyDelta, weight_version: str) -> asyncio.Future[None]:
        """Begin to write the reply down as its last piece ended it: whole, or closed where the engine broke it off."""
        reason = delta.finish_reason or ""
        status = Turn.Status.SERVED if reason in ("stop", "tool_calls", "length") else Turn.Status.CLOSED
        return self.settle(status, reason, cached_tokens=delta.cached_tokens, weight_version=weight_version)

    def close(self, reason: str, error: str = "") -> asyncio.Future[None]:
        """Begin to write the reply down as stopped or failed; `error` is the sentence for the person."""
        return self.settle(Turn.Status.CLOSED, reason, error=error)

    def settle(self, status: str, reason: str, **fields: object) -> asyncio.Future[None]:
        """Begin to write the reply down. The caller that waits for this may be cancelled, even before a thread is
        free."""
        self.reader.end()  # what was held back belongs to the reply, however it ended
        message = self.reader.message
        said: dict[str, object] = {
            "text": message["content"] or "",
            "response_ids": list(self.ids),
            "logprobs": list(self.logprobs),
        }
        said |= {"finish_reason": reason, "message": message, "marks": self.reader.marks}
        said |= {"first_token_s": self.first_token_s} | fields
        self.ending = threads.call(partial(finish, self.turn, status, said))
        self.ending.add_done_callback(partial(look_after, self.turn, dict(said)))
        return asyncio.shield(self.ending)


async def reply(turn: Turn, engine: Engine, *, holds: bool = False) -> AsyncGenerator[ReplyDelta, None]:
    """The reply, as it is sampled; the row keeps ids, log-probs and text exactly as the engine gave them.

    What the engine says faster than it is read comes in one piece; an empty piece says that it is silent. The last
    piece comes after the row is SERVED, so its reader may speak of the turn at once. Leaving early aborts the
    engine and closes the turn, as does `stop`; a failure closes it with its sentence and raises.

    With `holds` tool calls are given out whole: one that breaks is text then, as it is on the row either way.
    """
    if turn.repeated:
        async with aclosing(retries.replay(turn)) as again:
            async for delta in again:
                yield delta
                if delta.finish_reason:
                    return
        turn = await load_turn(turn)  # its writer gave up, and has left something on the row: this caller writes anew
    if turn.get_deferred_fields() or not Turn.checkpoint.is_cached(turn):
        turn = await load_turn(turn)
    draft, begun = Draft(turn, holds=holds), Begun.of(turn)
    flow = Flow(attempts(turn, engine, draft.reader.marks, begun), BEAT_S)
    writing, heard_at = Writing(turn, BEAT_S, flow.rouse), monotonic()
    try:
        if begun is not None:
            yield draft.go_on(begun)
        async with writing, flow:
            while draft.ending is None:
                given = await flow.take()
                if not writing.is_wanted:  # it was stopped, here or in another process
                    pieces = draft.reader.end()
                    await draft.close("abort")
                    yield ReplyDelta(tuple(pieces), finish_reason="abort")
                elif given is None:
                    silent_s = monotonic() - max(heard_at, turn.heard_at)
                    yield ReplyDelta(waits=turn.waits, is_silent=silent_s >= SILENT_S)
                else:
                    heard_at, delta = monotonic(), draft.take(given)
                    if begun is None:  # else the row keeps the words of its ids until the reply ends
                        writing.words += [piece.text for piece in delta.pieces if piece.kind == "content"]
                    if delta.finish_reason:  # kept before it is given out: a reader may speak of the turn at once
                        await draft.keep(delta, given.weight_version)
                    yield delta
    except TalkbackError as failure:
        if draft.ending is None:
            await draft.close("error", str(failure))
        raise
    except Exception:
        if draft.ending is None:
            await draft.close("error", gettext_noop("Something went wrong while this reply was written."))
        raise
    finally:
        if draft.ending is None:  # the reader left, or the process is going down
            await draft.close("abort")
        elif not draft.ending.done():  # a caller that was cancelled while it waited must not end before the write does
            await asyncio.shield(draft.ending)


async def load_turn(turn: Turn) -> Turn:
    """The turn's row as it is now, all of it, with its checkpoint."""
    return await Turn.objects.select_related("checkpoint").aget(pk=turn.pk)


_closing: set[asyncio.Task[None]] = set()


def look_after(turn: Turn, said: dict[str, Any], ending: asyncio.Future[None]) -> None:
    """Have a reply closed later that could not be written down."""
    if not ending.cancelled() and (failure := ending.exception()) is not None:
        close_later(turn, said, failure)


def close_later(turn: Turn, said: dict[str, Any], failure: BaseException) -> None:
    """Close a reply that could not be written down (a full disk, a database that is locked or away) as soon as it can
    be, with what was said: its reader was told that it failed, and no other writer takes it up before."""
    if (named := stores.name_failure(failure)) is None:
        return
    log.error("turn %s was not written down: %s", turn.pk, failure)
    said = said | {"finish_reason": "error", "error": str(named)}

    async def closing() -> None:
        until = monotonic() + writers.HUNG_S
        while monotonic() < until:
            await asyncio.sleep(CLOSE_S)
            try:
                await threads.call(partial(finish, turn, Turn.Status.CLOSED, dict(said)))
                return
            except Exception as error:
                if stores.name_failure(error) is None:
                    raise

    # A fresh context: the request that asked takes its thread for database work with it when it ends.
    task = asyncio.get_running_loop().create_task(closing(), context=contextvars.Context())
    _closing.add(task)
    task.add_done_callback(_closing.discard)


def waited_s(turn: Turn) -> float:
    """Seconds since the request arrived; where that is not known, since the turn began to wait for its reply."""
    at = arrived_at.get(None)
    return monotonic() - at if at is not None else (timezone.now() - turn.moved_at).total_seconds()


async def stop(turn: Turn, engine: Engine) -> None:
    """End a reply that is being written, wherever that is: it keeps what was said, and never teaches."""
    asked = Turn.objects.filter(pk=turn.pk, status=Turn.Status.ANSWERING)
    if not await asked.aupdate(finish_reason="abort"):
        return
    try:
        await engine.abort(turn.completion_id)
    except EngineUnavailable as failure:
        log.warning("turn %s ends at its next beat: %s", turn.pk, failure)
    await sync_to_async(writers.close_stranded)(  # where its writer is gone, no process would hear this
        Turn.objects.filter(pk=turn.pk), silence_s=3 * BEAT_S, hung_s=3 * BEAT_S
    )


def finish(turn: Turn, status: str, said: dict[str, Any]) -> None:
    """Write the reply down and leave ANSWERING. A turn that was closed meanwhile, or deleted, stays as it is; one whose
    session was closed meanwhile has nothing to teach, as if it had been whole then. Of a cut reply that was being
    continued all that was said so far stands, cut once more, whatever ended the rest."""
    if status == Turn.Status.CLOSED and turn.is_continued:
        status, said["finish_reason"] = Turn.Status.SERVED, "length"
    if status == Turn.Status.SERVED:
        said["served_at"] = timezone.now()
        if turn.line == Turn.Line.MAIN:
            message = said.get("message") or {"role": "assistant", "content": said["text"]}
            said["chain"] = stories.chain([*turn.messages, message], turn.client)
    before = turn.status, turn.moved_at
    for tries_left in (2, 1, 0):
        turn.status, turn.moved_at = before  # a try that was rolled back has left the row where it was
        try:
            with transaction.atomic():
                session = sessions.locked(turn.session_id)
                if session.closed_at is not None:
                    status = Turn.Status.CLOSED
                turn.move(status, **said)
                keeping.keep_turn(turn, session)
                limits.spend(turn)
            return
        except (IllegalMove, Session.DoesNotExist) as gone:
            log.warning("reply not kept: %s", gone)
            return
        except OperationalError:  # a deadlock that PostgreSQL ended, a lock that was waited for too long
            if not tries_left:
                raise


async def attempts(
    turn: Turn, engine: Engine, marks: list[str], begun: Begun | None = None
) -> AsyncGenerator[Delta, None]:
    """The engine's stream. An engine that is away is waited for, weights it has not loaded are brought to it, and what
    was said before it went is gone on from where that is exact: swaps and restarts cost time, never a reply."""
    checkpoint, away_since, pause_s, is_loaded = turn.checkpoint, None, FIRST_PAUSE_S, True
    drawn = dict(turn.sampling)
    sampling = Sampling(**drawn | {name: tuple(drawn[name]) for name in ("stop", "stop_token_ids")})
    decode = partial(Renderer.for_model(settings.MODEL).decode, controls=not sampling.skip_special_tokens)
    course = Course(turn.prompt_ids, sampling, decode, sees=turn.pictures > 0)
    ask = partial(engine.stream, request_id=turn.completion_id, priority=PRIORITY)
    if turn.pictures:
        ask = partial(ask, pictures=await asyncio.to_thread(pictures.data_urls, turn))
    has_spoken = begun is not None
    if begun is not None:
        course.go_on(begun.ids, begun.text, begun.version)
    while True:
        try:
            if not is_loaded:
                await ensure_loaded(checkpoint, engine)
                is_loaded = True
            name = checkpoint.adapter or None
            async with aclosing(ask(*course.question(), adapter=name)) as stream:  # type: ignore[type-var]
                async for delta in stream:
                    has_spoken, turn.waits = True, False
                    away_since, pause_s, delta = None, FIRST_PAUSE_S, course.take(delta)
                    if course.is_resumed and "resumed" not in marks:
                        marks.append("resumed")
                    yield delta
                    if delta.finish_reason:
                        return
            return
        except (AdapterMissing, EngineUnavailable) as failure:
            is_gone = isinstance(failure, WeightsExchanged) or not (is_loaded or isinstance(failure, AdapterMissing))
            is_loaded = is_loaded and not isinstance(failure, AdapterMissing)
            away_since = away_since or monotonic()
            if (
                isinstance(failure, KeyRefused | EngineGarbled)
                or monotonic() - away_since > PATIENCE_S
                or not course.resume()
            ):
                raise
            turn.waits = not isinstance(failure, AdapterMissing | AdapterNotApplied | NoRoom)
            if not turn.waits:
                turn.heard_at = monotonic()
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, 4.0)
        if is_gone and not has_spoken:
            checkpoint = await sync_to_async(readdress)(turn)


def readdress(turn: Turn) -> Checkpoint:
    """Who answers a turn of which nothing was said yet, and whose weights the engine does not answer with: those that
    are live now, when they went live since. It is written on the turn, and returned."""
    if turn.checkpoint.status == Checkpoint.Status.LIVE:
        turn.checkpoint.refresh_from_db()
    if turn.checkpoint.status == Checkpoint.Status.RETIRED:
        live = Checkpoint.for_user(turn.session.user_id)
        if Turn.objects.filter(pk=turn.pk, status=Turn.Status.ANSWERING).update(checkpoint=live):
            turn.checkpoint = live
    return turn.checkpoint
