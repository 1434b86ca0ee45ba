"""A load generator that costs next to nothing: readers of event streams over bare HTTP, one connection each."""

from __future__ import annotations

import asyncio
import json
from time import perf_counter
from typing import Any, cast

import httptools


class Failed(Exception):
    """The answer was no stream, or it broke off."""


class Answer:
    """One streamed answer as it came: when, and how much. Times are perf_counter's."""

    def __init__(self) -> None:
        self.began = perf_counter()
        self.first: float | None = None
        """When the first token was there."""
        self.last = self.began
        self.end: float | None = None
        self.longest_gap = 0.0
        """Seconds between two arrivals, the first token being one."""
        self.tail = b""
        self.tokens = 0

    @property
    def first_s(self) -> float:
        assert self.first is not None
        return self.first - self.began


class Reader(asyncio.Protocol):
    """Asks on one kept connection, one request at a time."""

    def __init__(self, host: str, port: int, *, headers: str = "", receive_buffer: int = 0) -> None:
        self._host, self._port, self._headers = host, port, headers
        self._receive_buffer = receive_buffer
        self._transport: asyncio.Transport | None = None
        self._answer: Answer | None = None
        self._done: asyncio.Future[Answer] | None = None
        self._first: asyncio.Future[None] | None = None

    async def ask(self, path: str, body: bytes, *, headers: str = "") -> Answer:
        """The whole answer, read to its end. Raises Failed."""
        await self.begin(path, body, headers=headers)
        return await self.end()

    async def begin(self, path: str, body: bytes, *, headers: str = "") -> Answer:
        loop = asyncio.get_running_loop()
        if self._transport is None:
            connection = await loop.create_connection(lambda: self, self._host, self._port)
            self._transport = cast(asyncio.Transport, connection[0])
            if self._receive_buffer:
                import socket

                raw = self._transport.get_extra_info("socket")
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer)
        self._parser = httptools.HttpResponseParser(self)
        self._done, self._first = loop.create_future(), loop.create_future()
        self._answer = Answer()
        head = f"POST {path} HTTP/1.1\r\nhost: {self._host}:{self._port}\r\ncontent-type: application/json\r\n"
        head += f"{self._headers}{headers}content-length: {len(body)}\r\n\r\n"
        self._transport.write(head.encode() + body)
        return self._answer

    async def first(self) -> Answer:
        """Wait for the first token."""
        assert self._first is not None
        assert self._answer is not None
        await self._first
        return self._answer

    async def end(self) -> Answer:
        assert self._done is not None
        return await self._done

    def leave(self) -> None:
        """Close the connection, in mid-stream or not."""
        if self._transport is not None:
            self._transport.close()
            self._transport = None

    def pause(self) -> None:
        """Read nothing more."""
        assert self._transport is not None
        self._transport.pause_reading()

    def resume(self) -> None:
        assert self._transport is not None
        self._transport.resume_reading()

    # asyncio.Protocol and the parser's calls

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        for waits in (self._first, self._done):
            if waits is not None and not waits.done():
                waits.set_exception(Failed(f"the connection broke off: {error}"))
                waits.exception()

    def on_body(self, data: bytes) -> None:
        answer, now = self._answer, perf_counter()
        assert answer is not None
        if answer.first is None:
            if not has_token(data):
                answer.tail += data
                return
            answer.first = answer.last = now
            if self._first is not None and not self._first.done():
                self._first.set_result(None)
        answer.longest_gap = max(answer.longest_gap, now - answer.last)
        answer.last = now
        answer.tail = (answer.tail + data)[-8192:]

    def on_message_complete(self) -> None:
        answer, done = self._answer, self._done
        assert answer is not None
        assert done is not None
        answer.end = perf_counter()
        status = self._parser.get_status_code()
        try:
            if status != 200:
                raise Failed(f"{status}: {answer.tail[-2000:].decode(errors='replace')}")
            answer.tokens = tokens(answer.tail)
        except Failed as failed:
            if self._first is not None and not self._first.done():
                self._first.set_exception(failed)
                self._first.exception()
            if not done.done():
                done.set_exception(failed)
                done.exception()
            return
        if not done.done():
            done.set_result(answer)


def events(data: bytes) -> list[dict[str, Any]]:
    """The JSON events in these bytes; what is cut off at either end is left out."""
    found = []
    for line in data.split(b"\n"):
        if line.startswith(b"data: {") and line.rstrip().endswith(b"}"):
            try:
                found.append(json.loads(line[6:]))
            except ValueError:
                continue
    return found


def has_token(data: bytes) -> bool:
    """Whether anything of a reply is in these events: the engine's own, or chat completions'."""
    for event in events(data):
        if event.get("output_ids"):
            return True
        if any(choice["delta"].get("content") for choice in event.get("choices") or ()):
            return True
    return False


def tokens(tail: bytes) -> int:
    """How many tokens the reply had, as its last events say. Raises Failed when they say something else."""
    if b"data: [DONE]" not in tail:
        raise Failed(f"the stream broke off: {tail[-300:].decode(errors='replace')}")
    for event in reversed(events(tail)):
        if "error" in event:
            raise Failed(str(event["error"]))
        if event.get("usage"):
            return int(event["usage"]["completion_tokens"])
        if (event.get("meta_info") or {}).get("finish_reason"):
            return int(event["meta_info"]["completion_tokens"])
    raise Failed(f"the stream has no end: {tail[-300:].decode(errors='replace')}")
