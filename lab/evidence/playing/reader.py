"""What the private engine itself says of a reply: the API gives no log-prob of a text that it did not write."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from environments.errors import StackFailed
from gpu_workers.engine.fleet import loaded_adapters
from gpu_workers.engine.interface import Engine
from gpu_workers.errors import AdapterMissing, EngineUnavailable, NoRoom
from lab.evidence.playing.probes import BASE, NAME

TRIES = 5
"""How often a text is read, where an engine lets go of its adapter meanwhile: the web makes room for what it is asked
for, and knows nothing of us."""

PAUSE_S = 3.0
"""How long between them."""


class EngineReader:
    """Log-probs from the engine of a private Talkback, under any of its weights."""

    PRIORITY = -1
    """After votes: the learner waits for those, and nothing waits for this before the report."""

    def __init__(
        self, engine: Engine, model: Path, folder: Path, *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    ) -> None:
        """`folder` is the DATA_DIR, in which checkpoints lie by the names of their adapters."""
        from transformers import AutoTokenizer

        self._engine, self._folder, self._sleep = engine, folder, sleep
        self._reading = Counter[int]()  # checkpoints, by the texts that are being read under them
        self._names = dict[int, str]()  # of adapters, by checkpoint, as far as they were loaded when last looked at
        self._looking = asyncio.Lock()  # of many who read one checkpoint, one asks or makes room for all
        self._tokenizer = AutoTokenizer.from_pretrained(str(model))

    async def logprobs(self, messages: Sequence[Mapping[str, Any]], reply: str, number: int = BASE) -> list[float]:
        """Natural, at temperature 1, one a token of the reply. Empty for an empty reply. Raises what the engine raised
        last once it was asked often enough."""
        laid_out = self._tokenizer.apply_chat_template(
            [dict(message) for message in messages], add_generation_prompt=True, tokenize=False
        )
        prompt = self._tokenizer.encode(laid_out, add_special_tokens=False)
        said = self._tokenizer.encode(reply, add_special_tokens=False)
        if not said:
            return []
        self._reading[number] += 1
        try:
            for _ in range(TRIES - 1):
                try:
                    return await self._read(prompt, said, number)
                except (AdapterMissing, EngineUnavailable):
                    await self._sleep(PAUSE_S)
            return await self._read(prompt, said, number)
        finally:
            self._reading[number] -= 1

    async def _make_room(self) -> None:
        """Have the engine let go of the oldest checkpoint that nothing is read under. It waits for who is being
        answered with it, and the web loads it again for who is asked next."""
        numbers = {_number(name): name for name in await loaded_adapters(self._engine) if name.startswith(f"{NAME}-")}
        idle = [number for number in sorted(numbers) if not self._reading[number]]
        if idle:
            await self._engine.unload_adapter(numbers[idle[0]])

    async def _read(self, prompt: Sequence[int], said: Sequence[int], number: int) -> list[float]:
        if not number:
            return await self._score(prompt, said, None)
        # To ask what is loaded costs a busy engine more than to read a few tokens, and there are hundreds to read.
        if number in self._names:
            try:
                return await self._score(prompt, said, self._names[number])
            except AdapterMissing:
                self._names.pop(number, None)
        async with self._looking:
            if number not in self._names:
                self._names[number] = await self._loaded(number)
        return await self._score(prompt, said, self._names[number])

    async def _score(self, prompt: Sequence[int], said: Sequence[int], adapter: str | None) -> list[float]:
        return list((await self._engine.score(prompt, said, adapter=adapter, priority=self.PRIORITY)).logprobs)

    async def aclose(self) -> None:
        await self._engine.aclose()

    async def _loaded(self, number: int) -> str:
        """The adapter of this checkpoint; loaded again where the engine has let go of it. Raises StackFailed."""
        begins = f"{NAME}-{number}-"
        for name in await self._engine.adapters():
            if name.startswith(begins):
                return name
        for folder in sorted((self._folder / "checkpoints").glob(f"{begins}*")):
            try:
                await self._engine.load_adapter(folder.name, str(folder))
            except NoRoom:
                await self._make_room()
                await self._engine.load_adapter(folder.name, str(folder))
            return folder.name
        raise StackFailed(f"The weights of checkpoint {number} are not in {self._folder / 'checkpoints'}.")


def _number(name: str) -> int:
    """Of which checkpoint an adapter is.

    >>> _number("talkback-12-0a1b2c3d")
    12
    """
    return int(name.removeprefix(f"{NAME}-").partition("-")[0])
