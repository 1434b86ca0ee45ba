"""A world that notes what is done in it: the one named by WORLD, told by a line a call in the file DONE."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from environments.worlds.base import Attempt, Call, Message, Outcome, Seen, Split, Task, World
from environments.worlds.choosing import open_world

WORLD, DONE = "COUNTED_WORLD", "COUNTED_DONE"
"""Variables of the player's: a world's name, and a file."""
NAME = "benchmarks.worlds.counted:Counted"


class Counted(World):
    def __init__(self) -> None:
        self.world = open_world(os.environ[WORLD])
        self.name, self.horizon, self.parallel = self.world.name, self.world.horizon, self.world.parallel
        self.done = os.open(os.environ[DONE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def tasks(self, split: Split, count: int, seed: int) -> list[Task]:
        return self.world.tasks(split, count, seed)

    def open(self, task: Task, seed: int) -> Attempt:
        return _CountedAttempt(self.world.open(task, seed), self.done)


class _CountedAttempt(Attempt):
    def __init__(self, attempt: Attempt, done: int) -> None:
        self.attempt, self.done = attempt, done
        self.opening: Sequence[Message] = attempt.opening
        self.tools: Sequence[Mapping[str, Any]] = attempt.tools

    def act(self, call: Call) -> Seen:
        os.write(self.done, f"{call.id}\n".encode())  # one write: lines of many threads do not mix
        return self.attempt.act(call)

    def hear(self, text: str) -> Seen:
        return self.attempt.hear(text)

    def outcome(self, *, is_truncated: bool) -> Outcome:
        return self.attempt.outcome(is_truncated=is_truncated)

    def close(self) -> None:
        self.attempt.close()
