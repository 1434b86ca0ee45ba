"""What the private engine says of a reply, while others use it too."""

from __future__ import annotations

from pathlib import Path

import pytest

from environments.evidence.reader import PAUSE_S, TRIES, EngineReader
from gpu_workers.errors import AdapterMissing, EngineUnavailable, NoRoom
from gpu_workers.fakes import FakeEngine

ASKED = [{"role": "user", "content": "Why?"}]


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


@pytest.mark.asyncio
async def test_a_full_engine_lets_go_of_what_nothing_is_read_under(tiny_model: Path, checkpoint: Path) -> None:
    """More checkpoints are probed than an engine has places, and who only reads has nobody make room."""

    async def sleep(seconds: float) -> None: ...

    engine = Forgetful(tiny_model, [])
    engine.loaded = {"talkback-1-old": "/checkpoints/talkback-1-old"}
    engine.coming = [NoRoom("1 adapters are loaded, and no more fit: unload one first.")]
    reader = EngineReader(engine, tiny_model, checkpoint, sleep=sleep)

    assert len(await reader.logprobs(ASKED, "Because.", 3)) > 0
    assert list(engine.loaded) == ["talkback-3-abc"]


@pytest.mark.asyncio
async def test_an_engine_that_stays_away_is_told(tiny_model: Path, checkpoint: Path) -> None:
    async def sleep(seconds: float) -> None: ...

    engine = Forgetful(tiny_model, [EngineUnavailable("Engine 1 did not follow.")] * TRIES)
    reader = EngineReader(engine, tiny_model, checkpoint, sleep=sleep)

    with pytest.raises(EngineUnavailable, match="did not follow"):
        await reader.logprobs(ASKED, "Because.", 3)
