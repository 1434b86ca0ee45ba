"""Several engines behind the interface of one.

A request goes to one of them; what changes an engine goes to all that answer, is confirmed by each, and is taken back
where one cannot follow. SGLang's router balances /generate and forwards none of the rest, so all of that is ours.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from time import monotonic
from typing import Any, TypeVar

from gpu_workers.engine import Engine, PauseMode
from gpu_workers.errors import (
    AdapterInvalid,
    AdapterMissing,
    EngineRefused,
    EngineUnavailable,
    NoRoom,
    WeightsExchanged,
)
from gpu_workers.stamps import weights_in
from gpu_workers.types import Choices, Completion, Delta, Sampling, Scored
from gpu_workers.workers import State, Table, Worker

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")

MIXED = "mixed"
"""What `serving` says while some engines serve other full weights than the rest."""

HEARD = tuple(range(3, 35))
"""Ids that every vocabulary has: what one engine says of them with an adapter another must say too."""

OFF = 0.25
"""How much of the change that an adapter makes at one engine may be missing, or be another, at one that holds it too:
of the sum of squares over the tokens. The base is all of it off, another adapter more."""

PRIORITY = 10
"""An engine that is taken in again is as urgent as a reply: people wait for both."""


class AdapterNotApplied(EngineUnavailable):
    """An engine confirmed a change and does not answer as changed: it gets no request until it was looked at."""


class Fleet:
    """Engines that hold the same adapters and weights. The calls, and what they raise, are those of Engine.

    Every process has a table of its own: it is what this process saw last, never the truth, which the engines have.
    One that fails gets nothing more until it answers again and was given the adapters that the others hold.
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
        self._engines = dict(zip(self.table.workers, engines.values(), strict=True))
        self._asked: dict[str, Worker] = {}  # who answers the request of this id
        self._looks: dict[Worker, asyncio.Task[None]] = {}

    @property
    def failures(self) -> int:
        """How often no server answered: behind each may stand a server that was started again, and forgot all."""
        return sum(engine.failures for engine in self._engines.values())

    # One of them

    async def generate(
        self,
        prompt_ids: Sequence[int],
        sampling: Sampling,
        *,
        adapter: str | None = None,
        request_id: str | None = None,
        priority: int = 0,
    ) -> Completion:
        async def ask(engine: Engine) -> Completion:
            return await engine.generate(
                prompt_ids, sampling, adapter=adapter, request_id=request_id, priority=priority
            )

        if self.router is not None and await self._are_alike(adapter):
            try:
                return await ask(self.router)
            except (AdapterMissing, EngineUnavailable):  # it is gone, or asked an engine that is, or lacks this
                await self._ask_again(self.table.up)
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
    ) -> AsyncGenerator[Delta, None]:
        """As Engine.stream. Another engine is asked only while nothing was said yet: a reply has one author."""
        options: dict[str, Any] = {"adapter": adapter, "request_id": request_id, "priority": priority}
        has_begun = False
        if self.router is not None and await self._are_alike(adapter):
            try:
                async with aclosing(self.router.stream(prompt_ids, sampling, **options)) as deltas:
                    async for delta in deltas:
                        has_begun = True
                        yield delta
                return
            except (AdapterMissing, EngineUnavailable):
                await self._ask_again(self.table.up)
                if has_begun:
                    raise
        tried: list[Worker] = []
        while True:
            worker = await self._chosen(adapter, prompt_ids, tried)
            tried.append(worker)
            said: list[int] = []
            try:
                asked = self._engines[worker].stream(prompt_ids, sampling, **options)
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
                self._noted(worker, adapter, failure)
                if has_begun:
                    raise

    # All of them

    async def load_adapter(self, name: str, path: str) -> None:
        """Have every engine hold it. Raises AdapterInvalid where none can serve the files. Where only some cannot, the
        rest let go of it again and EngineUnavailable names one of them. Asked once more, the rest go on without those,
        which then get nothing until they can."""

        present = await self._present()
        holders = [worker for worker in present if worker.adapters.get(name) == str(path)]

        async def load(worker: Worker) -> bool:
            if worker.adapters.get(name) == str(path):
                return False
            engine = self._engines[worker]
            await engine.load_adapter(name, path)
            if (await engine.adapters()).get(name) != str(path):
                raise AdapterNotApplied(f"it said that it loaded {name}, and does not hold it.")
            await self._say_alike(worker, name, holders)
            worker.adapters[name] = str(path)
            worker.cannot.discard(name)
            return True

        async def unload(worker: Worker) -> None:
            await self._engines[worker].unload_adapter(name)
            worker.adapters.pop(name, None)

        await self._everywhere(load, unload, present, name)

    async def unload_adapter(self, name: str) -> None:
        """Have every engine let go of it. Raises AdapterMissing where none holds it."""
        present = await self._present()
        holders = [worker for worker in present if name in worker.adapters]
        if not holders:
            raise AdapterMissing(f"No engine holds {name}.")
        folders = {worker: worker.adapters[name] for worker in holders}

        async def unload(worker: Worker) -> bool:
            engine = self._engines[worker]
            worker.adapters.pop(name, None)  # it is sent nothing more of that name
            with suppress(AdapterMissing):  # another process was quicker
                await engine.unload_adapter(name)
            if name in await engine.adapters():
                raise AdapterNotApplied(f"it said that it let go of {name}, and holds it.")
            return True

        async def load(worker: Worker) -> None:
            await self._engines[worker].load_adapter(name, folders[worker])
            worker.adapters[name] = folders[worker]

        await self._everywhere(unload, load, holders)

    async def adapters(self) -> dict[str, str]:
        """The adapters that every engine holds that answers: name to folder."""
        present = await self._present()
        shared = set.intersection(*(set(worker.adapters.items()) for worker in present))
        return dict(sorted(shared))

    async def loaded_adapters(self) -> dict[str, str]:
        """The adapters that any engine holds that answers, so that what one of them kept can be let go of."""
        return {name: path for worker in await self._present() for name, path in worker.adapters.items()}

    async def update_weights(self, path: str, *, version: str) -> None:
        """One engine after the other, so that the rest answer meanwhile. Raises AdapterInvalid where one refuses the
        files; those before it then serve again what they served."""
        done: list[tuple[Worker, str, str]] = []
        for worker in await self._present():
            engine = self._engines[worker]
            try:
                before = await engine.info()
                if (served := str(before.get("weight_version", ""))) != version:
                    await engine.update_weights(path, version=version)
                    done.append((worker, str(before["model_path"]), served))
                worker.weights = weights_in(version)
            except EngineUnavailable as failure:  # looked at, and asked what it serves, before it gets anything again
                self.table.failed(worker, str(failure))
            except EngineRefused as failure:
                await asyncio.gather(*(self._go_back(*one) for one in done))
                raise type(failure)(f"{worker}: {failure}") from failure
        if not self.table.up:
            raise EngineUnavailable("No engine took the weights.")

    async def serving(self) -> str:
        """The full weights that all engines serve, by name; empty for the base, MIXED while they differ."""
        served = {worker.weights for worker in await self._present()}
        return served.pop() if len(served) == 1 else MIXED

    async def pause(self, mode: PauseMode = "retract") -> None:
        async def pause(worker: Worker) -> bool:
            await self._engines[worker].pause(mode)
            if await self._engines[worker].ready():
                raise AdapterNotApplied("it said that it paused, and takes requests.")
            return True

        async def resume(worker: Worker) -> None:
            await self._engines[worker].resume()

        await self._everywhere(pause, resume, await self._present())

    async def resume(self) -> None:
        """Every engine that answers goes on, whatever another says."""
        answers = await asyncio.gather(*(engine.resume() for engine in self._engines.values()), return_exceptions=True)
        self._settled(zip(self._engines, answers, strict=True))

    async def flush(self) -> None:
        present = await self._present()
        answers = await asyncio.gather(*(self._engines[one].flush() for one in present), return_exceptions=True)
        self._settled(zip(present, answers, strict=True))

    async def abort(self, request_id: str) -> None:
        """End this request with what it has, wherever it is; another process may have asked for it."""
        worker = self._asked.get(request_id)
        likely = self.table.workers if self.router is not None else self.table.up  # it may have asked any of them
        asked = [worker] if worker is not None else likely or self.table.workers
        answers = await asyncio.gather(*(self._engines[one].abort(request_id) for one in asked), return_exceptions=True)
        self._settled(zip(asked, answers, strict=True))

    # What they say of themselves

    async def ready(self) -> bool:
        """True when any engine takes new requests. Never raises."""
        return any(await asyncio.gather(*(engine.ready() for engine in self._engines.values())))

    async def info(self) -> dict[str, Any]:
        return await self._one(lambda engine: engine.info(), None)

    async def server_info(self) -> dict[str, Any]:
        return await self._one(lambda engine: engine.server_info(), None)

    async def metrics(self) -> dict[str, float]:
        """The sums over all engines that answer."""
        sums: dict[str, float] = {}
        answers = await asyncio.gather(*(one.metrics() for one in self._engines.values()), return_exceptions=True)
        for samples in answers:
            if isinstance(samples, BaseException):
                continue
            for name, value in samples.items():
                sums[name] = sums.get(name, 0.0) + value
        return sums

    async def members(self) -> list[tuple[Worker, Engine]]:
        """Each engine that answers now, for what is to be asked of every one of them. Raises EngineUnavailable."""
        return [(worker, self._engines[worker]) for worker in await self._present()]

    def everyone(self) -> list[tuple[Worker, Engine]]:
        """Each engine, whether it answers or not."""
        return list(self._engines.items())

    async def aclose(self) -> None:
        """Close this event loop's connections."""
        for look in self._looks.values():
            if look.get_loop() is asyncio.get_running_loop():
                look.cancel()
        every = [*self._engines.values(), *([self.router] if self.router else [])]
        await asyncio.gather(*(engine.aclose() for engine in every))

    # How it does that

    async def _one(
        self,
        ask: Callable[[Engine], Awaitable[Answer]],
        adapter: str | None,
        prompt_ids: Sequence[int] = (),
        request_id: str | None = None,
    ) -> Answer:
        """What the first engine answers that can: one that is gone, or lacks the adapter after all, is passed over."""
        tried: list[Worker] = []
        while True:
            worker = await self._chosen(adapter, prompt_ids, tried)
            tried.append(worker)
            try:
                async with self._busy(worker, adapter, prompt_ids, request_id):
                    answer = await ask(self._engines[worker])
            except NoRoom:
                raise
            except (EngineUnavailable, AdapterMissing) as failure:
                self._noted(worker, adapter, failure)
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
        self._look_at(self.table.due())
        await asyncio.gather(*self._look_at(new))
        return all(worker.state is State.UP and worker.has(adapter) for worker in self.table.workers)

    async def _chosen(self, adapter: str | None, prompt_ids: Sequence[int], tried: Sequence[Worker]) -> Worker:
        """Who answers. Those that failed are looked at meanwhile, and waited for only where no other can."""
        looks = self._look_at(self.table.due())
        if (worker := self.table.choose(adapter, prompt_ids, tried)) is not None:
            return worker
        if looks:
            await asyncio.gather(*looks)
        if (worker := self.table.choose(adapter, prompt_ids, tried)) is not None:
            return worker
        await self._ask_again([worker for worker in self.table.up if worker not in tried])  # another process loaded it
        if (worker := self.table.choose(adapter, prompt_ids, tried)) is not None:
            return worker
        if not self.table.up:
            raise EngineUnavailable("No engine answers.")
        raise AdapterMissing(f"No engine that answers holds {adapter or 'the base'}.")

    def _noted(self, worker: Worker, adapter: str | None, failure: Exception) -> None:
        if isinstance(failure, AdapterMissing):
            worker.adapters.pop(adapter or "", None)
            worker.state, worker.look_at = State.UNKNOWN, 0.0  # what else has it forgotten?
        elif worker.state is not State.DOWN:  # of many requests that it dropped at once the first says so
            log.warning("%s (%s) does not answer: %s", worker, worker.url, failure)
            self.table.failed(worker, str(failure))

    async def _present(self) -> list[Worker]:
        """The workers that answer now, each with what it says it holds. Raises EngineUnavailable when there is none."""
        back = [worker for worker in self.table.workers if worker.state is not State.UP]
        await self._ask_again(self.table.up)
        await asyncio.gather(*self._look_at(back))
        if not self.table.up:
            raise EngineUnavailable("No engine answers.")
        return self.table.up

    async def _ask_again(self, workers: Iterable[Worker]) -> None:
        async def ask(worker: Worker) -> None:
            try:
                self.table.answered(worker, *await self._said(worker))
            except (EngineUnavailable, EngineRefused) as failure:
                self.table.failed(worker, str(failure))

        await asyncio.gather(*(ask(worker) for worker in workers))

    async def _said(self, worker: Worker) -> tuple[dict[str, str], str]:
        engine = self._engines[worker]
        loaded, weights = await asyncio.gather(engine.adapters(), engine.serving())
        return loaded, weights

    def _look_at(self, workers: Iterable[Worker]) -> list[asyncio.Task[None]]:
        """Looks at these workers, one at a time each, that go on by themselves."""
        loop, tasks = asyncio.get_running_loop(), []
        for worker in workers:
            task = self._looks.get(worker)
            if task is None or task.done() or task.get_loop() is not loop:
                task = self._looks[worker] = loop.create_task(self._look(worker), name=f"look at {worker}")
            tasks.append(task)
        return tasks

    async def _look(self, worker: Worker) -> None:
        """Take a worker in again once it answers and holds what the others hold."""
        engine, was = self._engines[worker], worker.state
        try:
            loaded, weights = await self._said(worker)
            if was is State.DOWN and not await engine.ready():
                raise EngineUnavailable("It answers, and takes no requests yet.")
            if was is State.DOWN or worker.seen_at is not None:
                loaded = await self._levelled(worker, loaded)
        except (EngineUnavailable, EngineRefused) as failure:
            self.table.failed(worker, str(failure))
            return
        if was is State.DOWN:
            log.info("%s (%s) is back, with %d adapters", worker, worker.url, len(loaded))
        self.table.answered(worker, loaded, weights)

    async def _levelled(self, worker: Worker, loaded: dict[str, str]) -> dict[str, str]:
        """Give a worker that was away the adapters of the others, and take from it what they let go of meanwhile. What
        it holds then. Where it was alone it gets what it loaded before."""
        await self._ask_again(self.table.up)
        others = [other for other in self.table.up if other is not worker]
        wanted = {name: path for other in others for name, path in other.adapters.items()}
        if not others:
            wanted = worker.adapters | loaded
        engine = self._engines[worker]
        for name in loaded.keys() - wanted.keys():
            with suppress(AdapterMissing):
                await engine.unload_adapter(name)
        for name, path in wanted.items():
            if loaded.get(name) != path:
                with suppress(*(() if others else (AdapterInvalid,))):  # its folder may be gone by now
                    await engine.load_adapter(name, path)
            await self._say_alike(worker, name, [other for other in others if name in other.adapters])
        holds = await engine.adapters()
        if others and (lacks := wanted.items() - holds.items()):
            name = min(lacks)[0]
            raise AdapterNotApplied(f"It said that it loaded {name}, and does not hold it.")
        return holds

    async def _say_alike(self, worker: Worker, adapter: str, others: Sequence[Worker]) -> None:
        """Hold what a worker that is to answer with an adapter says of some ids against what one says that does.

        Raises AdapterNotApplied, and unloads it there, where it does nothing, or something else. Each is measured from
        its own base. Where the bases are nearly as far apart as the adapter is from them nothing can be told, and the
        checkpoint's own proof follows (training.holding)."""
        if not others:
            return

        async def said(one: Worker) -> tuple[Sequence[float], Sequence[float]]:
            engine = self._engines[one]
            asked = (engine.score(HEARD[:8], HEARD[8:], adapter=name, priority=PRIORITY) for name in (adapter, None))
            with_it, without = await asyncio.gather(*asked)
            return with_it.logprobs, without.logprobs

        try:
            theirs, their_base = await said(others[0])
        except (EngineUnavailable, EngineRefused):  # there is nothing to hold it against
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
                await self._engines[worker].unload_adapter(adapter)  # so that the next look loads it anew
            raise AdapterNotApplied(
                f"it holds {adapter}, and what it says with it is {off:.0%} off what {others[0]} says."
            )
        log.info("%s answers with %s as %s does (%.1f%% off)", worker, adapter, others[0], 100 * off)

    async def _everywhere(
        self,
        do: Callable[[Worker], Coroutine[Any, Any, bool]],
        undo: Callable[[Worker], Awaitable[None]],
        workers: Sequence[Worker],
        adapter: str = "",
    ) -> None:
        """`do` on each of these workers; it says whether there is something to undo. One that is gone is passed over,
        and looked at before it gets anything again. One that refuses has the rest undone: where all refuse alike the
        matter is at fault, else that worker, which then gets nothing until it was looked at, and is passed over where
        the same `adapter` is loaded again."""
        answers = await asyncio.gather(*(do(worker) for worker in workers), return_exceptions=True)
        refused: list[tuple[Worker, Exception]] = []
        changed: list[Worker] = []
        gone: Exception | None = None
        for worker, answer in zip(workers, answers, strict=True):
            if isinstance(answer, (EngineUnavailable, EngineRefused)):
                if _is_gone(answer) or adapter in worker.cannot:
                    gone = answer
                    self.table.failed(worker, str(answer))
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
                self.table.failed(worker, f"What it had done could not be undone: {outcome}")
        worker, failure = refused[0]
        kinds = {type(one) for _, one in refused}
        standing = [one for one in workers if one.state is State.UP]
        if (len(refused) == len(standing) and len(kinds) == 1) or isinstance(failure, NoRoom):
            raise type(failure)(f"{worker}: {failure}") from failure
        for one, why in refused:
            self.table.failed(one, str(why))
            one.cannot |= {adapter} - {""}
        raise EngineUnavailable(f"{worker} did not follow the others: {failure}") from failure

    async def _go_back(self, worker: Worker, path: str, version: str) -> None:
        try:
            await self._engines[worker].update_weights(path, version=version)
            worker.weights = weights_in(version)
        except (EngineUnavailable, EngineRefused) as failure:
            self.table.failed(worker, f"It could not go back to {version}: {failure}")

    def _settled(self, answers: Iterable[tuple[Worker, BaseException | None]]) -> None:
        """Nothing where one at least did it and none refused; those that are gone are noted."""
        pairs = list(answers)
        for worker, answer in pairs:
            if isinstance(answer, EngineUnavailable):
                self.table.failed(worker, str(answer))
        failures = [(worker, answer) for worker, answer in pairs if isinstance(answer, Exception)]
        refusal = next((pair for pair in failures if not isinstance(pair[1], EngineUnavailable)), None)
        if refusal is None and len(failures) == len(pairs) and failures:
            refusal = failures[0]
        if refusal is not None:
            worker, answer = refusal
            raise type(answer)(f"{worker}: {answer}") from answer


def _is_gone(failure: Exception) -> bool:
    """Whether no server answered, rather than one that said no or did not do as it said."""
    return isinstance(failure, EngineUnavailable) and not isinstance(failure, (NoRoom, AdapterNotApplied))


async def members(engine: Engine | Fleet) -> list[Engine]:
    """Every server behind `engine` that answers, for a proof that each of them has to give."""
    return [one for _, one in await engine.members()] if isinstance(engine, Fleet) else [engine]


async def loaded_adapters(engine: Engine | Fleet) -> dict[str, str]:
    """The adapters that any server behind `engine` holds."""
    return await (engine.loaded_adapters() if isinstance(engine, Fleet) else engine.adapters())
