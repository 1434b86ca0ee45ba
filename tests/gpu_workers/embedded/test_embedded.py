"""Where the embedded engine differs from SGLang on purpose, and what it promises beyond the contract."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import psutil
import pytest

from benchmarks.tiny import write_tiny_adapter, write_tiny_model
from gpu_workers.engine.engine_client import EngineClient
from gpu_workers.engine.interface import Engine
from gpu_workers.errors import AdapterInvalid, AdapterMissing, EngineRefused, EngineUnavailable
from gpu_workers.types import Sampling

PROMPT = (1, 362, 201, 50, 326)
GREEDY = Sampling(max_new_tokens=6, temperature=0, ignore_eos=True)


@pytest.fixture
async def client(embedded_engine: Engine, tiny_model: Path) -> AsyncIterator[Engine]:
    yield embedded_engine
    await embedded_engine.resume()
    if (await embedded_engine.info())["weight_version"] != "base":
        await embedded_engine.update_weights(str(tiny_model), version="base")
    for name in await embedded_engine.adapters():
        await embedded_engine.unload_adapter(name)
    await embedded_engine.aclose()


async def test_a_seed_repeats_a_reply_over_http(client: Engine) -> None:
    sampling = Sampling(max_new_tokens=24, temperature=1.0, seed=11, ignore_eos=True)

    replies = await asyncio.gather(*(client.generate(PROMPT, sampling) for _ in range(5)))

    assert len({reply.ids for reply in replies}) == 1
    assert (await client.generate(PROMPT, Sampling(24, 1.0, seed=12, ignore_eos=True))).ids != replies[0].ids


async def test_an_unloaded_adapter_is_refused(client: Engine, tmp_path: Path) -> None:
    await client.load_adapter("gone", str(write_tiny_adapter(tmp_path, seed=1)))
    await client.unload_adapter("gone")

    with pytest.raises(AdapterMissing):
        await client.generate(PROMPT, GREEDY, adapter="gone")


async def test_one_adapter_too_many_is_refused_and_the_others_stay(client: Engine, tmp_path: Path) -> None:
    for n in range(16):
        await client.load_adapter(f"n{n}", str(write_tiny_adapter(tmp_path / str(n), seed=n)))

    with pytest.raises(EngineUnavailable, match="unload one first"):
        await client.load_adapter("n16", str(write_tiny_adapter(tmp_path / "16", seed=16)))

    assert len(await client.adapters()) == 16


async def test_an_adapter_that_would_be_served_wrongly_is_refused(client: Engine, tmp_path: Path) -> None:
    with pytest.raises(AdapterInvalid, match="rsLoRA"):
        await client.load_adapter("rs", str(write_tiny_adapter(tmp_path, seed=1, use_rslora=True)))


async def test_ids_outside_the_vocabulary_are_refused(client: Engine) -> None:
    for ids in ((512,), (-1,), (1, 2**40)):
        with pytest.raises(EngineRefused, match="input_ids must lie in"):
            await client.generate(ids, GREEDY)


async def test_weights_of_another_shape_are_refused_and_the_old_ones_stay(client: Engine, tmp_path: Path) -> None:
    before = await client.generate(PROMPT, GREEDY)
    broken = write_tiny_model(tmp_path / "broken")
    (broken / "model.safetensors").write_bytes(b"not weights")

    with pytest.raises(EngineRefused, match="cannot be read"):
        await client.update_weights(str(broken), version="v9")

    after = await client.generate(PROMPT, GREEDY)
    assert (after.ids, after.weight_version) == (before.ids, "base")


async def test_a_paused_engine_is_healthy(client: Engine) -> None:
    await client.pause("retract")
    async with httpx.AsyncClient(base_url=client.url, trust_env=False) as http:
        assert (await http.get("/health")).status_code == 200
        assert (await http.get("/ready")).status_code == 503


async def test_a_reader_of_a_whole_reply_that_leaves_frees_its_place_too(client: Engine) -> None:
    before = (await client.metrics())["num_aborted_requests_total"]
    sampling = Sampling(max_new_tokens=2000, temperature=1.0, ignore_eos=True)
    reading = asyncio.create_task(client.generate(PROMPT, sampling))
    async with asyncio.timeout(20):
        while not (await client.metrics())["num_running_reqs"]:
            await asyncio.sleep(0.01)
    reading.cancel()

    async with asyncio.timeout(20):
        while (await client.metrics())["num_aborted_requests_total"] == before:
            await asyncio.sleep(0.05)


async def test_an_administrator_who_leaves_while_waiting_does_no_harm(client: Engine, tmp_path: Path) -> None:
    await client.load_adapter("slow", str(write_tiny_adapter(tmp_path, seed=1)))
    stream = client.stream(PROMPT, Sampling(max_new_tokens=1500, temperature=1.0, ignore_eos=True), adapter="slow")
    await anext(stream)
    unloading = asyncio.create_task(client.unload_adapter("slow"))
    async with asyncio.timeout(20):
        while "slow" in await client.adapters():  # refused from now on, and held until the stream ends
            await asyncio.sleep(0.01)
    assert not unloading.done()
    unloading.cancel()
    await stream.aclose()

    async with asyncio.timeout(20):
        while (await client.metrics())["num_running_reqs"]:
            await asyncio.sleep(0.05)
    assert (await client.generate(PROMPT, GREEDY)).ids
    assert "slow" not in await client.adapters()


async def test_twenty_adapter_swaps_under_load_lose_no_request(client: Engine, tmp_path: Path) -> None:
    await client.load_adapter("swap-0", str(write_tiny_adapter(tmp_path / "0", seed=0)))
    live, replies, done = ["swap-0"], [], asyncio.Event()

    async def talk() -> None:
        while not done.is_set():
            pieces = [piece async for piece in client.stream(PROMPT, GREEDY, adapter=live[-1])]
            replies.append(pieces[-1].finish_reason)

    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(talk())
        for n in range(1, 21):
            name = f"swap-{n}"
            await client.load_adapter(name, str(write_tiny_adapter(tmp_path / str(n), seed=n)))
            live.append(name)
            if n >= 4:  # long after its last request was sent
                await client.unload_adapter(f"swap-{n - 4}")
        done.set()

    assert len(replies) >= 20
    assert set(replies) == {"length"}


def test_a_loop_for_every_task_leaves_no_sockets_behind(embedded_engine: Engine) -> None:
    engine = EngineClient(embedded_engine.url, api_key="key")
    asyncio.run(_ask(engine))
    gc.collect()
    before = psutil.Process().num_fds()

    for _ in range(20):
        asyncio.run(_ask(engine))

    gc.collect()
    assert len(engine._connections) == 1
    assert psutil.Process().num_fds() <= before + 2


async def _ask(engine: Engine) -> None:
    assert await engine.info()
