"""The scripted engine keeps the promises that other tests lean on."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path

import pytest

from gpu_workers.engine.interface import Engine
from gpu_workers.errors import AdapterInvalid, AdapterMissing, EngineUnavailable
from gpu_workers.types import Sampling
from tests.doubles.fake_engine import FakeEngine


@pytest.fixture
def fake(tiny_model: Path) -> FakeEngine:
    return FakeEngine(tiny_model)


def ids(fake: FakeEngine, text: str) -> list[int]:
    return list(fake.tokenizer.encode(text, add_special_tokens=False).ids)


def test_it_has_every_call_of_the_real_client_with_the_same_arguments() -> None:
    for name, call in inspect.getmembers(Engine, inspect.isfunction):
        if not name.startswith("_"):
            theirs = list(inspect.signature(getattr(FakeEngine, name)).parameters)
            assert theirs == list(inspect.signature(call).parameters), name


async def test_it_says_what_it_was_told_in_order_and_then_something_else(fake: FakeEngine) -> None:
    fake.says("four", to="two and two", times=2)
    fake.says("Ahoy, é 👍")

    sums = [(await fake.generate(ids(fake, "two and two"), Sampling())).text for _ in range(2)]
    hello = await fake.generate(ids(fake, "hello"), Sampling())
    after = await fake.generate(ids(fake, "hello"), Sampling())

    assert (sums, hello.text, after.text) == (["four", "four"], "Ahoy, é 👍", "I see.")
    assert [call.prompt for call in fake.asked("generate")] == ["two and two"] * 2 + ["hello"] * 2
    assert len(hello.ids) == len(hello.logprobs)


async def test_likely_tokens_are_made_up_and_what_a_reply_is_held_to_is_recorded(fake: FakeEngine) -> None:
    asked = Sampling(top_logprobs=2, json_schema="{}")
    whole = await fake.generate([5], asked)
    pieces = [piece async for piece in fake.stream([5], asked)]

    assert tuple(row for piece in pieces for row in piece.top) == whole.top
    assert [row[0] for row in whole.top] == list(zip(whole.ids, whole.logprobs, strict=True))
    assert {len(row) for row in whole.top} == {2}
    assert fake.asked("generate")[0].sampling == asked
    assert (await fake.generate([5], Sampling())).top == ()


async def test_an_unscripted_question_can_be_an_error(fake: FakeEngine) -> None:
    fake.otherwise = None
    with pytest.raises(AssertionError, match="nothing is scripted"):
        await fake.generate([5], Sampling())


async def test_a_stream_brings_the_same_and_ends_at_the_length(fake: FakeEngine) -> None:
    fake.says("One two three é 👍", times=2)
    whole = await fake.generate([5], Sampling(max_new_tokens=200))
    pieces = [piece async for piece in fake.stream([5], Sampling(max_new_tokens=200))]
    assert "".join(piece.text for piece in pieces) == whole.text

    fake.says("One two three")
    cut = [piece async for piece in fake.stream([5], Sampling(max_new_tokens=2))]
    assert [piece.finish_reason for piece in cut] == [None, "length"]


async def test_a_reader_that_leaves_is_remembered(fake: FakeEngine) -> None:
    stream = fake.stream([5], Sampling(), request_id="left")
    await anext(stream)
    await stream.aclose()
    _ = [piece async for piece in fake.stream([5], Sampling(), request_id="stayed")]

    assert fake.aborted == ["left"]


async def test_it_can_be_held_and_released(fake: FakeEngine) -> None:
    fake.hold(after=1)
    task = asyncio.create_task(_all(fake))
    assert await asyncio.to_thread(fake.holding.wait, 10)
    assert not task.done()

    fake.release()

    assert await task


async def test_it_can_be_down(fake: FakeEngine) -> None:
    fake.goes_down()
    with pytest.raises(EngineUnavailable):
        await fake.generate([5], Sampling())
    assert not await fake.ready()

    fake.comes_back()
    assert (await fake.generate([5], Sampling())).text == "I see."


async def test_it_knows_its_adapters(fake: FakeEngine) -> None:
    with pytest.raises(AdapterMissing):
        await fake.score([5], [6], adapter="a")
    fake.invalid.add("bad")
    with pytest.raises(AdapterInvalid):
        await fake.load_adapter("bad", "/x")

    await fake.load_adapter("a", "/a")
    await fake.load_adapter("a", "/a")
    with pytest.raises(AdapterInvalid):
        await fake.load_adapter("a", "/b")

    scored = await fake.score([5], [6, 7], adapter="a")
    assert scored.logprobs != (await fake.score([5], [6, 7])).logprobs
    assert await fake.adapters() == {"a": "/a"}


async def _all(fake: FakeEngine) -> list[str]:
    return [piece.text async for piece in fake.stream([5], Sampling())]
