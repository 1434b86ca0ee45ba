"""The engine's stream is read ahead of its reader, as far as is good for both."""

from __future__ import annotations

import asyncio

import pytest

from chat.replying import flow
from chat.replying.flow import Flow
from gpu_workers.errors import EngineUnavailable
from gpu_workers.types import Delta
from tests.chat.conftest import until


def delta(number: int, finish: str | None = None) -> Delta:
    return Delta(str(number), (number,), (-1.0,), finish)


class Source:
    """A stream whose pieces a test lets go; it knows how far it was read, and whether it was closed."""

    def __init__(self, count: int, failure: Exception | None = None) -> None:
        self.given, self.closed, self.go = 0, False, asyncio.Event()
        self.count, self.failure = count, failure

    async def stream(self):
        try:
            for number in range(self.count):
                await self.go.wait()
                self.given += 1
                yield delta(number)
            if self.failure is not None:
                raise self.failure
        finally:
            self.closed = True


async def test_what_has_come_since_the_last_time_is_one_piece():
    source = Source(5)
    async with Flow(source.stream(), 10) as pieces:
        source.go.set()

        async def all_read() -> bool:
            return source.given == 5

        await until(all_read, "everything is read ahead")
        come = await pieces.take()

    assert (come.text, come.ids) == ("01234", (0, 1, 2, 3, 4))


async def test_a_reader_that_takes_nothing_stops_the_reading():
    source = Source(10_000)
    source.go.set()
    async with Flow(source.stream(), 10) as pieces:

        async def stalled() -> bool:
            before = source.given
            for _ in range(20):
                await asyncio.sleep(0)
            return 0 < before == source.given

        await until(stalled, "the reading stops")
        ahead = source.given
        taken = 0
        while taken < 10_000:
            taken += len((await pieces.take()).ids)

    assert ahead <= flow.AHEAD
    assert source.given == 10_000


async def test_silence_is_told_and_the_stream_goes_on():
    source = Source(1)
    async with Flow(source.stream(), 0.02) as pieces:
        assert await pieces.take() is None
        assert await pieces.take() is None
        source.go.set()
        assert (await pieces.take()).text == "0"


async def test_what_came_before_a_failure_comes_first():
    source = Source(2, EngineUnavailable("gone"))
    source.go.set()
    async with Flow(source.stream(), 10) as pieces:
        said = ""
        while len(said) < 2:
            said += (await pieces.take()).text
        with pytest.raises(EngineUnavailable, match="gone"):
            await pieces.take()
    assert said == "01"


async def test_a_stream_that_ends_without_a_finish_reason_is_the_engines_failure():
    source = Source(0)
    async with Flow(source.stream(), 10) as pieces:
        with pytest.raises(EngineUnavailable, match="before it was finished"):
            await pieces.take()


async def test_leaving_closes_the_stream_at_once():
    source = Source(3)
    async with Flow(source.stream(), 10) as pieces:
        taking = asyncio.ensure_future(pieces.take())
        await asyncio.sleep(0)
        taking.cancel()
    assert source.closed


async def test_somebody_else_may_rouse_the_reader():
    async with Flow(Source(1).stream(), 60) as pieces:
        taking = asyncio.ensure_future(pieces.take())
        while not taking.done():
            await asyncio.sleep(0)
            pieces.rouse()
        assert taking.result() is None
