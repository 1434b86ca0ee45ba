"""Run a page's reply as a task of its own, which goes on when the tab that asked for it is closed."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from asgiref.sync import sync_to_async
from channels.layers import get_channel_layer
from django.db import close_old_connections
from django.utils.html import format_html

from chat.models import Turn, group_of
from chat.rendering import markdown
from chat.replying import replies
from core import stores
from core.errors import TalkbackError
from gpu_workers.engine.interface import Engine

log = logging.getLogger(__name__)

Result = TypeVar("Result")

FRAME_S = 0.04
"""The shortest time between two pictures of a growing reply: quicker than an eye, slower than a GPU."""

_speaking: set[asyncio.Task[Any]] = set()


def begin(work: Coroutine[Any, Any, Result], context: contextvars.Context | None = None) -> asyncio.Task[Result]:
    """Run this to its end, whether its caller waits for it or not."""
    task = asyncio.get_running_loop().create_task(work, context=context)
    _speaking.add(task)
    task.add_done_callback(_speaking.discard)
    return task


async def speak(turn: Turn, engine: Engine) -> None:
    """Write the reply down and publish it as it grows. Failures end up in the row, where the page finds them."""
    text, more, is_over, why = "", asyncio.Event(), False, ""

    async def paint() -> None:
        while await more.wait() and not is_over:
            more.clear()
            await (publish_wait(turn, why) if why else publish(turn, text))
            await asyncio.sleep(FRAME_S)

    painter = asyncio.create_task(paint())
    try:
        async for delta in replies.reply(turn, engine):
            text += delta.text
            before, why = why, "away" if delta.waits else "silent" if delta.is_silent else ""
            if delta.text or why or before:
                more.set()
    except TalkbackError as failure:
        log.info("turn %s ended early: %s", turn.pk, failure)
    except Exception as error:
        if (named := stores.name_failure(error)) is None:
            log.exception("turn %s broke", turn.pk)
        else:  # the row cannot say so yet
            await publish(turn, text, str(named))
    finally:
        # A client of Redis may lose a cancellation on its way: the painter then ends by itself. It is waited for, since
        # what waits for ever and is held by nothing is destroyed, with a complaint, by the collector.
        is_over = True
        more.set()
        painter.cancel()
        (trouble,) = await asyncio.gather(painter, return_exceptions=True)
        if isinstance(trouble, Exception):
            log.error("turn %s was not shown to its end", turn.pk, exc_info=trouble)
        await sync_to_async(close_old_connections)()


async def publish(turn: Turn, text: str, failure: str = "") -> None:
    """Show the whole reply so far, and what ended it: a tab that missed some catches up with the next picture."""
    note = format_html('<p class="note bad" role="alert">{}</p>', failure) if failure else ""
    await send(turn, {"type": "turn.grew", "turn": str(turn.pk), "html": markdown.render(text) + note})


async def publish_wait(turn: Turn, why: str) -> None:
    """Show that the reply waits for an engine that is away or silent. Said at each beat: a tab may have just come."""
    await send(turn, {"type": "turn.waits", "turn": str(turn.pk), "why": why})


async def publish_calls(turn: Turn) -> None:
    """Show what became of the tool calls of this reply."""
    await send(turn, {"type": "calls.changed", "turn": str(turn.pk)})


async def send(turn: Turn, event: dict[str, str]) -> None:
    """Tell the pages that watch the turn's session."""
    try:
        await get_channel_layer().group_send(group_of(turn.session_id), event)
    except Exception as error:  # whichever way Redis is away: the reply goes on, and the row will show it
        log.warning("no page sees turn %s grow: %s", turn.pk, error)
