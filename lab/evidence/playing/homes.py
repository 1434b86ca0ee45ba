"""Talkbacks side by side: each has engines and a learner of its own, and of every arm and seed one has the line."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Protocol

from environments.errors import Unplayable
from lab.evidence.plan import Plan
from lab.evidence.playing.arm_rounds import House
from lab.evidence.playing.machine import cores
from lab.evidence.playing.probes import Reader, Reading
from lab.evidence.playing.traffic import Talkback
from lab.evidence.playing.turnstile import Turnstile

CORES_EACH = 3
"""For so many cores there is a Talkback. In each one run learns at a time, on a core, beside what two others write."""

TAUGHT_AT_ONCE = 3
"""Arms that learn side by side in one home at least, of several seeds where one has fewer: each waits for its own last
run, and cores would wait with it. Where engines have room for more batches at a time, as many."""


class Door(House, Protocol):
    """A private Talkback, as its operator, as its clients, and as its engine's reader."""

    async def make_lines(self, rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Mapping[str, str]]: ...

    async def rehearse(self) -> None: ...

    async def approve(self, number: int) -> None: ...

    def client(self, key: str) -> Talkback: ...

    def reader(self) -> Reader: ...

    def check(self) -> None: ...

    def spent(self) -> Mapping[str, float]: ...


class Home:
    """One of them: who is let in when, and with which keys."""

    def __init__(self, door: Door, plan: Plan) -> None:
        self.door = door
        self.turnstile = Turnstile(door.at_once)
        side_by_side = door.at_once // plan.sizes.samples, sum(arm.learns for arm in plan.arms)
        self.places = asyncio.Semaphore(max(TAUGHT_AT_ONCE, *side_by_side))
        """Of lines that learn."""
        self._keys: Mapping[str, Mapping[str, str]] = {}
        self._clients: dict[str, Talkback] = {}

    async def furnish(self, lines: Sequence[Mapping[str, Any]]) -> None:
        """Make the lines that live here, and be ready to answer on them."""
        self._keys = await self.door.make_lines(lines)
        await self.door.rehearse()
        self.reader = Reading(self.door.reader())

    def client(self, line: str, key: str) -> Talkback:
        """The line's key of this name, with connections that are kept."""
        secret = self._keys[line][key]
        if secret not in self._clients:
            self._clients[secret] = self.door.client(secret)
        return self._clients[secret]


def shared_out(plans: Iterable[Mapping[str, Any]], homes: int) -> dict[tuple[str, int], int]:
    """Which of so many has the line of an arm, by its name, and a seed: dealt out in turn, what learns apart from what
    does not. `plans` are all that OUT has had, oldest first: what was begun stays where it is when arms or seeds are
    added.

    >>> plan = {"seeds": [1, 2], "arms": [{"name": "base", "kind": "frozen"}, {"name": "opd", "kind": "trained"}]}
    >>> shared_out([plan], 2)
    {('base', 1): 0, ('opd', 1): 0, ('base', 2): 1, ('opd', 2): 1}
    """
    found, turns = dict[tuple[str, int], int](), Counter[bool]()
    for plan in plans:
        for seed, arm in product(plan["seeds"], plan["arms"]):
            if (arm["name"], seed) not in found:
                learns = arm["kind"] == "trained"
                found[arm["name"], seed] = turns[learns] % homes
                turns[learns] += 1
    return found


def folders(out: Path, lines: int, settings: Mapping[str, str], asked: int | None = None) -> list[Path]:
    """Of each Talkback that this run starts. A run that goes on has those with which it began; else there are as many
    as are asked for, or as the cores allow, and no more than lines that learn. Raises Unplayable."""
    there = [folder for folder in (out / "talkback", *out.glob("talkback-[0-9]*")) if folder.is_dir()]
    if {"ENGINE_URL", "ENGINE_URLS"} & settings.keys():
        if (asked or len(there)) > 1:
            raise Unplayable("Of an engine that is there already, one Talkback names the adapters: no --talkbacks.")
        asked = 1
    if there and asked not in (None, len(there)):
        raise Unplayable(f"{out} was begun with --talkbacks {len(there)}, which have what is learned: go on with them.")
    if asked is not None and asked < 1:
        raise Unplayable("--talkbacks is at least 1.")
    count = len(there) or asked or max(1, min(lines, cores() // CORES_EACH))
    return [out / ("talkback" if number == 1 else f"talkback-{number}") for number in range(1, count + 1)]
