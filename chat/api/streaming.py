"""Stream replies to a reader in any protocol: begin, keep alive, end, or break off.

A protocol says with its Encoder how that sounds on the wire; nothing else of a stream is its own.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import Any, Protocol

from chat import sessions
from chat.api.wire import EventStream
from chat.models import Turn
from chat.replying import replies
from chat.replying.deltas import ReplyDelta
from core import stores, threads
from core.errors import IllegalMove, TalkbackError
from gpu_workers import engines

log = logging.getLogger(__name__)


class Encoder(Protocol):
    """Encode replies as one protocol's events; each call gives the bytes of none, one or several."""

    holds: bool
    """Tool calls come whole, or as text where they break."""

    def start(self) -> bytes:
        """Before anything was said."""

    def piece(self, choice: int, spoken: ReplyDelta) -> bytes:
        """More of one choice's reply. Without pieces, ids and finish reason it only keeps the stream alive."""

    def end(self) -> bytes:
        """Every choice was said to its end, and kept."""

    def fail(self, failure: TalkbackError) -> bytes:
        """The status went out long ago, so a failure is an event too."""


def encode_event(content: Mapping[str, Any]) -> bytes:
    """One server-sent event that goes by the name of its type."""
    return f"event: {content['type']}\ndata: {json.dumps(content)}\n\n".encode()


async def open_or_close(open_turns: Callable[[], list[Turn]]) -> list[Turn]:
    """Call `open_turns` off the event loop. Of a reader that leaves meanwhile the turns are closed: no reply to them is
    waited for."""
    opening = threads.call(open_turns)
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        await threads.call(partial(close_unanswered, await opening))
        raise


async def abandon_turns(turns: Sequence[Turn]) -> None:
    """`close_unanswered`, off the event loop; what no database takes now is closed later."""
    try:
        await asyncio.shield(threads.call(partial(close_unanswered, turns)))
    except Exception as error:
        if stores.name_failure(error) is None:
            raise
        for turn in turns:
            if not turn.repeated and turn.status == Turn.Status.ANSWERING:
                replies.close_later(turn, {"text": ""}, error)


def close_unanswered(turns: Sequence[Turn]) -> None:
    """Close the turns whose reader left before their reply was begun; one that was begun closes itself.
    One that is `repeated` belongs to the request that came first."""
    for turn in turns:
        if not turn.repeated:
            with suppress(IllegalMove):
                turn.move(Turn.Status.CLOSED, finish_reason="abort")


async def stream(turns: Sequence[Turn], encoder: Encoder, *, done: bool = False) -> EventStream:
    """The replies to these turns (one a choice) as a response, once there is something of them or a beat has passed.

    `done` ends the session with the last word. Raises what keeps them from being begun: a status says it then. A reader
    that leaves, now or later, stops the engine.
    """
    source = events(turns, encoder, done=done)
    await anext(source)
    return EventStream(source)


async def events(turns: Sequence[Turn], encoder: Encoder, *, done: bool = False) -> AsyncGenerator[bytes, None]:
    """The replies as events, behind an empty one that says that they have begun. A reader who leaves closes this."""
    begun = ended = False
    try:
        async with aclosing(merge_replies(turns, holds=encoder.holds)) as pieces:
            async for choice, piece in pieces:  # the first comes within a beat, if only to say that nothing has come
                if not begun:
                    begun = True
                    yield b""
                    yield encoder.start()
                if said := encoder.piece(choice, piece):
                    yield said
        ended = True
        if done:
            await threads.call(partial(sessions.close, turns[0].session))
        last = encoder.end()
    except TalkbackError as failure:
        if not begun:
            raise
        last = encoder.fail(failure)
    except Exception as error:
        if not begun:
            raise
        named = stores.name_failure(error)
        if named is None:
            log.exception("turn %s broke in mid-stream", turns[0].pk)
        last = encoder.fail(named or TalkbackError("Something went wrong here; the log has the details."))
    finally:
        if not ended:
            await abandon_turns(turns)
    yield last


async def answer_whole(
    turns: Sequence[Turn], *, done: bool = False, heard: Callable[[int, ReplyDelta], None] | None = None
) -> list[Turn]:
    """The turns, answered to the end, as they were kept; each piece is `heard` as it comes. Raises what the reply
    raises. A reader that leaves cancels this: the engine stops."""
    ended = False
    try:
        async with aclosing(merge_replies(turns, holds=True)) as pieces:
            async for choice, piece in pieces:
                if heard is not None:
                    heard(choice, piece)
        ended = True
    finally:
        if not ended:
            await abandon_turns(turns)
    if done:
        await threads.call(partial(sessions.close, turns[0].session))
    return await reload_turns(turns)


async def reload_turns(turns: Sequence[Turn]) -> list[Turn]:
    """The turns as their rows are now. Those that know that they have ended are not looked up."""
    unsure = [turn.pk for turn in turns if turn.status == Turn.Status.ANSWERING]
    rows = Turn.objects.select_related("checkpoint", "session").filter(pk__in=unsure) if unsure else Turn.objects.none()
    found = {turn.pk: turn async for turn in rows}
    return [found.get(turn.pk, turn) for turn in turns]


async def merge_replies(turns: Sequence[Turn], *, holds: bool) -> AsyncGenerator[tuple[int, ReplyDelta], None]:
    """Answer each turn, and give the pieces of all replies as they come, each with the number of its choice. One that
    fails ends them all."""
    if len(turns) == 1:
        async with aclosing(replies.reply(turns[0], engines.policy(), holds=holds)) as pieces:
            async for piece in pieces:
                yield 0, piece
        return
    streams = [replies.reply(turn, engines.policy(), holds=holds) for turn in turns]
    coming = {asyncio.ensure_future(anext(stream)): choice for choice, stream in enumerate(streams)}
    try:
        while coming:
            ready, _ = await asyncio.wait(coming, return_when=asyncio.FIRST_COMPLETED)
            for task in ready:
                choice = coming.pop(task)
                try:
                    piece = task.result()
                except StopAsyncIteration:
                    continue
                coming[asyncio.ensure_future(anext(streams[choice]))] = choice
                yield choice, piece
    finally:
        for task in coming:
            task.cancel()
        await asyncio.gather(*coming, return_exceptions=True)
        for stream in streams:
            await stream.aclose()
