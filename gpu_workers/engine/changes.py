"""Changes reach every engine of a fleet, are confirmed by each, and are taken back where one cannot follow."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Any

from gpu_workers.engine.interface import PauseMode
from gpu_workers.engine.roster import Roster
from gpu_workers.engine.stamps import weights_in
from gpu_workers.engine.workers import State, Worker
from gpu_workers.errors import (
    AdapterMissing,
    AdapterNotApplied,
    EngineRefused,
    EngineUnavailable,
    NoRoom,
)


class Changes:
    """Load adapters and weights, pause and resume: on all engines that answer, or on none."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster

    async def load_adapter(self, name: str, path: str) -> None:
        """Load it on every engine. Raises AdapterInvalid where none can serve the files. Where only some cannot, the
        rest unload it again and EngineUnavailable names one of them. Asked once more, the rest go on without those,
        which then get nothing until they can."""

        present = await self._roster.present()
        holders = [worker for worker in present if worker.adapters.get(name) == str(path)]

        async def load(worker: Worker) -> bool:
            if worker.adapters.get(name) == str(path):
                return False
            engine = self._roster.engines[worker]
            await engine.load_adapter(name, path)
            if (await engine.adapters()).get(name) != str(path):
                raise AdapterNotApplied(f"it said that it loaded {name}, and does not hold it.")
            await self._roster.compare_answers(worker, name, holders)
            worker.adapters[name] = str(path)
            worker.cannot.discard(name)
            return True

        async def unload(worker: Worker) -> None:
            await self._roster.engines[worker].unload_adapter(name)
            worker.adapters.pop(name, None)

        await self._everywhere(load, unload, present, name)

    async def unload_adapter(self, name: str) -> None:
        """Unload it on every engine. Raises AdapterMissing where none has it loaded."""
        present = await self._roster.present()
        holders = [worker for worker in present if name in worker.adapters]
        if not holders:
            raise AdapterMissing(f"No engine holds {name}.")
        folders = {worker: worker.adapters[name] for worker in holders}

        async def unload(worker: Worker) -> bool:
            engine = self._roster.engines[worker]
            worker.adapters.pop(name, None)  # it is sent nothing more of that name
            with suppress(AdapterMissing):  # another process was quicker
                await engine.unload_adapter(name)
            if name in await engine.adapters():
                raise AdapterNotApplied(f"it said that it let go of {name}, and holds it.")
            return True

        async def load(worker: Worker) -> None:
            await self._roster.engines[worker].load_adapter(name, folders[worker])
            worker.adapters[name] = folders[worker]

        await self._everywhere(unload, load, holders)

    async def update_weights(self, path: str, *, version: str) -> None:
        """Change one engine after the other, so that the rest answer meanwhile. Raises AdapterInvalid where one refuses
        the files; those before it then serve again what they served."""
        done: list[tuple[Worker, str, str]] = []
        for worker in await self._roster.present():
            engine = self._roster.engines[worker]
            try:
                before = await engine.info()
                if (served := str(before.get("weight_version", ""))) != version:
                    await engine.update_weights(path, version=version)
                    done.append((worker, str(before["model_path"]), served))
                worker.weights = weights_in(version)
            except EngineUnavailable as failure:  # looked at, and asked what it serves, before it gets anything again
                self._roster.table.failed(worker, str(failure))
            except EngineRefused as failure:
                await asyncio.gather(*(self._go_back(*one) for one in done))
                raise type(failure)(f"{worker}: {failure}") from failure
        if not self._roster.table.up:
            raise EngineUnavailable("No engine took the weights.")

    async def pause(self, mode: PauseMode = "retract") -> None:
        async def pause(worker: Worker) -> bool:
            await self._roster.engines[worker].pause(mode)
            if await self._roster.engines[worker].ready():
                raise AdapterNotApplied("it said that it paused, and takes requests.")
            return True

        async def resume(worker: Worker) -> None:
            await self._roster.engines[worker].resume()

        await self._everywhere(pause, resume, await self._roster.present())

    async def resume(self) -> None:
        """Resume every engine that answers, whatever another says."""
        answers = await asyncio.gather(
            *(engine.resume() for engine in self._roster.engines.values()), return_exceptions=True
        )
        self.settle(zip(self._roster.engines, answers, strict=True))

    async def flush(self) -> None:
        present = await self._roster.present()
        answers = await asyncio.gather(*(self._roster.engines[one].flush() for one in present), return_exceptions=True)
        self.settle(zip(present, answers, strict=True))

    # How each change is made, confirmed and taken back

    async def _everywhere(
        self,
        do: Callable[[Worker], Coroutine[Any, Any, bool]],
        undo: Callable[[Worker], Awaitable[None]],
        workers: Sequence[Worker],
        adapter: str = "",
    ) -> None:
        """Run `do` on each of these workers; it says whether there is something to undo. One that is gone is passed
        over, and looked at before it gets anything again. One that refuses has the rest undone: where all refuse alike
        the matter is at fault, else that worker, which then gets nothing until it was looked at, and is passed over
        where the same `adapter` is loaded again."""
        answers = await asyncio.gather(*(do(worker) for worker in workers), return_exceptions=True)
        refused: list[tuple[Worker, Exception]] = []
        changed: list[Worker] = []
        gone: Exception | None = None
        for worker, answer in zip(workers, answers, strict=True):
            if isinstance(answer, (EngineUnavailable, EngineRefused)):
                if _is_gone(answer) or adapter in worker.cannot:
                    gone = answer
                    self._roster.table.failed(worker, str(answer))
                else:
                    refused.append((worker, answer))
            elif isinstance(answer, BaseException):
                raise answer
            elif answer:
                changed.append(worker)
        if not refused:
            if gone is not None and not any(worker.state is State.UP for worker in workers):
                raise EngineUnavailable(str(gone)) from gone
            return
        undone = await asyncio.gather(*(undo(worker) for worker in changed), return_exceptions=True)
        for worker, outcome in zip(changed, undone, strict=True):
            if isinstance(outcome, BaseException):
                self._roster.table.failed(worker, f"What it had done could not be undone: {outcome}")
        worker, failure = refused[0]
        kinds = {type(one) for _, one in refused}
        standing = [one for one in workers if one.state is State.UP]
        if (len(refused) == len(standing) and len(kinds) == 1) or isinstance(failure, NoRoom):
            raise type(failure)(f"{worker}: {failure}") from failure
        for one, why in refused:
            self._roster.table.failed(one, str(why))
            one.cannot |= {adapter} - {""}
        raise EngineUnavailable(f"{worker} did not follow the others: {failure}") from failure

    async def _go_back(self, worker: Worker, path: str, version: str) -> None:
        try:
            await self._roster.engines[worker].update_weights(path, version=version)
            worker.weights = weights_in(version)
        except (EngineUnavailable, EngineRefused) as failure:
            self._roster.table.failed(worker, f"It could not go back to {version}: {failure}")

    def settle(self, answers: Iterable[tuple[Worker, BaseException | None]]) -> None:
        """Note the engines that are gone. Raises where one refused, or where none did it."""
        pairs = list(answers)
        for worker, answer in pairs:
            if isinstance(answer, EngineUnavailable):
                self._roster.table.failed(worker, str(answer))
        failures = [(worker, answer) for worker, answer in pairs if isinstance(answer, Exception)]
        refusal = next((pair for pair in failures if not isinstance(pair[1], EngineUnavailable)), None)
        if refusal is None and len(failures) == len(pairs) and failures:
            refusal = failures[0]
        if refusal is not None:
            worker, answer = refusal
            raise type(answer)(f"{worker}: {answer}") from answer


def _is_gone(failure: Exception) -> bool:
    """Tell whether no server answered, rather than one that said no or did not do as it said."""
    return isinstance(failure, EngineUnavailable) and not isinstance(failure, (NoRoom, AdapterNotApplied))
