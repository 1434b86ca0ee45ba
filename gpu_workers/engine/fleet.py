"""The fleet answers as one engine with several behind it.

A request goes to one of them; what changes an engine goes to all that answer, is confirmed by each, and is taken back
where one cannot follow. SGLang's router balances /generate and forwards none of the rest, so all of that is ours.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from time import monotonic
from typing import Any, TypeVar

from gpu_workers.engine.changes import Changes
from gpu_workers.engine.interface import Engine, PauseMode
from gpu_workers.engine.roster import Roster
from gpu_workers.engine.workers import State, Table, Worker
from gpu_workers.errors import (
    AdapterMissing,
    EngineUnavailable,
    NoRoom,
)
from gpu_workers.types import Choices, Completion, Delta, Sampling, Scored

Answer = TypeVar("Answer")

MIXED = "mixed"
"""What `serving` says while some engines serve other full weights than the rest."""


class Fleet:
    """Ask several engines with the same adapters and weights as one `Engine`.

    Every process has a table of its own: it is what this process saw last, never the truth, which the engines have.
    One that fails gets nothing more until it answers again and was given the adapters that the others have loaded.
    """

    def __init__(
        self,
        engines: Mapping[str, Engine],
        *,
        router: Engine | None = None,
        fill: int = 0,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """`engines` by address. With a `router` in front (SGLang's own) it, and not the table, picks who generates;
        with `fill` an engine has so many requests before the next one gets any."""
        self.table = Table(list(engines), fill=fill, clock=clock)
        self.url = self.table.workers[0].url
        self.spare = None  # the others are: a worker that still serves what is asked for answers it
        self.router = router
        self._roster = Roster(dict(zip(self.table.workers, engines.values(), strict=True)), self.table)
        self._changes = Changes(self._roster)
        self._asked: dict[str, Worker] = {}  # who answers the request of this id

    @property
    def failures(self) -> int:
        """How often no server answered: behind each may stand a server that was started again, and forgot all."""
        return sum(engine.failures for engine in self._roster.engines.values())

    # One of them

    async def generate(
        self,
        prompt_ids: Sequence[int],
        sampling: Sampling,
        *,
        adapter: str | None = None,
        request_id: str | None = None,
        priority: int = 0,
        pictures: Sequence[str] = (),
    ) -> Completion:
        options: dict[str, Any] = {"adapter": adapter, "request_id": request_id, "priority": priority}
        options |= {"pictures": pictures} if pictures else {}

        async def ask(engine: Engine) -> Completion:
            return await engine.generate(prompt_ids, sampling, **options)

        if self.router is not None and await self._are_alike(adapter):
            try:
                return await ask(self.router)
            except (AdapterMissing, EngineUnavailable):  # it is gone, or asked an engine that is, or lacks this
                await self._roster.ask_again(self.table.up)
        return await self._one(ask, adapter, prompt_ids, request_id)

    async def score(
        self,
        prompt_ids: Sequence[int],
        response_ids: Sequence[int],
        *,
        adapter: str | None = None,
        priority: int = 0,
        top: int = 0,
    ) -> Scored:
        async def ask(engine: Engine) -> Scored:
            return await engine.score(prompt_ids, response_ids, adapter=adapter, priority=priority, top=top)

        return await self._one(ask, adapter, prompt_ids)

    async def score_choices(
        self,
        prompt_ids: Sequence[int],
        choice_ids: Sequence[int],
        *,
        adapter: str | None = None,
        priority: int = 0,
    ) -> Choices:
        async def ask(engine: Engine) -> Choices:
            return await engine.score_choices(prompt_ids, choice_ids, adapter=adapter, priority=priority)

        return await self._one(ask, adapter, prompt_ids)

    async def stream(
        self,
        prompt_ids: Sequence[int],
        sampling: Sampling,
        *,
        adapter: str | None = None,
        request_id: str | None = None,
        priority: int = 0,
        pictures: Sequence[str] = (),
    ) -> AsyncGenerator[Delta, None]:
        """As Engine.stream. Another engine is asked only while nothing was said yet: a reply has one author."""
        options: dict[str, Any] = {"adapter": adapter, "request_id": request_id, "priority": priority}
        options |= {"pictures": pictures} if pictures else {}
        has_begun = False
        if self.router is not None and await self._are_alike(adapter):
            try:
                async with aclosing(self.router.stream(prompt_ids, sampling, **options)) as deltas:
                    async for delta in deltas:
                        has_begun = True
                        yield delta
                return
            except (AdapterMissing, EngineUnavailable):
                await self._roster.ask_again(self.table.up)
                if has_begun:
                    raise
        tried: list[Worker] = []
        while True:
            worker = await self._choose(adapter, prompt_ids, tried)
            tried.append(worker)
            said: list[int] = []
            try:
                asked = self._roster.engines[worker].stream(prompt_ids, sampling, **options)
                async with self._busy(worker, adapter, prompt_ids, request_id), aclosing(asked) as deltas:
                    async for delta in deltas:
                        said += delta.ids
                        has_begun = True
                        yield delta
                self.table.has_read(worker, adapter, [*prompt_ids, *said])
                return
            except NoRoom:
                raise
            except (EngineUnavailable, AdapterMissing) as failure:
                self._roster.note_failure(worker, adapter, failure)
                if has_begun:
                    raise

    # All of them

    async def load_adapter(self, name: str, path: str) -> None:
        """Load it on every engine. Raises AdapterInvalid where none can serve the files. Where only some cannot, the
        rest unload it again and EngineUnavailable names one of them. Asked once more, the rest go on without those,
        which then get nothing until they can."""
        await self._changes.load_adapter(name, path)

    async def unload_adapter(self, name: str) -> None:
        """Unload it on every engine. Raises AdapterMissing where none has it loaded."""
        await self._changes.unload_adapter(name)

    async def update_weights(self, path: str, *, version: str) -> None:
        """Change one engine after the other, so that the rest answer meanwhile. Raises AdapterInvalid where one refuses
        the files; those before it then serve again what they served."""
        await self._changes.update_weights(path, version=version)

    async def pause(self, mode: PauseMode = "retract") -> None:
        await self._changes.pause(mode)

    async def resume(self) -> None:
        """Resume every engine that answers, whatever another says."""
        await self._changes.resume()

    async def flush(self) -> None:
        await self._changes.flush()

    async def adapters(self) -> dict[str, str]:
        """List the adapters that every engine has loaded that answers: name to folder."""
        present = await self._roster.present()
        shared = set.intersection(*(set(worker.adapters.items()) for worker in present))
        return dict(sorted(shared))

    async def loaded_adapters(self) -> dict[str, str]:
        """List the adapters that any engine has loaded that answers, so that what one of them kept can be unloaded."""
        return {name: path for worker in await self._roster.present() for name, path in worker.adapters.items()}

    async def serving(self) -> str:
        """Name the full weights that all engines serve; empty for the base, MIXED while they differ."""
        served = {worker.weights for worker in await self._roster.present()}
        return served.pop() if len(served) == 1 else MIXED

    async def abort(self, request_id: str) -> None:
        """End this request with what it has, wherever it is; another process may have asked for it."""
        worker = self._asked.get(request_id)
        likely = self.table.workers if self.router is not None else self.table.up  # it may have asked any of them
        asked = [worker] if worker is not None else likely or self.table.workers
        answers = await asyncio.gather(
            *(self._roster.engines[one].abort(request_id) for one in asked), return_exceptions=True
        )
        self._changes.settle(zip(asked, answers, strict=True))

    # What they say of themselves

    async def ready(self) -> bool:
        """True when any engine takes new requests. Never raises."""
        return any(await asyncio.gather(*(engine.ready() for engine in self._roster.engines.values())))

    async def info(self) -> dict[str, Any]:
        return await self._one(lambda engine: engine.info(), None)

    async def server_info(self) -> dict[str, Any]:
        return await self._one(lambda engine: engine.server_info(), None)

    async def metrics(self) -> dict[str, float]:
        """Sum the metrics of all engines that answer."""
        sums: dict[str, float] = {}
        answers = await asyncio.gather(
            *(one.metrics() for one in self._roster.engines.values()), return_exceptions=True
        )
        for samples in answers:
            if isinstance(samples, BaseException):
                continue
            for name, value in samples.items():
                sums[name] = sums.get(name, 0.0) + value
        return sums

    async def members(self) -> list[tuple[Worker, Engine]]:
        """Each engine that answers now, for what is to be asked of every one of them. Raises EngineUnavailable."""
        return [(worker, self._roster.engines[worker]) for worker in await self._roster.present()]

    def everyone(self) -> list[tuple[Worker, Engine]]:
        """Each engine, whether it answers or not."""
        return list(self._roster.engines.items())

    async def aclose(self) -> None:
        """Close this event loop's connections."""
        self._roster.cancel_looks()
        every = [*self._roster.engines.values(), *([self.router] if self.router else [])]
        await asyncio.gather(*(engine.aclose() for engine in every))

    # How it does that

    async def _one(
        self,
        ask: Callable[[Engine], Awaitable[Answer]],
        adapter: str | None,
        prompt_ids: Sequence[int] = (),
        request_id: str | None = None,
    ) -> Answer:
        """Ask engines until one answers: one that is gone, or lacks the adapter after all, is passed over."""
        tried: list[Worker] = []
        while True:
            worker = await self._choose(adapter, prompt_ids, tried)
            tried.append(worker)
            try:
                async with self._busy(worker, adapter, prompt_ids, request_id):
                    answer = await ask(self._roster.engines[worker])
            except NoRoom:
                raise
            except (EngineUnavailable, AdapterMissing) as failure:
                self._roster.note_failure(worker, adapter, failure)
                continue
            if isinstance(answer, Completion):
                self.table.has_read(worker, adapter, [*prompt_ids, *answer.ids])
            return answer

    @asynccontextmanager
    async def _busy(
        self, worker: Worker, adapter: str | None, prompt_ids: Sequence[int], request_id: str | None
    ) -> AsyncGenerator[None, None]:
        if request_id:
            self._asked[request_id] = worker
        try:
            with self.table.answering(worker, adapter, prompt_ids):
                yield
        finally:
            if request_id:
                self._asked.pop(request_id, None)

    async def _are_alike(self, adapter: str | None) -> bool:
        """Whether it is all the same who answers this, so that a router may choose: all are up, and have the adapter.
        One that is being repaired is then asked by no caller."""
        new = [one for one in self.table.workers if one.state is State.UNKNOWN and one.seen_at is None]
        self._roster.look_at(self.table.due())
        await asyncio.gather(*self._roster.look_at(new))
        return all(worker.state is State.UP and worker.has(adapter) for worker in self.table.workers)

    async def _choose(self, adapter: str | None, prompt_ids: Sequence[int], tried: Sequence[Worker]) -> Worker:
        """Choose the worker that answers. Those that failed are looked at meanwhile, and waited for only where no other
        can."""
        looks = self._roster.look_at(self.table.due())
        if (worker := self.table.choose(adapter, prompt_ids, tried)) is not None:
            return worker
        if looks:
            await asyncio.gather(*looks)
        if (worker := self.table.choose(adapter, prompt_ids, tried)) is not None:
            return worker
        await self._roster.ask_again(
            [worker for worker in self.table.up if worker not in tried]
        )  # another process loaded it
        if (worker := self.table.choose(adapter, prompt_ids, tried)) is not None:
            return worker
        if not self.table.up:
            raise EngineUnavailable("No engine answers.")
        raise AdapterMissing(f"No engine that answers holds {adapter or 'the base'}.")


async def members(engine: Engine | Fleet) -> list[Engine]:
    """List the servers behind `engine` that answer, for a proof that each of them has to give."""
    return [one for _, one in await engine.members()] if isinstance(engine, Fleet) else [engine]


async def loaded_adapters(engine: Engine | Fleet) -> dict[str, str]:
    """List the adapters that any server behind `engine` has loaded."""
    return await (engine.loaded_adapters() if isinstance(engine, Fleet) else engine.adapters())
