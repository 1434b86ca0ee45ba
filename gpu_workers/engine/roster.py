"""The roster keeps which engines of a fleet answer, and takes in again those that were away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from gpu_workers.engine.interface import Engine
from gpu_workers.engine.workers import State, Table, Worker
from gpu_workers.errors import (
    AdapterInvalid,
    AdapterMissing,
    AdapterNotApplied,
    EngineRefused,
    EngineUnavailable,
    WeightsExchanged,
)

log = logging.getLogger(__name__)

HEARD = tuple(range(3, 35))
"""Ids that every vocabulary has: what one engine says of them with an adapter another must say too."""

OFF = 0.25
"""How much of the change that an adapter makes at one engine may be missing, or be another, at one that has it loaded
too: of the sum of squares over the tokens. The base is all of it off, another adapter more."""

PRIORITY = 10
"""An engine that is taken in again is as urgent as a reply: people wait for both."""


class Roster:
    """Keep engines with the table of what each said last. One that fails gets no request until it answers again and was
    given the adapters that the others have loaded."""

    def __init__(self, engines: Mapping[Worker, Engine], table: Table) -> None:
        self.table = table
        self.engines = dict(engines)
        self._looks: dict[Worker, asyncio.Task[None]] = {}

    def cancel_looks(self) -> None:
        """End the looks of this event loop."""
        for look in self._looks.values():
            if look.get_loop() is asyncio.get_running_loop():
                look.cancel()

    def note_failure(self, worker: Worker, adapter: str | None, failure: Exception) -> None:
        if isinstance(failure, AdapterMissing):
            worker.adapters.pop(adapter or "", None)
            worker.state, worker.look_at = State.UNKNOWN, 0.0  # what else has it forgotten?
        elif worker.state is not State.DOWN:  # of many requests that it dropped at once the first says so
            log.warning("%s (%s) does not answer: %s", worker, worker.url, failure)
            self.table.failed(worker, str(failure))

    async def present(self) -> list[Worker]:
        """List the workers that answer now, each with what it says it has loaded. Raises EngineUnavailable when none
        does."""
        back = [worker for worker in self.table.workers if worker.state is not State.UP]
        await self.ask_again(self.table.up)
        await asyncio.gather(*self.look_at(back))
        if not self.table.up:
            raise EngineUnavailable("No engine answers.")
        return self.table.up

    async def ask_again(self, workers: Iterable[Worker]) -> None:
        async def ask(worker: Worker) -> None:
            try:
                self.table.answered(worker, *await self._ask_state(worker))
            except (EngineUnavailable, EngineRefused) as failure:
                self.table.failed(worker, str(failure))

        await asyncio.gather(*(ask(worker) for worker in workers))

    async def _ask_state(self, worker: Worker) -> tuple[dict[str, str], str]:
        engine = self.engines[worker]
        loaded, weights = await asyncio.gather(engine.adapters(), engine.serving())
        return loaded, weights

    def look_at(self, workers: Iterable[Worker]) -> list[asyncio.Task[None]]:
        """Start looks at these workers, one at a time each, that go on by themselves."""
        loop, tasks = asyncio.get_running_loop(), []
        for worker in workers:
            task = self._looks.get(worker)
            if task is None or task.done() or task.get_loop() is not loop:
                task = self._looks[worker] = loop.create_task(self._look(worker), name=f"look at {worker}")
            tasks.append(task)
        return tasks

    async def _look(self, worker: Worker) -> None:
        """Take a worker in again once it answers and has loaded what the others have."""
        engine, was = self.engines[worker], worker.state
        try:
            loaded, weights = await self._ask_state(worker)
            if was is State.DOWN and not await engine.ready():
                raise EngineUnavailable("It answers, and takes no requests yet.")
            if was is State.DOWN or worker.seen_at is not None:
                loaded = await self._level(worker, loaded)
        except (EngineUnavailable, EngineRefused) as failure:
            self.table.failed(worker, str(failure))
            return
        if was is State.DOWN:
            log.info("%s (%s) is back, with %d adapters", worker, worker.url, len(loaded))
        self.table.answered(worker, loaded, weights)

    async def _level(self, worker: Worker, loaded: dict[str, str]) -> dict[str, str]:
        """Give a worker that was away the adapters of the others, and unload there what they unloaded meanwhile.
        Returns what it has loaded then. Where it was alone it gets what it had before."""
        await self.ask_again(self.table.up)
        others = [other for other in self.table.up if other is not worker]
        wanted = {name: path for other in others for name, path in other.adapters.items()}
        if not others:
            wanted = worker.adapters | loaded
        engine = self.engines[worker]
        for name in loaded.keys() - wanted.keys():
            with suppress(AdapterMissing):
                await engine.unload_adapter(name)
        for name, path in wanted.items():
            if loaded.get(name) != path:
                with suppress(*(() if others else (AdapterInvalid,))):  # its folder may be gone by now
                    await engine.load_adapter(name, path)
            await self.compare_answers(worker, name, [other for other in others if name in other.adapters])
        holds = await engine.adapters()
        if others and (lacks := wanted.items() - holds.items()):
            name = min(lacks)[0]
            raise AdapterNotApplied(f"It said that it loaded {name}, and does not hold it.")
        return holds

    async def compare_answers(self, worker: Worker, adapter: str, others: Sequence[Worker]) -> None:
        """Compare what a worker that is to answer with an adapter says of some ids with what one says that does.

        Raises AdapterNotApplied, and unloads it there, where it does nothing, or something else. Each is measured from
        its own base. Where the bases are nearly as far apart as the adapter is from them nothing can be told, and the
        checkpoint's own proof follows (checkpoints.loading)."""
        if not others:
            return

        async def said(one: Worker) -> tuple[Sequence[float], Sequence[float]]:
            engine = self.engines[one]
            asked = (engine.score(HEARD[:8], HEARD[8:], adapter=name, priority=PRIORITY) for name in (adapter, None))
            with_it, without = await asyncio.gather(*asked)
            return with_it.logprobs, without.logprobs

        try:
            theirs, their_base = await said(others[0])
        except (EngineUnavailable, EngineRefused):  # there is nothing to compare it with
            return
        try:
            its, its_base = await said(worker)
        except WeightsExchanged:  # it serves others, and is asked for nothing else
            return
        change = [a - b for a, b in zip(theirs, their_base, strict=True)]
        size = sum(one * one for one in change)
        if OFF * size <= 4 * sum((a - b) ** 2 for a, b in zip(its_base, their_base, strict=True)):
            return
        seen = [a - b for a, b in zip(its, its_base, strict=True)]
        off = sum((a - b) ** 2 for a, b in zip(seen, change, strict=True)) / size
        if off > OFF:
            with suppress(AdapterMissing):
                await self.engines[worker].unload_adapter(adapter)  # so that the next look loads it anew
            raise AdapterNotApplied(
                f"it holds {adapter}, and what it says with it is {off:.0%} off what {others[0]} says."
            )
        log.info("%s answers with %s as %s does (%.1f%% off)", worker, adapter, others[0], 100 * off)
