"""A fleet of engines that tests make and break."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any, cast

from gpu_workers.engine.fleet import Fleet
from gpu_workers.engine.interface import Engine
from gpu_workers.engine.stamps import weights_in
from gpu_workers.engine.workers import State
from gpu_workers.errors import (
    AdapterInvalid,
    AdapterMissing,
    EngineRefused,
    EngineUnavailable,
    NoRoom,
    WeightsExchanged,
)
from gpu_workers.types import Completion, Delta, Sampling, Scored


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
