"""Whatever befalls engines in whatever order, the fleet keeps what it promised."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gpu_workers.engine.workers import State
from gpu_workers.errors import (
    AdapterMissing,
    EngineRefused,
    EngineUnavailable,
)
from gpu_workers.types import Sampling
from tests.gpu_workers.engine.scene import Scene

PROMPT = tuple(range(100, 164))
SAMPLING = Sampling(max_new_tokens=2)


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
