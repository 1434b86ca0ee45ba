"""Messages to and from a server: over a program's pipes, or by streamable HTTP. Sizes are bounded, whatever is sent."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import anyio
import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, jsonrpc_message_adapter

from core.network.outside import Target
from core.visible import visible

MOST_MESSAGE = 16 * 2**20
"""Bytes of one message. A longer one ends the connection."""
MOST_WORDS = 1000
"""Bytes kept of what a program printed last on its standard error."""
CONNECT_S = 10.0
LAST_S = 2.0
"""How long a server may take to hear that its session ends."""
CHANGED = "notifications/tools/list_changed"

Streams = tuple[Any, Any]
"""Where messages are read, and where they are sent."""


class LastWords:
    """The end of what a program printed on its standard error."""

    def __init__(self) -> None:
        self._kept = bytearray()

    def add(self, said: bytes) -> None:
        self._kept = (self._kept + said)[-MOST_WORDS:]

    def __str__(self) -> str:
        words = " ".join(self._kept.decode(errors="replace").split())
        return visible(words[-300:], one_line=True)


@asynccontextmanager
async def by_pipes(process: subprocess.Popen[bytes], words: LastWords) -> AsyncIterator[Streams]:
    """Speak to a program that runs, by lines of JSON. What it prints that is none is passed over."""
    loop = asyncio.get_running_loop()
    out, err = asyncio.StreamReader(MOST_MESSAGE), asyncio.StreamReader()
    from_out, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(out), process.stdout)
    from_err, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(err), process.stderr)
    into, flow = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, process.stdin)
    writer = asyncio.StreamWriter(into, flow, None, loop)
    sends, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    sent, takes = anyio.create_memory_object_stream[SessionMessage](0)

    async def read() -> None:
        async with sends:
            while True:
                try:
                    line = await out.readuntil(b"\n")
                except asyncio.LimitOverrunError:
                    words.add(f" It sent a message of over {MOST_MESSAGE:,} bytes.".encode())
                    return
                except (asyncio.IncompleteReadError, OSError):
                    return
                try:
                    message = SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
                except ValueError:
                    if line.startswith(b'{"jsonrpc"'):
                        words.add(b" It sent a message that cannot be read.")
                        return
                    continue
                await sends.send(message)

    async def write() -> None:
        async with takes:
            async for message in takes:
                said = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                writer.write(said.encode() + b"\n")
                try:
                    await writer.drain()
                except OSError:
                    await sends.aclose()  # calls that wait for an answer hear of it
                    return

    async def listen() -> None:
        while said := await err.read(65536):
            words.add(said)

    try:
        async with anyio.create_task_group() as tasks:
            for work in (read, write, listen):
                tasks.start_soon(work)
            yield received, sent
            tasks.cancel_scope.cancel()
    finally:
        for transport in (from_out, from_err, into):
            transport.close()
        for stream in (sends, received, sent, takes):
            stream.close()


@asynccontextmanager
async def by_http(
    url: str, headers: Mapping[str, str], check: Callable[[str], Target] | None = None
) -> AsyncIterator[Streams]:
    """Speak to a server at a URL. No header goes to another host. `check` says of each request's URL which number it
    goes to, or raises."""
    timeout = httpx2.Timeout(CONNECT_S, read=None)  # a call has its own time, and a stream of news may be silent
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            httpx2.AsyncClient(headers=dict(headers), timeout=timeout, transport=_Bounded(_Checked(check)))
        )
        made = streamable_http_client(url, http_client=client, max_sse_event_size=MOST_MESSAGE)
        yield await stack.enter_async_context(made)


class _Checked(httpx2.AsyncHTTPTransport):
    """Connects to the very number that was checked: the name could lead elsewhere by then."""

    def __init__(self, check: Callable[[str], Target] | None) -> None:
        super().__init__()
        self._check = check

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if self._check is not None:
            target = await anyio.to_thread.run_sync(self._check, str(request.url))
            # A request of its own: by the URL of the first one it is told whether a redirect stays at this server. Its
            # Host header names the host as before.
            request = httpx2.Request(
                request.method,
                httpx2.URL(target.url),
                headers=request.headers,
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": target.host},
            )
        return await super().handle_async_request(request)


class _Bounded(httpx2.AsyncBaseTransport):
    """Ends an answer that is no stream of events where it is longer than a message may be. None is taken packed: few
    bytes may unpack to very many."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.headers["Accept-Encoding"] = "identity"
        if request.method == "DELETE":  # the end of a session: what was answered before is not lost by waiting for it
            request.extensions["timeout"] = {**request.extensions.get("timeout", {}), "read": LAST_S}
        response = await self._inner.handle_async_request(request)
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            raise httpx2.ReadError("an answer that is packed, which was not asked for")
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            response.stream = _Counted(response.stream)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Counted(httpx2.AsyncByteStream):
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        count = 0
        async for chunk in self._inner:
            count += len(chunk)
            if count > MOST_MESSAGE:
                raise httpx2.ReadError(f"an answer of over {MOST_MESSAGE:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


@asynccontextmanager
async def noting_changes(streams: Streams, note: Callable[[], None]) -> AsyncIterator[Streams]:
    """Pass messages on; `note` hears that the list of tools has changed before any later message is passed."""
    read, write = streams
    sends, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)

    async def relay() -> None:
        async with sends:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                async for message in read:
                    said = getattr(message, "message", None)
                    if isinstance(said, JSONRPCNotification) and said.method == CHANGED:
                        note()
                    await sends.send(message)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(relay)
        yield received, write
        tasks.cancel_scope.cancel()
    received.close()
