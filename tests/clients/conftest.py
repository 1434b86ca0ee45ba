"""The official clients meet the live site: the chat rooms' own cast."""

from __future__ import annotations

import asyncio

from chat.models import Turn
from tests.chat.conftest import ana, ben, key, site, small_and_quick, until
from tests.doubles.fake_engine import FakeEngine

__all__ = ["ana", "ben", "key", "site", "small_and_quick"]


def assert_that_leaving_aborts(engine: FakeEngine) -> None:
    """Whose reader has left: the only turn is closed, and the engine, which is held, is told so once."""

    async def closed() -> bool:
        turn = await Turn.objects.aget()
        return (turn.status, turn.finish_reason) == (Turn.Status.CLOSED, "abort")

    asyncio.run(until(closed, "the turn is closed as aborted"))
    engine.release()
    assert len(engine.aborted) == 1
