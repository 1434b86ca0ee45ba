"""One connection to an MCP server, for one attempt: its tools are listed and called from the attempt's own thread."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TooLate
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, TypeVar

import anyio
import httpx2
from anyio.abc import TaskStatus
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import ClientSession
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    REQUEST_TIMEOUT,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    PaginatedRequestParams,
)

from core.visible import visible
from environments.sandboxes.piped import Confined, Own, Talker
from environments.sandboxes.sandbox import Mount, Wants
from environments.worlds.base import WorldFailed
from environments.worlds.mcp.offered import Listed
from environments.worlds.mcp.results import Answered
from environments.worlds.mcp.streams import LastWords, by_http, by_pipes, noting_changes
from environments.worlds.mcp.task_file import Server

Result = TypeVar("Result")

PING_S = 5.0
CLOSE_S = 5.0
"""How long a server may take to hear that it is left."""
MOST_PAGES = 50
MOST_LISTED = 1000
"""Tools that are read of a list, offered or not."""
SERVER_AT, PACKAGES_AT = "/server", "/packages"

FAULTS = (
    *(MCPError, TimeoutError, OSError, ValueError, RuntimeError, ExceptionGroup, httpx2.HTTPError),
    *(anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream),
)
"""What a server can cause here by what it says or does not say."""


class Connection:
    """Opened once, closed always. Everything may raise WorldFailed; opening also what a sandbox raises."""

    def __init__(self, server: Server, *, trusted: bool = False) -> None:
        """Start the server's program, or reach its URL, and shake hands. `trusted`: it runs as this user."""
        self._server = server
        self.has_changed = False
        """The server said that its list of tools has."""
        self._words = LastWords()
        self._talker = start(server, trusted) if server.command else None
        self._portal: BlockingPortal | None = None
        self._holds = start_blocking_portal(name="mcp")
        try:
            self._portal = self._holds.__enter__()
            self._leaving = self._portal.call(anyio.Event)
            self._running: Future[Any]
            self._running, self._session = self._portal.start_task(self._live)
        except FAULTS as error:
            self.close()
            raise WorldFailed(f"The MCP server did not start: {self._why(error)}") from error
        except BaseException:
            self.close()
            raise

    async def _live(self, *, task_status: TaskStatus[ClientSession]) -> None:
        """Hold the connection until it is left."""
        server = self._server
        with anyio.CancelScope() as scope:
            async with AsyncExitStack() as stack:
                if self._talker:
                    streams = by_pipes(self._talker.process, self._words)
                else:
                    streams = by_http(server.url, server.headers)
                noted = noting_changes(await stack.enter_async_context(streams), self._note)
                session = ClientSession(*await stack.enter_async_context(noted))
                await stack.enter_async_context(session)
                with anyio.fail_after(server.start_s):
                    await session.initialize()
                task_status.started(session)
                await self._leaving.wait()
                scope.deadline = anyio.current_time() + CLOSE_S

    def _note(self) -> None:
        self.has_changed = True

    def tools(self) -> list[Listed]:
        """The server's tools, page by page."""
        self.has_changed = False
        return self._do(self._list, "did not list its tools")

    async def _list(self) -> list[Listed]:
        listed: list[Listed] = []
        cursor = None
        with anyio.fail_after(self._server.start_s):
            for _ in range(MOST_PAGES):
                page = await self._session.list_tools(params=PaginatedRequestParams(cursor=cursor))
                listed += [Listed(tool.name, tool.description or "", tool.input_schema) for tool in page.tools]
                cursor = page.next_cursor
                if not cursor or len(listed) > MOST_LISTED:
                    break
        if cursor or len(listed) > MOST_LISTED:
            raise WorldFailed(f"The MCP server lists over {MOST_LISTED:,} tools, or {MOST_PAGES} pages of them.")
        return listed

    def call(self, name: str, arguments: Mapping[str, Any]) -> Answered:
        """Call a tool. A call that the server refuses, or does not end in time, is an error of the call: the server
        answers still. One that ends the server, or finds it silent, is WorldFailed."""
        return self._do(lambda: self._call(name, dict(arguments)), f"failed in its tool {visible(name[:60])!r}")

    async def _call(self, name: str, arguments: dict[str, Any]) -> Answered:
        try:
            # Not session.call_tool: that runs a stranger's output schema, regular expressions and all.
            asked = CallToolRequest(params=CallToolRequestParams(name=name, arguments=arguments))
            result = await self._session.send_request(asked, CallToolResult, self._server.call_s)
        except MCPError as error:
            if error.code == INVALID_PARAMS:
                return _failed(error.message)
            if error.code != REQUEST_TIMEOUT:
                raise
            with anyio.fail_after(PING_S):
                await self._session.send_ping()
            return _failed(f"The tool did not answer within {self._server.call_s:g} s.")
        blocks = [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in result.content]
        return Answered(blocks, result.structured_content, bool(result.is_error))

    def _do(self, work: Callable[[], Coroutine[Any, Any, Result]], what: str) -> Result:
        if self._portal is None:
            raise WorldFailed("The MCP server's connection is closed.")
        try:
            return self._portal.call(work)
        except FAULTS as error:
            raise WorldFailed(f"The MCP server {what}: {self._why(error)}") from error

    def _why(self, error: BaseException) -> str:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        said = visible(" ".join(str(error).split())[:300], one_line=True) or type(error).__name__
        if isinstance(error, TimeoutError) or said == "TimeoutError":
            said = "it did not answer in time"
        return f"{said.rstrip('.')}. {self._words}".strip()

    def close(self) -> None:
        """Leave the server, and end its program with all that it started."""
        portal, self._portal = self._portal, None
        try:
            if portal is not None:
                with suppress(*FAULTS, TooLate):
                    portal.call(self._leaving.set)
                    if hasattr(self, "_running"):
                        self._running.result(2 * CLOSE_S)
                with suppress(*FAULTS):
                    portal.start_task_soon(portal.stop, True)
                with suppress(*FAULTS):
                    self._holds.__exit__(None, None, None)
        finally:
            if self._talker is not None:
                self._talker.kill()


def _failed(said: str) -> Answered:
    return Answered([{"type": "text", "text": said}], is_error=True)


def start(server: Server, trusted: bool) -> Talker:
    """Start a server's program. Raises SandboxUnavailable, SandboxRefused."""
    env = dict(server.env)
    packages = next((Path(path) for path in sys.path if path.endswith("site-packages")), None)
    if trusted:
        folder = server.folder or Path.cwd()
        argv = [re.sub(rf"^{SERVER_AT}(?=/|$)", str(folder.resolve()), word) for word in server.command]
        return Own(argv, env | ({"PYTHONPATH": str(packages)} if server.packages and packages else {}), folder)
    mounts = [Mount(server.folder, SERVER_AT)] if server.folder else []
    if server.packages and packages:
        mounts.append(Mount(packages, PACKAGES_AT))
        env["PYTHONPATH"] = PACKAGES_AT
    return Confined(server.command, env, Wants(memory=server.memory, mounts=tuple(mounts)))
