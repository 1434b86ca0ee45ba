"""Several engines behave as one: what one holds all hold, and what one lacks it is not asked for."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from gpu_workers.engine import fleet as fleets
from gpu_workers.engine.engine_client import EngineClient
from gpu_workers.engine.fleet import MIXED
from gpu_workers.engine.interface import Engine
from gpu_workers.engine.workers import LOOK_S, MOST_AHEAD, Prefixes, State
from gpu_workers.errors import (
    AdapterInvalid,
    AdapterMissing,
    EngineUnavailable,
    NoRoom,
)
from gpu_workers.types import Completion, Sampling
from tests.gpu_workers.engine.scene import Scene, Server

PROMPT = tuple(range(100, 164))
SAMPLING = Sampling(max_new_tokens=2)


async def test_what_is_loaded_is_held_by_every_engine(scene: Scene) -> None:
    await scene.fleet.load_adapter("a", "/a")

    assert [server.loaded for server in scene.servers] == [{"a": "/a"}] * 3
    assert await scene.fleet.adapters() == {"a": "/a"}

    await scene.fleet.unload_adapter("a")
    assert [server.loaded for server in scene.servers] == [{}] * 3
    with pytest.raises(AdapterMissing):
        await scene.fleet.unload_adapter("a")


async def test_where_one_engine_cannot_load_the_others_let_go_and_it_is_named(scene: Scene) -> None:
    scene.servers[1].refuses = True

    with pytest.raises(EngineUnavailable, match="Engine 2 did not follow the others: a cannot be served"):
        await scene.fleet.load_adapter("a", "/a")

    assert [server.loaded for server in scene.servers] == [{}] * 3
    assert scene.states() == [State.UP, State.DOWN, State.UP]  # and nothing is sent to it
    await scene.fleet.load_adapter("a", "/a")  # a second try goes on without it
    assert [server.loaded for server in scene.servers] == [{"a": "/a"}, {}, {"a": "/a"}]
    assert scene.states() == [State.UP, State.DOWN, State.UP]

    scene.servers[1].refuses = False
    assert await scene.fleet.adapters() == {"a": "/a"}
    assert (scene.servers[1].loaded, scene.states()) == ({"a": "/a"}, [State.UP] * 3)


async def test_files_that_no_engine_can_load_are_at_fault_themselves(scene: Scene) -> None:
    for server in scene.servers:
        server.refuses = True

    with pytest.raises(AdapterInvalid, match="Engine 1: a cannot be served"):
        await scene.fleet.load_adapter("a", "/a")
    assert scene.states() == [State.UP] * 3


async def test_an_engine_that_says_yes_and_does_nothing_is_found_out(scene: Scene) -> None:
    scene.servers[2].lies = True

    with pytest.raises(EngineUnavailable, match="Engine 3 did not follow the others: it said that it loaded a"):
        await scene.fleet.load_adapter("a", "/a")

    assert [server.loaded for server in scene.servers] == [{}] * 3
    assert scene.states() == [State.UP, State.UP, State.DOWN]


async def test_where_one_is_full_nothing_is_loaded_anywhere_so_that_room_can_be_made(scene: Scene) -> None:
    scene.servers[0].room = 0

    with pytest.raises(NoRoom, match="Engine 1: 0 adapters are loaded"):
        await scene.fleet.load_adapter("a", "/a")
    assert (scene.servers[1].loaded, scene.states()) == ({}, [State.UP] * 3)


async def test_an_adapter_is_asked_for_only_where_it_is_held(scene: Scene) -> None:
    await scene.servers[1].load_adapter("a", "/a")  # by another process

    for _ in range(4):
        await scene.fleet.generate(PROMPT, SAMPLING, adapter="a")

    assert [server.answered for server in scene.servers] == [[], ["a"] * 4, []]


async def test_one_that_died_is_passed_over_and_repaired_before_it_is_asked_again(scene: Scene) -> None:
    await scene.fleet.load_adapter("a", "/a")
    scene.servers[0].dies()
    await scene.fleet.generate(PROMPT, SAMPLING, adapter="a")
    assert scene.states() == [State.DOWN, State.UP, State.UP]
    await scene.fleet.unload_adapter("a")
    await scene.fleet.load_adapter("b", "/b")

    scene.servers[0].is_down = False  # cut off, not restarted: it still holds what the others let go of
    scene.clock.now += LOOK_S
    assert await scene.fleet.adapters() == {"b": "/b"}

    assert scene.servers[0].loaded == {"b": "/b"}
    assert scene.states() == [State.UP] * 3
    assert scene.fleet.table.workers[0].fault == "The engine does not answer."  # kept, for an operator who asks


async def test_one_that_is_back_and_answers_with_the_base_under_an_adapters_name_gets_nothing(scene: Scene) -> None:
    await scene.fleet.load_adapter("a", "/a")
    first = scene.servers[0]
    first.dies()
    await scene.fleet.generate(PROMPT, SAMPLING, adapter="a")
    first.starts_empty()
    first.forgets.add("a")
    scene.clock.now += LOOK_S

    assert await scene.fleet.adapters() == {"a": "/a"}
    await scene.fleet.generate(PROMPT, SAMPLING, adapter="a")

    assert (scene.states()[0], first.answered) == (State.DOWN, [])
    assert scene.fleet.table.workers[0].fault == "it holds a, and what it says with it is 100% off what Engine 2 says."

    first.forgets.clear()
    scene.clock.now += 100
    await scene.fleet.adapters()
    assert (scene.states()[0], first.told.count("load a")) == (State.UP, 3)  # at first, and anew each time


async def test_one_that_forgot_an_adapter_unseen_is_given_it_and_held_to_the_others(scene: Scene) -> None:
    await scene.fleet.load_adapter("a", "/a")
    first = scene.servers[0]
    first.starts_empty()
    first.forgets.add("a")

    with pytest.raises(EngineUnavailable, match="Engine 1 did not follow the others"):
        await scene.fleet.load_adapter("a", "/a")  # as repairs.repair does

    await scene.fleet.generate(PROMPT, SAMPLING, adapter="a")
    assert [server.answered for server in scene.servers] == [[], ["a"], []]


async def test_an_engine_that_drops_many_requests_at_once_has_failed_once(scene: Scene) -> None:
    first, gate = scene.servers[0], asyncio.Event()
    await scene.fleet.adapters()

    async def dropped(*said: Any, **options: Any) -> Completion:
        first.answered.append(None)
        await gate.wait()
        raise EngineUnavailable("The engine does not answer.")

    first.generate = dropped  # type: ignore[method-assign]
    asked = [asyncio.create_task(scene.fleet.generate((*PROMPT, n), SAMPLING)) for n in range(3)]
    while len(first.answered) < 3:  # all go where their beginning was read
        await asyncio.sleep(0)
    gate.set()
    assert [(await one).text for one in asked] == ["ok"] * 3

    worker = scene.fleet.table.workers[0]
    assert (worker.failures, worker.look_at) == (1, LOOK_S)


async def test_one_that_was_restarted_unseen_is_found_by_its_first_answer(scene: Scene) -> None:
    await scene.fleet.load_adapter("a", "/a")
    scene.servers[0].starts_empty()

    await scene.fleet.generate(PROMPT, SAMPLING, adapter="a")
    assert [server.answered for server in scene.servers] == [[], ["a"], []]

    await scene.fleet.adapters()
    assert scene.servers[0].loaded == {"a": "/a"}


async def test_all_that_died_at_once_come_back_with_what_they_held(scene: Scene) -> None:
    await scene.fleet.load_adapter("a", "/a")
    for server in scene.servers:
        server.dies()
    with pytest.raises(EngineUnavailable):
        await scene.fleet.generate(PROMPT, SAMPLING, adapter="a")

    for server in scene.servers:
        server.starts_empty()
    scene.clock.now += LOOK_S

    assert (await scene.fleet.generate(PROMPT, SAMPLING, adapter="a")).text == "ok"


async def test_engines_that_are_to_be_filled_get_requests_one_after_the_other() -> None:
    scene = Scene(fill=2)
    workers = scene.fleet.table.workers

    async def asked() -> list[int]:
        await scene.fleet.generate(PROMPT, SAMPLING)
        return [len(server.answered) for server in scene.servers]

    assert await asked() == [1, 0, 0]
    workers[0].busy = 1
    workers[1].busy = 1
    assert await asked() == [2, 0, 0]
    workers[0].busy = 2
    assert await asked() == [2, 1, 0]
    workers[1].busy = workers[2].busy = 2
    workers[0].busy = 3 + MOST_AHEAD  # all are full: where this was read there are too many before it
    assert await asked() == [2, 2, 0]


async def test_a_conversation_stays_where_it_was_read_and_others_go_to_the_idlest() -> None:
    scene = Scene(2)
    first, second = PROMPT, tuple(range(300, 364))
    scene.servers[0].gate.clear()
    asked = asyncio.create_task(scene.fleet.generate(first, SAMPLING, adapter=None))
    while not scene.servers[0].answered:
        await asyncio.sleep(0)
    await scene.fleet.generate(second, SAMPLING, adapter=None)  # engine 1 is busy
    assert [len(server.answered) for server in scene.servers] == [1, 1]
    scene.servers[0].gate.set()
    await asked

    await scene.fleet.generate((*second, 7, 2, 1, 1), SAMPLING)
    await scene.fleet.generate((*first, 7, 2, 1, 1), SAMPLING)
    assert [len(server.answered) for server in scene.servers] == [2, 2]

    # An engine with far more to do than another is not asked for the sake of what it remembers.
    scene.fleet.table.workers[1].busy = MOST_AHEAD + 1
    await scene.fleet.generate((*second, 7, 2, 1, 1), SAMPLING)
    assert [len(server.answered) for server in scene.servers] == [3, 2]


def test_beginnings_are_remembered_by_adapter_and_the_oldest_go_first() -> None:
    prefixes = Prefixes(room=4)
    prefixes.keep(PROMPT, "a", 2)  # 64 tokens are four blocks

    assert prefixes.find(PROMPT[:40], "a") == (2, 32 / 40)  # whole blocks alone are recognised
    assert prefixes.find(PROMPT, None) == (None, 0.0)
    prefixes.keep(range(500, 516), None, 1)
    assert prefixes.find(PROMPT, "a") == (None, 0.0)  # its first block was the oldest


async def test_a_stream_changes_engines_only_before_its_first_word(scene: Scene) -> None:
    await scene.fleet.load_adapter("a", "/a")
    scene.servers[0].dies()
    pieces = [piece async for piece in scene.fleet.stream(PROMPT, SAMPLING, adapter="a")]
    assert "".join(piece.text for piece in pieces) == "ok"

    scene.servers[1].breaks_off = True
    broken = scene.fleet.stream(PROMPT, SAMPLING, adapter="a")
    assert (await anext(broken)).text == "o"
    with pytest.raises(EngineUnavailable):
        await anext(broken)
    assert scene.servers[2].answered == []


async def test_new_weights_go_from_engine_to_engine_and_back_where_one_refuses(scene: Scene) -> None:
    await scene.fleet.update_weights("/w/1", version="full:one")
    assert await scene.fleet.serving() == "full:one"

    scene.servers[2].refuses = True
    with pytest.raises(AdapterInvalid, match="Engine 3: /w/2 cannot be served"):
        await scene.fleet.update_weights("/w/2", version="full:two")

    assert [(server.version, server.folder) for server in scene.servers] == [("full:one", "/w/1")] * 3


async def test_each_request_goes_to_an_engine_with_the_weights_that_it_names(scene: Scene) -> None:
    await scene.fleet.update_weights("/w/1", version="full:one")
    scene.servers[1].starts_empty()  # back with the base

    assert await scene.fleet.serving() == MIXED
    await scene.fleet.generate(PROMPT, SAMPLING, adapter="full:one")
    await scene.fleet.generate(PROMPT, SAMPLING)
    assert [server.answered for server in scene.servers] == [["full:one"], [None], []]
    with pytest.raises(AdapterMissing):
        await scene.fleet.generate(PROMPT, SAMPLING, adapter="full:two")


async def test_a_pause_that_one_did_not_take_delays_no_other(scene: Scene) -> None:
    await scene.fleet.pause()
    assert [server.is_paused for server in scene.servers] == [True] * 3
    assert not await scene.fleet.ready()
    await scene.fleet.resume()

    scene.servers[1].lies = True
    with pytest.raises(EngineUnavailable, match="Engine 2 did not follow the others: it said that it paused"):
        await scene.fleet.pause()
    assert [server.is_paused for server in scene.servers] == [False] * 3


async def test_every_engine_can_be_asked_for_its_own_proof(scene: Scene) -> None:
    scene.servers[1].dies()

    assert [id(one) for one in await fleets.members(scene.fleet)] == [id(scene.servers[0]), id(scene.servers[2])]
    single = EngineClient("http://engine.internal")
    assert await fleets.members(single) == [single]


async def test_what_one_alone_kept_can_still_be_let_go_of(scene: Scene) -> None:
    await scene.servers[2].load_adapter("left", "/left")

    assert (await scene.fleet.adapters(), await fleets.loaded_adapters(scene.fleet)) == ({}, {"left": "/left"})
    await scene.fleet.unload_adapter("left")
    assert await fleets.loaded_adapters(scene.fleet) == {}


async def test_a_request_is_ended_where_it_is(scene: Scene) -> None:
    scene.servers[0].gate.clear()
    asked = asyncio.create_task(scene.fleet.generate(PROMPT, SAMPLING, request_id="r"))
    while not scene.servers[0].answered:
        await asyncio.sleep(0)
    await scene.fleet.abort("r")
    assert [server.told for server in scene.servers] == [["abort r"], [], []]
    scene.servers[0].gate.set()
    await asked

    await scene.fleet.abort("r")  # no worker here knows it: another process may have asked
    assert [server.told.count("abort r") for server in scene.servers] == [2, 1, 1]


async def test_a_router_is_asked_and_passed_over_where_its_choice_lacks_the_adapter() -> None:
    router = Server()
    scene = Scene(2, router=cast(Engine, router))
    await scene.fleet.load_adapter("a", "/a")
    router.loaded["a"] = "/a"
    await scene.fleet.generate(PROMPT, SAMPLING, adapter="a")
    assert (router.answered, scene.servers[0].answered) == (["a"], [])

    router.loaded.clear()
    await scene.fleet.generate(PROMPT, SAMPLING, adapter="a")
    router.dies()
    assert [piece.text async for piece in scene.fleet.stream(PROMPT, SAMPLING, adapter="a")] == ["o", "k"]
    assert sum(len(server.answered) for server in scene.servers) == 2


async def test_a_router_chooses_only_while_all_engines_are_up_and_have_what_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    router = Server()
    scene = Scene(2, router=cast(Engine, router))
    await scene.fleet.load_adapter("a", "/a")
    router.loaded["a"] = "/a"
    scene.servers[1].starts_empty()

    async def lacks(*said: Any, **options: Any) -> Completion:
        router.answered.append("missing")
        raise AdapterMissing("The engine that the router asked does not hold a.")

    with monkeypatch.context() as patch:
        patch.setattr(router, "generate", lacks)
        await scene.fleet.generate(PROMPT, SAMPLING, adapter="a")  # the second says so: from now on it is known
    await scene.fleet.generate(PROMPT, SAMPLING, adapter="a")
    await scene.fleet.generate(PROMPT, SAMPLING)
    assert (router.answered, scene.servers[0].answered) == (["missing", None], ["a", "a"])

    await scene.fleet.load_adapter("a", "/a")
    await scene.fleet.generate(PROMPT, SAMPLING, adapter="a")
    assert router.answered == ["missing", None, "a"]


async def test_what_a_router_may_have_asked_of_any_worker_is_ended_everywhere() -> None:
    scene = Scene(2, router=cast(Engine, Server()))
    await scene.fleet.adapters()
    scene.fleet.table.failed(scene.fleet.table.workers[1], "It was slow.")

    await scene.fleet.abort("r")

    assert [server.told for server in scene.servers] == [["abort r"], ["abort r"]]
