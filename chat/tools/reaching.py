"""Reach a server: read its list, call one of its tools. Needs the package `mcp`, and an event loop."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
from asgiref.sync import sync_to_async
from django.conf import settings

from chat.tools import programs
from chat.tools.calls import CALL_S, START_S
from chat.tools.servers import ToolServer
from core.errors import TalkbackError
from core.mcp.results import Answered, shown
from core.network import outside
from core.visible import visible

PLACE_S = 60.0
"""How long a call waits for a place where as many programs run as may."""
LOOK_S = 3 * START_S
"""How long a look at a server may take once it has its place: what it is asked has its own time, but it may keep a
connection open."""
WORK_S = START_S + CALL_S + 10
"""How long all of a call may take once it has its place."""


class ServerFailed(TalkbackError):
    """A server did not do what was asked; the sentence says what happened, and what an operator can do."""

    code, status = "tool_server_failed", 502


def check_address(url: str) -> outside.Target:
    """Where this server is. Raises AddressRefused."""
    return outside.resolve(url, inside=settings.TOOLS_INSIDE, setting="TOOLS_INSIDE")


async def look(server: ToolServer) -> str:
    """Read the server's list, and write it down, or why it could not be read. Returns what is different from before.
    Raises ServerFailed."""
    try:
        async with reached(server, wait_s=START_S, within_s=LOOK_S) as link:
            listed = await link.tools()
    except (ServerFailed, TimeoutError) as failure:
        said = (
            failure
            if isinstance(failure, ServerFailed)
            else ServerFailed(f"The server {server} failed: it kept its connection open.")
        )
        await sync_to_async(server.keep_fault)(str(said))
        raise said from failure
    return await sync_to_async(server.keep_list)(listed)


async def call(server: ToolServer, tool: str, definition: str, arguments: Mapping[str, Any]) -> Answered:
    """Call a tool, if it still is what it was when it was allowed. Raises ServerFailed, TimeoutError."""
    if tool in server.off:
        raise ServerFailed(f"The tool {name_of(tool)} of {server} was turned off by an operator.")
    async with reached(server, wait_s=PLACE_S, within_s=WORK_S) as link:
        listed = await link.tools()
        await sync_to_async(server.keep_list)(listed)
        found = next((one for one in server.tools if one.name == tool), None)
        if found is None:
            raise ServerFailed(f"The server {server} has no tool {name_of(tool)} any more.")
        if found.definition != definition:
            raise ServerFailed(f"The tool {name_of(tool)} of {server} is another than before: ask for it once more.")
        answered: Answered = await link.call(tool, arguments)
    return answered


@asynccontextmanager
async def reached(server: ToolServer, *, wait_s: float, within_s: float) -> AsyncIterator[Any]:
    """A link to this server (core.mcp.link.Link), for as long as the block lasts. A program waits for its place for so
    long, which takes nothing of the time within which the block has to end. Raises ServerFailed, TimeoutError."""
    from core.mcp.places import NoPlace, places

    async with AsyncExitStack() as place:  # left last: whatever the program's end comes to, its place is free
        if server.is_program:
            try:
                await place.enter_async_context(places.held(wait_s))
            except NoPlace as full:
                raise ServerFailed(f"The server {server} was not reached: {full}") from full
        with anyio.fail_after(within_s):
            async with linked(server) as link:
                yield link


@asynccontextmanager
async def linked(server: ToolServer) -> AsyncIterator[Any]:
    """Start the server's program, or reach its address, and shake hands. Raises ServerFailed."""
    from core.mcp import link, streams  # heavy
    from core.mcp.programs import Own

    words, talker = streams.LastWords(), None
    try:
        if server.is_program:
            program = (await sync_to_async(programs.read)()).get(server.name)
            if program is None:
                raise ServerFailed(f"TOOLS_FILE names no server {server} any more.")
            talker = await anyio.to_thread.run_sync(Own, program.command, program.env, program.folder)
            found = streams.by_pipes(talker.process, words)
        else:
            found = streams.by_http(server.url, server.headers, check_address)
        async with link.Link(START_S, CALL_S).over(found) as shaken:
            yield shaken
    except Exception as error:
        inner = first_of(error)
        if isinstance(inner, ServerFailed):
            raise inner from error
        if isinstance(inner, TalkbackError):
            raise ServerFailed(f"The server {server} was not reached: {inner}") from error
        if not isinstance(error, link.FAULTS):
            raise
        raise ServerFailed(f"The server {server} failed: {link.why(error, words)}") from error
    finally:
        if talker is not None:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(talker.kill)


def first_of(error: BaseException) -> BaseException:
    """What was raised, without the groups that tasks put around it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def text_of(answered: Answered) -> str:
    """What the model reads of a result: bounded, its middle left out with a note, nothing hidden in it."""
    text = shown(answered)
    return f"Error: {text}" if answered.is_error else text


def read_arguments(written: str) -> Mapping[str, Any] | None:
    """A model's JSON object that can be sent on; None where it is none: it may hold halves of characters."""
    try:
        given = json.loads(written or "{}")
        json.dumps(given, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        return None
    return given if isinstance(given, dict) else None


def name_of(tool: str) -> str:
    """A server's name for a tool, within a sentence."""
    return visible(tool[:60], one_line=True)
