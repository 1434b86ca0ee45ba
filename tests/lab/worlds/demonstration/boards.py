"""A line on which playing and learning are said, not done: what a Side sees of a Talkback."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from environments.worlds.base import Task, World
from environments.worlds.played import Played

Score = Callable[[int, Task], bool]
"""Of a checkpoint's number and a task: whether it is solved."""


class Board:
    """Every run takes: checkpoint n+1 answers after the attempts of an update. Each attempt samples `tokens`."""

    def __init__(self, tokens: int, score: Score = lambda number, task: False, fails_from: int = 1000) -> None:
        self.tokens, self.score, self.fails_from = tokens, score, fails_from
        self.number = 0
        self.asked: list[tuple[str, int, int]] = []
        self.failed: list[dict[str, Any]] = []
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
            if number + 1 >= self.fails_from:
                self.failed = [{"id": 7, "status": "failed", "error": "The canary stopped it."}]
            else:
                self.number += 1
        return played

    async def live(self) -> str:
        return f"talkback@{self.number}"

    async def runs(self) -> Sequence[dict[str, Any]]:
        return self.failed
