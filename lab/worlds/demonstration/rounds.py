"""One arm of one seed, update after update: attempts at tasks, what is learned of them, and held-out tasks between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Protocol

from core.errors import TalkbackError
from core.statistics import wilson
from environments.worlds.base import Split, Task, World
from environments.worlds.played import Played
from lab.worlds.demonstration.arms import Arm, heard
from lab.worlds.demonstration.plan import Plan, is_owed

RUN_S = 900.0
"""How long an update's run may take until its weights answer."""
LOOK_S = 1.0
"""Between two looks at what answers."""
ASK_S = 30.0
"""Between two questions whether a run failed: each starts a process."""
IN_VAIN = 3
"""Runs in a row that fail and end an arm. One does not: where all attempts at each task ended alike there is nothing to
learn, and that is an update too."""


class NotLearned(TalkbackError):
    """An update's attempts were played, and no new weights answer. The sentence says why."""

    code, status = "not_learned", 500


class Overdue(NotLearned):
    """Nothing is known to have failed, and nothing comes."""


class Door(Protocol):
    """The Talkback of a line, as its player and as its operator see it."""

    async def play(
        self, world: World, tasks: Sequence[Task], attempts: int, *, night: str, seed: int
    ) -> Sequence[Played]: ...

    async def live(self) -> str:
        """name@number of what answers."""
        ...

    async def failures(self) -> Mapping[str, str]:
        """Runs that failed and checkpoints that were turned away, each by its name, and why."""
        ...


@dataclass
class Side:
    """One arm of one seed, and what it has come to."""

    plan: Plan
    arm: Arm
    seed: int
    world: World
    door: Door
    tell: Callable[[str], None]
    write: Callable[[Mapping[str, Any]], None]
    """Takes a row of what was done."""
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    clock: Callable[[], float] = monotonic
    sampled: int = 0
    """Tokens of all replies that were to teach."""
    last: int = 0
    """Of these, those of the last update."""
    updates: int = 0
    stopped: str = ""
    """Why it learns no more, where something keeps it from that."""
    in_vain: int = 0
    """Runs that failed since the last that did not."""
    _known: set[str] = field(default_factory=set)

    async def play(self) -> None:
        """All updates of the plan, and examinations at its marks but the first, which is of the weights that all arms
        begin with."""
        while self.updates < self.plan.updates and not self.stopped:
            await self.update()
            if self.updates in self.plan.marks and not self.stopped:
                await self.examine()

    async def level(self, others: Callable[[], Mapping[str, int]]) -> None:
        """Further updates while the arm has sampled less than `others`, and an examination after them."""
        before = self.updates
        while not self.stopped and self.updates < self.plan.most_updates and is_owed(self.sampled, others(), self.last):
            await self.update()
        if self.updates > before:
            await self.examine()

    async def update(self) -> None:
        """Play a batch and wait until what was learned of it answers, or its run failed."""
        number, began, before = self.updates + 1, self.clock(), await self.door.live()
        tasks = self._tasks("train", self.plan.tasks, number)
        world = heard(self.world, self.arm.voice)
        played = await self.door.play(
            world, tasks, self.plan.attempts, night=f"{self._name}-{number}", seed=1000 * self.seed + number
        )
        took = self.clock() - began
        vain = ""
        try:
            live, self.in_vain = await self._learned(before), 0
        except NotLearned as error:
            vain, live, self.in_vain = str(error), before, self.in_vain + 1
            self.stopped = vain if self.in_vain >= IN_VAIN or isinstance(error, Overdue) else ""
        tokens = sum(one.completion_tokens for one in played)
        self.sampled, self.last, self.updates = self.sampled + tokens, tokens, number
        self._write(
            "update",
            number,
            played,
            checkpoint=live,
            seconds={"play": round(took, 1), "all": round(self.clock() - began, 1)},
            vain=vain,
        )
        if vain:
            self.tell(f"update {number}: {vain}")

    async def examine(self) -> Mapping[str, Any]:
        """Play the held-out tasks, once each; the row of it."""
        began = self.clock()
        tasks = self._tasks("heldout", self.plan.heldout, 0)
        played = await self.door.play(self.world, tasks, 1, night=f"{self._name}-exam-{self.updates}", seed=self.seed)
        solved = {one.task: one.status == "solved" for one in played if one.counts}
        took = {"all": round(self.clock() - began, 1)}
        return self._write("exam", self.updates, played, solved=solved, seconds=took, vain="")

    def take(self, row: Mapping[str, Any]) -> None:
        """Keep an examination of the same weights, which another arm had."""
        self.write({**row, "arm": self.arm.name})

    @property
    def _name(self) -> str:
        return f"{self.arm.name}-{self.seed}"

    def _tasks(self, split: Split, count: int, number: int) -> list[Task]:
        """Tasks of an update, the same for each arm of a seed; those that examine are the same for all."""
        return self.world.tasks(split, count, 1000 * self.seed + number if split == "train" else 0)

    async def _learned(self, before: str) -> str:
        """Wait until other weights answer than before; raises NotLearned."""
        end, asked = self.clock() + RUN_S, self.clock()
        while (live := await self.door.live()) == before:
            if self.clock() > end:
                raise Overdue(f"{RUN_S / 60:.0f} minutes after its attempts were played, no new weights answer.")
            if self.clock() > asked + ASK_S:
                await self._raise_what_failed()
                asked = self.clock()
            await self.sleep(LOOK_S)
        return live

    async def _raise_what_failed(self) -> None:
        new = {name: why for name, why in (await self.door.failures()).items() if name not in self._known}
        self._known |= set(new)
        for name, why in new.items():
            raise NotLearned(f"{name}: {why}")

    def _write(self, kind: str, number: int, played: Sequence[Played], **fields: Any) -> Mapping[str, Any]:
        counted = [one for one in played if one.counts]
        steps = sum(one.steps for one in counted)
        row = {
            "kind": kind,
            "arm": self.arm.name,
            "seed": self.seed,
            "update": number,
            "attempts": len(played),
            "counted": len(counted),
            "success": sum(one.status == "solved" for one in counted) / max(1, len(counted)),
            "steps": steps / max(1, len(counted)),
            "invalid": sum(one.invalid for one in counted) / max(1, steps),
            "tokens": sum(one.completion_tokens for one in played),
            "sampled": self.sampled,
            "void": next((one.reason or one.status for one in played if not one.counts), ""),
            **fields,
        }
        self.write(row)
        low, high = wilson(round(row["success"] * len(counted)), len(counted))
        void = f" ({len(played) - len(counted)} do not count: {row['void']})" if len(counted) < len(played) else ""
        self.tell(
            f"{'after ' if kind == 'exam' else ''}update {number}: "
            f"{row['success']:.2f} ({low:.2f}-{high:.2f}) solved of {len(counted)}{void}, "
            f"{row['steps']:.1f} steps, {row['invalid']:.2f} of them no call, {_lasted(fields['seconds'])}"
            + (f": {fields['checkpoint']} answers" if "checkpoint" in fields else "")
        )
        return row


def _lasted(seconds: Mapping[str, float]) -> str:
    """How long it took; of an update, its play and what came of it: gathered, learned, let through by the gate.

    >>> _lasted({"all": 40.2}), _lasted({"play": 30.0, "all": 50.4})
    ('40 s', 'played in 30 s, learned and let through in 20 s')
    """
    if "play" not in seconds:
        return f"{seconds['all']:.0f} s"
    return f"played in {seconds['play']:.0f} s, learned and let through in {seconds['all'] - seconds['play']:.0f} s"
