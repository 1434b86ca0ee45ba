"""A connection to an MCP server: its tools are listed and called. It lives within one task of an event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import httpx2
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

from core.mcp.offered import Listed
from core.mcp.results import Answered
from core.mcp.streams import LastWords, Streams, noting_changes
from core.visible import visible

PING_S = 5.0
MOST_PAGES = 50
MOST_LISTED = 1000
"""Tools that are read of a list, offered or not."""

FAULTS = (
    *(MCPError, TimeoutError, OSError, ValueError, RuntimeError, ExceptionGroup, httpx2.HTTPError),
    *(anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream),
)
"""What a server can cause here by what it says or does not say."""


class Link:
    """What can be asked of a server. Each may raise one of FAULTS; `why` says it in words."""

    def __init__(self, start_s: float, call_s: float) -> None:
        self._start_s, self._call_s = start_s, call_s
        self.has_changed = False
        """The server said that its list of tools has."""
        self._session: ClientSession

    @asynccontextmanager
    async def over(self, streams: AbstractAsyncContextManager[Streams]) -> AsyncIterator[Link]:
        """Shake hands with the server at the other end of these streams, and hold on to it."""
        async with (
            streams as found,
            noting_changes(found, self._note) as noted,
            ClientSession(*noted) as session,
        ):
            with anyio.fail_after(self._start_s):
                await session.initialize()
            self._session = session
            yield self

    def _note(self) -> None:
        self.has_changed = True

    async def tools(self) -> list[Listed]:
        """The server's tools, page by page."""
        self.has_changed = False
        listed: list[Listed] = []
        cursor = None
        with anyio.fail_after(self._start_s):
            for _ in range(MOST_PAGES):
                page = await self._session.list_tools(params=PaginatedRequestParams(cursor=cursor))
                listed += [Listed(tool.name, tool.description or "", tool.input_schema) for tool in page.tools]
                cursor = page.next_cursor
                if not cursor or len(listed) > MOST_LISTED:
                    break
        if cursor or len(listed) > MOST_LISTED:
            raise ValueError(f"it lists over {MOST_LISTED:,} tools, or {MOST_PAGES} pages of them")
        return listed

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Answered:
        """Call a tool. A call that the server refuses, or does not end in time, is an error of the call: the server
        answers still. One that ends the server, or finds it silent, is a fault."""
        try:
            # Not session.call_tool: that runs a stranger's output schema, regular expressions and all.
            asked = CallToolRequest(params=CallToolRequestParams(name=name, arguments=dict(arguments)))
            result = await self._session.send_request(asked, CallToolResult, self._call_s)
        except MCPError as error:
            if error.code == INVALID_PARAMS:
                return _failed(error.message)
            if error.code != REQUEST_TIMEOUT:
                raise
            with anyio.fail_after(PING_S):
                await self._session.send_ping()
            return _failed(f"The tool did not answer within {self._call_s:g} s.")
        blocks = [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in result.content]
        return Answered(blocks, result.structured_content, bool(result.is_error))


def why(error: BaseException, words: LastWords | str = "") -> str:
    """A fault as a sentence, with the last words of the server's program."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    said = visible(" ".join(str(error).split())[:300], one_line=True) or type(error).__name__
    if isinstance(error, TimeoutError) or said == "TimeoutError":
        said = "it did not answer in time"
    return f"{said.rstrip('.')}. {words}".strip()


def _failed(said: str) -> Answered:
    return Answered([{"type": "text", "text": said}], is_error=True)
