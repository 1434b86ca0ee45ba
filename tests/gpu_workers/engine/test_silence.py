"""An engine that hangs keeps its connections open and says nothing: it is known from one that is busy, and soon."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, asynccontextmanager

import pytest
from aiohttp import web

from gpu_workers.engine import transport
from gpu_workers.engine.engine_client import EngineClient
from gpu_workers.errors import EngineUnavailable
from gpu_workers.types import Sampling

EVENT = (
    b'data: {"text": "a", "output_ids": [1], "meta_info": {"finish_reason": null, "prompt_tokens": 1, '
    b'"completion_tokens": 1, "weight_version": "v1", "output_token_logprobs": [[-0.5, 1, null]]}}\n\n'
)
LAST = EVENT.replace(b"null, ", b'{"type": "stop"}, ', 1).replace(b'"completion_tokens": 1', b'"completion_tokens": 2')


class Server:
    """Answers, hangs before its headers or after one event, and answers other questions, or hangs at those too."""

    def __init__(self) -> None:
        self.hangs_at, self.is_there, self.looks = "", True, asyncio.Queue[bool]()
        self.goes_on = asyncio.Event()

    async def generate(self, request: web.Request) -> web.StreamResponse:
        if self.hangs_at == "headers":
            await self.goes_on.wait()
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(EVENT)
        if self.hangs_at == "event":
            await self.goes_on.wait()
        await response.write(LAST + b"data: [DONE]\n\n")
        return response

    async def ready(self, request: web.Request) -> web.Response:
        self.looks.put_nowait(True)
        if not self.is_there:
            await self.goes_on.wait()
        return web.Response(status=503)  # paused: it is there all the same


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(transport, "LOOK_S", 0.05)
    monkeypatch.setattr(transport, "LOOKED_S", 0.1)
    return Server()


@asynccontextmanager
async def client_of(server: Server):
    app = web.Application()
    app.add_routes([web.post("/generate", server.generate), web.get("/ready", server.ready)])
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    client = EngineClient(f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}")
    try:
        yield client
    finally:
        server.goes_on.set()
        await client.aclose()
        await runner.cleanup()


async def read(client: EngineClient) -> int:
    """How many deltas came."""
    count = 0
    async with aclosing(client.stream([1], Sampling(max_new_tokens=4))) as stream:
        async for _ in stream:
            count += 1
    return count


@pytest.mark.parametrize("hangs_at", ["headers", "event"])
async def test_an_engine_that_hangs_is_unavailable_long_before_its_connection_times_out(server, hangs_at):
    server.hangs_at, server.is_there = hangs_at, False
    async with client_of(server) as client:
        with pytest.raises(EngineUnavailable, match="The engine does not answer"):
            await asyncio.wait_for(read(client), 30)  # the connection's own limit is 300 s
    assert server.looks.qsize() <= transport.MISSES


@pytest.mark.parametrize("hangs_at", ["headers", "event"])
async def test_one_that_is_busy_is_waited_for(server, hangs_at):
    server.hangs_at = hangs_at
    async with client_of(server) as client:
        reading = asyncio.create_task(read(client))
        for _ in range(2 * transport.MISSES):
            await asyncio.wait_for(server.looks.get(), 30)
        assert not reading.done()
        server.goes_on.set()
        assert await asyncio.wait_for(reading, 30) >= 1


async def test_a_reader_who_leaves_before_the_first_word_leaves_nothing_at_work(server):
    server.hangs_at = "headers"
    async with client_of(server) as client:
        before = asyncio.all_tasks()
        reading = asyncio.create_task(read(client))
        await asyncio.wait_for(server.looks.get(), 30)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        mine = {task for task in asyncio.all_tasks() - before if "Watch.run" in repr(task)}
        await asyncio.gather(*mine, return_exceptions=True)  # it was cancelled: this ends


async def test_a_reader_who_leaves_in_the_instant_in_which_the_engine_is_given_up_has_left(server, monkeypatch):
    readers: list[asyncio.Task[int]] = []

    class LeftAtTheEnd(transport.Watch):
        async def run(self) -> None:
            self.is_gone = True
            self.end()
            readers[0].cancel()

    monkeypatch.setattr(transport, "Watch", LeftAtTheEnd)
    async with client_of(server) as client:
        readers.append(asyncio.create_task(read(client)))
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(readers[0], 30)
