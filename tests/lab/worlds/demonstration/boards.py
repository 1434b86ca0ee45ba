"""A line on which playing and learning are said, not done: what a Side sees of a Talkback."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set

from environments.worlds.base import Task, World
from environments.worlds.played import Played

Score = Callable[[int, Task], bool]
"""Of a checkpoint's number and a task: whether it is solved."""


class Board:
    """The next checkpoint answers after the attempts of an update, unless it is one of those that fail. Each attempt
    samples `tokens`."""

    def __init__(self, tokens: int, score: Score = lambda number, task: False, fails: Set[int] = frozenset()) -> None:
        self.tokens, self.score, self.fails = tokens, score, fails
        self.number, self.updates = 0, 0
        self.asked: list[tuple[str, int, int]] = []
        self.failed: dict[str, str] = {}
        self.worlds: list[World] = []

    async def play(
        self, world: World, tasks: Sequence[Task], attempts: int, *, night: str, seed: int
    ) -> Sequence[Played]:
        self.asked.append((night, len(tasks), attempts))
        self.worlds.append(world)
        number = self.number
        played = [
            Played(
                world="till",
                task=task.id,
                split=task.split,
                group=night,
                attempt=attempt,
                status="solved" if self.score(number, task) else "failed",
                outcome=1.0,
                steps=5,
                completion_tokens=self.tokens,
            )
            for task in tasks
            for attempt in range(attempts)
        ]
        if tasks[0].split == "train":
            self.updates += 1
            if self.updates in self.fails:
                self.failed[f"Run {self.updates} failed"] = "All attempts were equal."
            else:
                self.number += 1
        return played

    async def live(self) -> str:
        return f"talkback@{self.number}"

    async def failures(self) -> dict[str, str]:
        return self.failed
