"""The one way out of a harness's room: requests to Talkback's /v1 with the episode's key, and nothing else.

A harness may send any key, or none: what passes here is this episode's. Each connection carries one request.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

import httpx

from environments.client import AGAIN, Client
from environments.worlds.harness import FULL
from environments.worlds.width import Room

START = re.compile(rb"(GET|POST) /v1(/[A-Za-z0-9/_.-]{1,200})(\?[!-~]{0,1000})? HTTP/1\.[01]")
HEADER = re.compile(rb"([A-Za-z0-9-]{1,100}):[ \t]*([\x20-\x7e]*)")
OURS = ("authorization", "x-api-key", "cookie", "host", "connection", "content-length", "accept-encoding", "expect")
"""Headers of a harness's that are not passed on."""
MODELS = ("/chat/completions", "/completions", "/messages", "/responses")
"""Doors at which a reply is asked for."""
MOST_HEAD, MOST_BODY, MOST_READ = 64 * 1024, 64 * 2**20, 2**20
HEAD_S = 60.0
TOOLS = re.compile(rb'"tools"\s*:\s*\[\s*\{')
"""In a body, whose texts have their quotes escaped: it offers tools."""
PROMPT = re.compile(rb'"(?:prompt|input)_tokens":\s*(\d+)')
SAMPLED = re.compile(rb'"(?:completion|output)_tokens":\s*(\d+)')


class _Unheard(Exception):
    """A request that is answered here and not passed on: status and sentence."""


@dataclass
class Door:
    agent: Client
    """With the episode's key."""
    replies: Room
    """What is written at once, over all attempts."""
    asked: int = 0
    """Requests for a reply."""
    steps: int = 0
    """Those that were answered with one."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    """As far as answers said them."""
    fault: str = ""
    """Why the last request for a reply has none, where Talkback is to blame."""
    is_full: bool = False
    """The last request for a reply was refused, for the model's window was full. Where it offered tools, requests
    without any do not count: they ask for a summary of what was too long."""
    _full_had_tools: bool = False
    _answering: set[asyncio.Task[None]] = field(default_factory=set)

    @asynccontextmanager
    async def socket(self) -> AsyncIterator[Path]:
        """Open it as a socket of the host's file system, whose name is a secret: a sandbox's user may connect."""
        with tempfile.TemporaryDirectory(prefix="talkback-door-") as folder:
            os.chmod(folder, 0o711)  # noqa: S103 - it may be walked through, and not listed
            path = Path(folder) / secrets.token_hex(16)
            server = await asyncio.start_unix_server(self._meet, path, limit=MOST_HEAD)
            os.chmod(path, 0o666)  # noqa: S103 - the sandbox has a user of its own
            async with self._closing(server):
                yield path

    @asynccontextmanager
    async def port(self) -> AsyncIterator[int]:
        """Open it on a free port of the loopback."""
        server = await asyncio.start_server(self._meet, "127.0.0.1", 0, limit=MOST_HEAD)
        async with self._closing(server):
            yield server.sockets[0].getsockname()[1]

    @asynccontextmanager
    async def _closing(self, server: asyncio.Server) -> AsyncIterator[None]:
        try:
            yield
        finally:
            server.close()
            for one in self._answering:
                one.cancel()
            if self._answering:
                await asyncio.wait(self._answering)

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)
        with suppress(OSError, asyncio.IncompleteReadError, TimeoutError, asyncio.CancelledError):
            try:
                await self._answer(reader, writer)
            except _Unheard as unheard:
                status, sentence = unheard.args
                _write_head(writer, status, {"Content-Type": "application/json"})
                writer.write(json.dumps({"error": {"message": sentence, "type": "harness", "code": None}}).encode())
                await writer.drain()
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), HEAD_S)
        except asyncio.LimitOverrunError as error:
            raise _Unheard(431, "The request's head is too long.") from error
        method, path, headers, size = _read_head(head)
        body = await reader.readexactly(size)
        leaving = asyncio.ensure_future(reader.read(1))  # an end here means that the harness has gone
        passing = asyncio.ensure_future(self._pass_on(method, path, headers, body, writer))
        try:
            await asyncio.wait([leaving, passing], return_when=asyncio.FIRST_COMPLETED)
            if passing.done() or leaving.result():  # a second request is not heard: the first one is answered
                await passing
        finally:
            leaving.cancel()
            passing.cancel()
            await asyncio.wait([leaving, passing])

    async def _pass_on(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, writer: asyncio.StreamWriter
    ) -> None:
        if method != "POST" or path not in MODELS:
            with suppress(httpx.TransportError):
                async with self.agent.relay(method, path, body, headers) as answer:
                    await _hand_over(answer, writer)
            return
        self.asked += 1
        async with self.replies:
            sent_at, has_tools = monotonic(), TOOLS.search(body) is not None
            try:
                async with self.agent.relay(method, path, body, headers) as answer:
                    if not answer.is_success:  # kept first: a harness may hang up, or end, as soon as it sees that
                        self._note(answer.status_code, await answer.aread(), sent_at, has_tools=has_tools)
                    said = await _hand_over(answer, writer)
            except httpx.TransportError as error:
                self.fault = f"Talkback could not be reached: {str(error) or type(error).__name__}."
                self.is_full = False
                self.replies.width.press(sent_at)
                return  # the connection's end says so too, also in the middle of an answer
            if answer.is_success:
                self._note(answer.status_code, said, sent_at, has_tools=has_tools)

    def _note(self, status: int, said: bytes, sent_at: float, *, has_tools: bool) -> None:
        """Keep what one answer says of the attempt."""
        self.fault = ""
        if status == 400 and FULL.encode() in said:
            self.is_full, self._full_had_tools = True, has_tools or self._full_had_tools
        elif has_tools or not self._full_had_tools:
            self.is_full = self._full_had_tools = False
        if status in AGAIN:
            self.fault = f"Talkback answered {status}."
            self.replies.width.press(sent_at)
        elif status == 200:
            self.steps += 1
            self.prompt_tokens += int((PROMPT.findall(said) or [0])[-1])
            self.completion_tokens += int((SAMPLED.findall(said) or [0])[-1])
            self.replies.width.answered(sent_at)


def _read_head(head: bytes) -> tuple[str, str, dict[str, str], int]:
    """Method, path below /v1, headers to pass on, bytes of the body. Raises _Unheard for all that is not plain."""
    start, *lines = head[:-4].split(b"\r\n")
    found = START.fullmatch(start)
    if found is None or b".." in found[2] or b"//" in found[2]:
        raise _Unheard(404, "This way leads to /v1 alone, by GET and POST.")
    said: dict[str, str] = {}
    for line in lines:
        one = HEADER.fullmatch(line)
        name = one[1].decode().lower() if one else ""
        if one is None or name == "transfer-encoding" or (name == "content-length" and name in said):
            raise _Unheard(411, "Send a Content-Length, and headers of plain text.")
        said[name] = one[2].decode().strip()
    size = said.get("content-length", "0")
    if not size.isdecimal() or int(size) > MOST_BODY:
        raise _Unheard(413, f"A request has at most {MOST_BODY} bytes.")
    path = (found[2] + (found[3] or b"")).decode()
    return found[1].decode(), path, {name: value for name, value in said.items() if name not in OURS}, int(size)


async def _hand_over(answer: httpx.Response, writer: asyncio.StreamWriter) -> bytes:
    """Write an answer as it comes. Its last MOST_READ bytes."""
    kept = ("content-type", "retry-after", "x-request-id")
    _write_head(writer, answer.status_code, {name: answer.headers[name] for name in kept if name in answer.headers})
    said = b""
    async for chunk in answer.aiter_bytes():
        said = (said + chunk)[-MOST_READ:]
        writer.write(chunk)
        await writer.drain()
    return said


def _write_head(writer: asyncio.StreamWriter, status: int, headers: Mapping[str, str]) -> None:
    """The end of the connection is the end of the body."""
    lines = [f"HTTP/1.1 {status} {httpx.codes.get_reason_phrase(status)}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
