"""Several engines behave as one: what one holds all hold, and what one lacks it is not asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gpu_workers.engine import fleet as fleets
from gpu_workers.engine.engine_client import EngineClient
from gpu_workers.engine.fleet import MIXED, Fleet
from gpu_workers.engine.interface import Engine
from gpu_workers.engine.stamps import weights_in
from gpu_workers.engine.workers import LOOK_S, MOST_AHEAD, Prefixes, State
from gpu_workers.errors import (
    AdapterInvalid,
    AdapterMissing,
    EngineRefused,
    EngineUnavailable,
    NoRoom,
    WeightsExchanged,
)
from gpu_workers.types import Completion, Delta, Sampling, Scored

PROMPT = tuple(range(100, 164))
SAMPLING = Sampling(max_new_tokens=2)


class Server:
    """What one engine would say: it answers in the name of what it holds, and fails as it is told to."""

    def __init__(self) -> None:
        self.loaded: dict[str, str] = {}
        self.version = "base"
        self.folder = "/models/base"
        self.is_down = self.refuses = self.lies = self.is_paused = False
        self.room = 100
        self.failures = 0
        self.answered: list[str | None] = []  # adapters it answered with
        self.told: list[str] = []
        self.breaks_off = False
        self.forgets: set[str] = set()  # adapters that it holds and does not answer with
        self.gate = asyncio.Event()
        self.gate.set()

    def dies(self) -> None:
        self.is_down = True

    def starts_empty(self) -> None:
        self.is_down, self.is_paused, self.version, self.folder = False, False, "base", "/models/base"
        self.loaded.clear()

    def _alive(self) -> None:
        if self.is_down:
            self.failures += 1
            raise EngineUnavailable("The engine does not answer.")

    def _has(self, adapter: str | None) -> None:
        self._alive()
        if weights_in(adapter or "") != weights_in(self.version):
            raise WeightsExchanged("The engine serves others.")
        if adapter and not weights_in(adapter) and adapter not in self.loaded:
            raise AdapterMissing(f"The engine does not hold {adapter}.")

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, **options: Any) -> Completion:
        self._has(options["adapter"])
        self.answered.append(options["adapter"])
        await self.gate.wait()
        return Completion(
            text="ok", ids=(7, 2), logprobs=(-1.0, -1.0), finish_reason="stop", prompt_tokens=len(prompt_ids)
        )

    async def stream(
        self, prompt_ids: Sequence[int], sampling: Sampling, **options: Any
    ) -> AsyncGenerator[Delta, None]:
        self._has(options["adapter"])
        self.answered.append(options["adapter"])
        yield Delta(text="o", ids=(7,), logprobs=(-1.0,))
        if self.breaks_off:
            raise EngineUnavailable("The engine ended the reply before it was finished.")
        yield Delta(text="k", ids=(2,), logprobs=(-1.0,), finish_reason="stop")

    async def score(self, prompt_ids: Sequence[int], response_ids: Sequence[int], **options: Any) -> Scored:
        adapter = options["adapter"]
        self._has(adapter)
        said = -2.0 if adapter and adapter not in self.forgets else -1.0
        return Scored(tuple(response_ids), tuple(said for _ in response_ids))

    async def load_adapter(self, name: str, path: str) -> None:
        self._alive()
        self.told.append(f"load {name}")
        if self.refuses:
            raise AdapterInvalid(f"{name} cannot be served (scripted).")
        if name not in self.loaded and len(self.loaded) >= self.room:
            raise NoRoom(f"{len(self.loaded)} adapters are loaded, and no more fit.")
        if not self.lies:
            self.loaded[name] = path

    async def unload_adapter(self, name: str) -> None:
        self._alive()
        self.told.append(f"unload {name}")
        if name not in self.loaded:
            raise AdapterMissing(f"The engine does not hold {name}.")
        if not self.lies:
            del self.loaded[name]

    async def adapters(self) -> dict[str, str]:
        self._alive()
        return dict(self.loaded)

    async def update_weights(self, path: str, *, version: str) -> None:
        self._alive()
        self.told.append(f"weights {version}")
        if self.refuses:
            raise AdapterInvalid(f"{path} cannot be served (scripted).")
        self.folder, self.version = path, version

    async def serving(self) -> str:
        self._alive()
        return weights_in(self.version)

    async def info(self) -> dict[str, Any]:
        self._alive()
        return {"model_path": self.folder, "weight_version": self.version}

    async def pause(self, mode: str = "retract") -> None:
        self._alive()
        self.is_paused = not self.lies

    async def resume(self) -> None:
        self._alive()
        self.is_paused = False

    async def abort(self, request_id: str) -> None:
        self._alive()
        self.told.append(f"abort {request_id}")

    async def flush(self) -> None:
        self._alive()
        if self.refuses:
            raise EngineRefused("Flush cache failed.")

    async def ready(self) -> bool:
        return not self.is_down and not self.is_paused

    async def metrics(self) -> dict[str, float]:
        self._alive()
        return {"num_running_reqs": 2.0}

    async def aclose(self) -> None:
        pass


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Scene:
    """A fleet of three scripted servers, and its clock."""

    def __init__(self, count: int = 3, **options: Any) -> None:
        self.servers = [Server() for _ in range(count)]
        self.clock = Clock()
        engines = {f"http://engine-{n}": cast(Engine, server) for n, server in enumerate(self.servers, 1)}
        self.fleet = Fleet(engines, clock=self.clock, **options)

    def states(self) -> list[State]:
        return [worker.state for worker in self.fleet.table.workers]


@pytest.fixture
async def scene() -> Scene:
    return Scene()


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


class Fates(RuleBasedStateMachine):
    """Engines die, come back empty, refuse and lie at any moment; what the fleet says of itself stays true."""

    names = st.sampled_from(["a", "b", "c"])
    who = st.integers(0, 2)

    @initialize()
    def begin(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.scene = Scene()
        self.loaded: set[str] = set()  # what a call said is loaded, and none since that it is not

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            self.loop.close()

    def run(self, work: Callable[[], Any]) -> Any:
        return self.loop.run_until_complete(work())

    @rule(name=names)
    def load(self, name: str) -> None:
        before = [set(server.loaded) for server in self.scene.servers]
        try:
            self.run(lambda: self.scene.fleet.load_adapter(name, f"/{name}"))
        except (EngineUnavailable, EngineRefused):
            if name not in self.loaded:  # undone, wherever it could be
                for server, loaded in zip(self.scene.servers, before, strict=True):
                    assert server.is_down or server.lies or name not in server.loaded or name in loaded
            return
        self.loaded.add(name)
        assert all(self.scene.servers[w.number - 1].loaded.get(name) == f"/{name}" for w in self.scene.fleet.table.up)

    @rule(name=names)
    def unload(self, name: str) -> None:
        try:
            self.run(lambda: self.scene.fleet.unload_adapter(name))
        except AdapterMissing:
            self.loaded.discard(name)
            return
        except (EngineUnavailable, EngineRefused):
            return
        self.loaded.discard(name)
        assert all(name not in self.scene.servers[worker.number - 1].loaded for worker in self.scene.fleet.table.up)

    @rule(name=names)
    def ask(self, name: str) -> None:
        able = [server for server in self.scene.servers if not server.is_down and name in server.loaded]
        before = [len(server.answered) for server in self.scene.servers]
        try:
            self.run(lambda: self.scene.fleet.generate(PROMPT, SAMPLING, adapter=name))
        except AdapterMissing:
            honest = [server for server in able if not server.lies and not server.refuses and not server.is_paused]
            known = [self.scene.fleet.table.workers[self.scene.servers.index(server)] for server in honest]
            assert not [worker for worker in known if worker.state is State.UP]
        except EngineUnavailable:
            assert not self.scene.fleet.table.up
        else:  # one engine answered, and it was one that holds it
            after = [len(server.answered) for server in self.scene.servers]
            [answered] = [s for s, one, two in zip(self.scene.servers, before, after, strict=True) if two > one]
            assert name in answered.loaded

    @rule(n=who)
    def die(self, n: int) -> None:
        self.scene.servers[n].dies()

    @rule(n=who)
    def come_back_empty(self, n: int) -> None:
        self.scene.servers[n].starts_empty()

    @rule(n=who, refuses=st.booleans(), lies=st.booleans())
    def change_heart(self, n: int, refuses: bool, lies: bool) -> None:
        self.scene.servers[n].refuses, self.scene.servers[n].lies = refuses, lies

    @rule()
    def time_passes(self) -> None:
        self.scene.clock.now += 100

    @precondition(lambda self: hasattr(self, "scene"))
    @rule()
    def all_recover(self) -> None:
        """Once every engine is well again, one look is enough: all hold the same, and what any of them loaded."""
        for server in self.scene.servers:
            server.is_down = server.refuses = server.lies = False
        self.scene.clock.now += 100
        loaded = self.run(lambda: self.scene.fleet.adapters())
        assert self.scene.states() == [State.UP] * 3
        for name in self.loaded & set.intersection(*(set(server.loaded) for server in self.scene.servers)):
            assert loaded[name] == f"/{name}"

    @invariant()
    def no_server_is_busy(self) -> None:
        if hasattr(self, "scene"):
            assert [worker.busy for worker in self.scene.fleet.table.workers] == [0, 0, 0]


TestFates = Fates.TestCase
TestFates.settings = settings(max_examples=25, stateful_step_count=20)
