"""What is played at an OpenEnv server: a URL alone, or a file that also says the range of rewards and the tasks."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from core.visible import name_fault
from environments.errors import Unplayable
from environments.worlds.base import Split, Task
from environments.worlds.openenv.rewards import Rewards
from environments.worlds.openenv.wire import require_url

FIELDS = frozenset({"url", "prompt", "horizon", "answer_s", "rewards", "tasks"})
MANY = 1_000_000
"""Seeds of each split, where a file names no tasks: those of the held-out split come after those of the other."""


@dataclass(frozen=True)
class Plan:
    url: str
    rewards: Rewards = field(default_factory=Rewards)
    prompt: str = ""
    """What an agent is told before the first observation."""
    horizon: int | None = None
    answer_s: float = 60.0
    tasks: tuple[Task, ...] = ()
    """Empty: each seed is a task."""

    def draw(self, split: Split, count: int, seed: int) -> list[Task]:
        """Raises Unplayable where there are not so many."""
        if not self.tasks:
            start = MANY if split == "heldout" else 0
            numbers = random.Random(f"openenv {split} {seed}").sample(range(start, start + MANY), min(count, MANY))
            return [self._seeded(split, number) for number in numbers]
        known = [task for task in self.tasks if task.split == split]
        if count > len(known):
            raise Unplayable(f"{self.url} has {len(known)} {split} tasks in its file, and {count} were asked for.")
        return random.Random(f"{split} {seed}").sample(known, count)

    def _seeded(self, split: Split, number: int) -> Task:
        host = urlsplit(self.url).netloc.rpartition("@")[2]
        return Task("openenv", f"{host[:80]}-{number}", split, {"reset": {"seed": number}})


def read(name: str) -> Plan:
    """`name` is a URL, or a file that ends with .json. Raises Unplayable, or OSError."""
    if not name.endswith(".json") or "://" in name:
        return Plan(require_url(name))
    path = Path(name)
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(said, dict):
            raise ValueError("it is no JSON object")
        return _plan(path, said)
    except (ValueError, RecursionError) as error:
        raise Unplayable(f"{path}: {error}.") from error


def _plan(path: Path, said: Mapping[str, Any]) -> Plan:
    if unknown := sorted(set(said) - FIELDS):
        raise ValueError(f"it has {unknown[0]!r}, which means nothing: there are {', '.join(sorted(FIELDS))}")
    tasks: dict[str, Task] = {}
    for number, one in enumerate(said.get("tasks", ()), 1):
        task = _task(path, number, one)
        if task.id in tasks:
            raise ValueError(f"task {number}: an earlier task is {task.id} too")
        tasks[task.id] = task
    horizon, answer_s = said.get("horizon"), said.get("answer_s", 60.0)
    if horizon is not None and (type(horizon) is not int or not 1 <= horizon <= 1000):
        raise ValueError(f"horizon is 1 to 1000 replies, and not {horizon!r}")
    if isinstance(answer_s, bool) or not isinstance(answer_s, int | float) or not 0 < answer_s <= 3600:
        raise ValueError(f"answer_s is a number of seconds up to 3600, and not {answer_s!r}")
    return Plan(
        url=require_url(str(said.get("url", ""))),
        rewards=_rewards(said.get("rewards", {})),
        prompt=str(said.get("prompt", "")),
        horizon=horizon,
        answer_s=float(answer_s),
        tasks=tuple(tasks.values()),
    )


def _rewards(said: Any) -> Rewards:
    if not isinstance(said, dict) or not set(said) <= {"lowest", "highest", "counts"}:
        raise ValueError("rewards has lowest, highest and counts")
    found = Rewards(said.get("lowest", -1.0), said.get("highest", 1.0), said.get("counts", "last"))
    bounds = (found.lowest, found.highest)
    if any(isinstance(one, bool) or not isinstance(one, int | float) or not math.isfinite(one) for one in bounds):
        raise ValueError("rewards.lowest and rewards.highest are numbers")
    if found.lowest >= found.highest or found.counts not in ("last", "sum"):
        raise ValueError('rewards.lowest is below rewards.highest, and rewards.counts is "last" or "sum"')
    return found


def _task(path: Path, number: int, said: Any) -> Task:
    if not isinstance(said, dict) or not set(said) <= {"id", "split", "reset"}:
        raise ValueError(f"task {number} has id, split and reset")
    own, split, reset = said.get("id"), said.get("split"), said.get("reset", {})
    if not isinstance(own, str) or not 1 <= len(own) <= 100 or name_fault(own):
        raise ValueError(f"task {number}: id is a name of 1 to 100 characters that are all seen")
    if split not in ("train", "heldout"):
        raise ValueError(f"task {number}: split is train or heldout, and not {split!r}")
    if not isinstance(reset, dict):
        raise ValueError(f"task {number}: reset is a JSON object")
    return Task("openenv", f"{path.stem[:60]}-{own}", split, {"reset": reset})
