"""Two servers behind one fleet, with SGLang's real router before them and without: what one server owes, both do."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from benchmarks.tiny import write_tiny_adapter
from gpu_workers.engine.engine_client import EngineClient
from gpu_workers.engine.fleet import Fleet
from gpu_workers.engine.router import Router
from gpu_workers.engine.stamps import FULL
from gpu_workers.engine.workers import State
from gpu_workers.errors import AdapterMissing, EngineUnavailable, KeyRefused
from gpu_workers.types import Sampling
from tests.contract.conftest import Server, Servers, emptied, running_router
from tests.contract.reference import Reference
from tests.contract.test_replies import CLOSE, PROMPT

GREEDY = Sampling(max_new_tokens=8, temperature=0, ignore_eos=True)
LONG = Sampling(max_new_tokens=1500, temperature=1.0, ignore_eos=True)


@pytest.fixture(scope="module", params=["embedded", pytest.param("sglang", marks=pytest.mark.sglang)])
def servers(request: pytest.FixtureRequest) -> Servers:
    of_kind: Servers = request.getfixturevalue(f"{request.param}_servers")
    return of_kind


@pytest.fixture(scope="module", params=["ours alone", pytest.param("router", marks=pytest.mark.sglang)])
def router(request: pytest.FixtureRequest, servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a router before two servers; empty for none."""
    if request.param != "router":
        yield ""
        return
    with running_router(servers.take(2), tmp_path_factory.mktemp("router") / "router.log") as url:
        yield url


@pytest.fixture
async def pair(servers: Servers) -> AsyncIterator[list[Server]]:
    """Two servers; they are left running, on their first weights, without adapters."""
    yield servers.take(2)
    for server in servers.take(2):
        await emptied(server)


@pytest.fixture
async def fleet(pair: list[Server], router: str) -> AsyncIterator[Fleet]:
    front = Router(router, api_key="key", timeout_s=60) if router else None
    fleet = Fleet({server.url: server.engine() for server in pair}, router=front)
    yield fleet
    await fleet.aclose()


async def of_each(pair: list[Server], adapter: str | None) -> list[list[float]]:
    """What each server says of the same ids, asked directly."""
    said = []
    for server in pair:
        engine = server.engine()
        said.append(list((await engine.score(PROMPT, (310, 194), adapter=adapter)).logprobs))
        await engine.aclose()
    return said


async def held(pair: list[Server]) -> list[set[str]]:
    engines = [server.engine() for server in pair]
    names = [set(await engine.adapters()) for engine in engines]
    await asyncio.gather(*(engine.aclose() for engine in engines))
    return names


async def test_what_is_loaded_each_holds_and_answers_with(
    fleet: Fleet, pair: list[Server], adapter_folders: dict[str, Path], reference: Reference
) -> None:
    await fleet.load_adapter("a", str(adapter_folders["a"]))

    wanted = reference.response_logprobs(PROMPT, (310, 194), adapter=adapter_folders["a"])
    assert await of_each(pair, "a") == [pytest.approx(wanted, abs=CLOSE)] * 2
    for adapter, folder in (("a", adapter_folders["a"]), (None, None)):
        reply = await fleet.generate(PROMPT, GREEDY, adapter=adapter)
        pieces = [piece async for piece in fleet.stream(PROMPT, GREEDY, adapter=adapter)]
        assert list(reply.ids) == reference.greedy(PROMPT, 8, adapter=folder)
        assert tuple(id for piece in pieces for id in piece.ids) == reply.ids
    with pytest.raises(AdapterMissing):
        await fleet.generate(PROMPT, GREEDY, adapter="unknown")

    await fleet.unload_adapter("a")
    assert await held(pair) == [set(), set()]


async def test_what_a_request_asks_for_arrives(fleet: Fleet, pair: list[Server]) -> None:
    """The router takes a request apart and puts together what it knows of it: that is to be all that we send."""
    asked = Sampling(
        max_new_tokens=12,
        temperature=0,
        top_p=0.9,
        top_k=40,
        frequency_penalty=0.5,
        presence_penalty=0.5,
        repetition_penalty=1.1,
        stop=("77",),
        stop_token_ids=(2,),
        seed=5,
        skip_special_tokens=False,
        regex="[0-9]{6}",
        top_logprobs=2,
    )
    engine = pair[0].engine()
    alone = await engine.generate(PROMPT, asked, priority=3)
    await engine.aclose()

    reply = await fleet.generate(PROMPT, asked, request_id="named", priority=3)

    assert (reply.text, reply.ids, reply.finish_reason) == (alone.text, alone.ids, alone.finish_reason)
    assert reply.logprobs == pytest.approx(alone.logprobs, abs=CLOSE)
    assert [[id for id, _ in row] for row in reply.top] == [[id for id, _ in row] for row in alone.top]


async def test_a_reply_can_be_left_and_ended_wherever_it_is(fleet: Fleet, pair: list[Server]) -> None:
    stream = fleet.stream(PROMPT, LONG, request_id="left")
    await anext(stream)
    await stream.aclose()
    async with asyncio.timeout(30):
        while (await fleet.metrics())["num_running_reqs"]:
            await asyncio.sleep(0.1)

    stream = fleet.stream(PROMPT, LONG, request_id="ended")
    pieces = [await anext(stream)]
    await fleet.abort("ended")
    pieces += [piece async for piece in stream]

    assert pieces[-1].finish_reason == "abort"
    assert sum(len(piece.ids) for piece in pieces) < LONG.max_new_tokens


async def test_full_weights_are_asked_for_by_their_name(
    fleet: Fleet, pair: list[Server], other_model: Path, reference: Reference
) -> None:
    name = f"{FULL}other"
    await fleet.update_weights(str(other_model), version=name)
    other = Reference(other_model).greedy(PROMPT, 8)

    assert list((await fleet.generate(PROMPT, GREEDY, adapter=name)).ids) == other
    with pytest.raises(AdapterMissing):  # no server has the base, and none answers in its place
        await fleet.generate(PROMPT, GREEDY)
    assert list((await fleet.generate(PROMPT, GREEDY, adapter=name)).ids) == other

    await fleet.update_weights(str(pair[0].model), version="base")
    assert list((await fleet.generate(PROMPT, GREEDY)).ids) == reference.greedy(PROMPT, 8)


async def test_one_that_is_killed_comes_back_only_with_what_the_other_answers_with(
    fleet: Fleet, servers: Servers, pair: list[Server], tmp_path: Path, reference: Reference
) -> None:
    folder = write_tiny_adapter(tmp_path / "mine", seed=11)
    wanted = reference.greedy(PROMPT, 8, adapter=folder)
    await fleet.load_adapter("mine", str(folder))
    first, worker = pair[0], fleet.table.workers[0]

    async def ask() -> None:
        for n in range(4):
            reply = await fleet.generate(PROMPT, GREEDY, adapter="mine", request_id=f"r{n}")
            assert list(reply.ids) == wanted

    servers.kill(first)
    await ask()
    kept = shutil.move(folder, tmp_path / "kept")
    write_tiny_adapter(folder, seed=12)  # the file was overwritten: what is loaded anew is something else
    await asyncio.to_thread(servers.start, first)
    assert (await held(pair))[0] == set()
    await ask()
    worker.look_at = 0.0
    with suppress(EngineUnavailable):  # Engine 1 did not follow the others
        await fleet.load_adapter("mine", str(folder))  # as a repair does
    await ask()
    assert (worker.state, worker.fault.split(",")[0]) == (State.DOWN, "it holds mine")

    shutil.rmtree(folder)
    shutil.move(kept, folder)
    worker.look_at = 0.0
    await fleet.adapters()

    assert worker.state is State.UP
    assert await held(pair) == [{"mine"}, {"mine"}]
    said = reference.response_logprobs(PROMPT, (310, 194), adapter=folder)
    assert await of_each(pair, "mine") == [pytest.approx(said, abs=CLOSE)] * 2
    await ask()


@pytest.mark.parametrize("router", [pytest.param("router", marks=pytest.mark.sglang)], indirect=True)
async def test_the_router_passes_on_our_key_and_nothing_that_changes_a_server(router: str, pair: list[Server]) -> None:
    engine = EngineClient(router, api_key="wrong")
    with pytest.raises(KeyRefused):
        await engine.generate(PROMPT, GREEDY)
    await engine.aclose()

    routes = ("load_lora_adapter", "unload_lora_adapter", "update_weights_from_disk", "pause_generation")
    async with httpx.AsyncClient(base_url=router, headers={"Authorization": "Bearer admin"}, trust_env=False) as wire:
        for route in (*routes, "continue_generation", "abort_request"):
            assert (await wire.post(f"/{route}", json={})).status_code == 404
        for route in ("ready", "model_info", "server_info", "metrics"):
            assert (await wire.get(f"/{route}")).status_code == 404
