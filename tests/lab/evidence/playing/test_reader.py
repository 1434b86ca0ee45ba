"""What the private engine says of a reply, while others use it too."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gpu_workers.errors import AdapterMissing, EngineUnavailable
from lab.evidence.playing.reader import PAUSE_S, TRIES, EngineReader
from tests.doubles.fake_engine import FakeEngine

ASKED = [{"role": "user", "content": "Why?"}]


async def no_sleep(seconds: float) -> None: ...


class Forgetful(FakeEngine):
    """Lets go of adapters behind its reader's back, so many times."""

    def __init__(self, model: Path, failures: list[Exception]) -> None:
        super().__init__(model)
        self.coming = failures

    async def load_adapter(self, name: str, path: str) -> None:
        if self.coming:
            raise self.coming.pop(0)
        await super().load_adapter(name, path)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "checkpoints" / "talkback-3-abc"
    folder.mkdir(parents=True)
    return tmp_path


@pytest.mark.asyncio
async def test_what_an_engine_let_go_of_meanwhile_is_brought_again(tiny_model: Path, checkpoint: Path) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    engine = Forgetful(tiny_model, [EngineUnavailable("Engine 1 did not follow."), AdapterMissing("It is gone.")])
    reader = EngineReader(engine, tiny_model, checkpoint, sleep=sleep)

    assert len(await reader.logprobs(ASKED, "Because.", 3)) > 0
    assert waits == [PAUSE_S, PAUSE_S]


class Together(FakeEngine):
    """Reads nothing before all who are to come are there."""

    def __init__(self, model: Path, parties: int) -> None:
        super().__init__(model)
        self.all_there = asyncio.Barrier(parties)

    async def score(self, *args, **named):
        await self.all_there.wait()
        return await super().score(*args, **named)


@pytest.mark.asyncio
async def test_a_full_engine_lets_go_of_the_oldest_that_nothing_is_read_under(tiny_model: Path, tmp_path: Path) -> None:
    """More checkpoints are probed than an engine has places, and who only reads makes no other leave."""
    for number in (2, 3, 4):
        (tmp_path / "checkpoints" / f"talkback-{number}-x").mkdir(parents=True)
    engine = Together(tiny_model, parties=4)
    engine.room = 3
    engine.loaded = {name: f"/{name}" for name in ("judge-a", "talkback-10-x", "talkback-9-x")}
    reader = EngineReader(engine, tiny_model, tmp_path, sleep=no_sleep)

    async with asyncio.timeout(30):
        assert all(await asyncio.gather(*(reader.logprobs(ASKED, "Because.", number) for number in (3, 4, 3, 4))))
        assert sorted(engine.loaded) == ["judge-a", "talkback-3-x", "talkback-4-x"]

        await asyncio.gather(*(reader.logprobs(ASKED, "Because.", 2) for _ in range(4)))
    assert sorted(engine.loaded) == ["judge-a", "talkback-2-x", "talkback-4-x"]


@pytest.mark.asyncio
async def test_an_engine_that_stays_away_is_told(tiny_model: Path, checkpoint: Path) -> None:
    engine = Forgetful(tiny_model, [EngineUnavailable("Engine 1 did not follow.")] * TRIES)
    reader = EngineReader(engine, tiny_model, checkpoint, sleep=no_sleep)

    with pytest.raises(EngineUnavailable, match="did not follow"):
        await reader.logprobs(ASKED, "Because.", 3)


class Asked(FakeEngine):
    """Counts how often it is asked what it holds."""

    asked = 0

    async def adapters(self) -> dict[str, str]:
        self.asked += 1
        return await super().adapters()


@pytest.mark.asyncio
async def test_what_is_held_is_asked_once_and_again_where_it_is_gone(tiny_model: Path, checkpoint: Path) -> None:
    engine = Asked(tiny_model)
    reader = EngineReader(engine, tiny_model, checkpoint, sleep=no_sleep)
    await asyncio.gather(*(reader.logprobs(ASKED, "Because.", 3) for _ in range(5)))
    assert engine.asked == 1

    await engine.unload_adapter("talkback-3-abc")
    assert await reader.logprobs(ASKED, "Because.", 3)
    assert engine.asked == 2
