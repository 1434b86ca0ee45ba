"""Which tasks are played: those that are always or never solved less often, and none of them never."""

from __future__ import annotations

import json
import os
import random
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from core.textfiles import read_text
from environments.errors import Unplayable
from environments.worlds.base import Split, Task, World
from environments.worlds.played import Played

CHOICE = 4
"""Tasks to choose from, for each that is played."""
LEAST = 0.1
"""The weight of a task that is always or never solved, where one of which nothing is known has 1."""

Counts = Mapping[str, tuple[int, int]]
"""{task: (attempts that counted, solved)}"""


def weight(counted: int, solved: int) -> float:
    """How often a task is drawn: 4 p (1 - p) of its rate p of success, which begins at a half and counts two attempts.

    >>> [round(weight(*of), 2) for of in ((0, 0), (8, 4), (8, 8), (8, 0), (100, 100))]
    [1.0, 1.0, 0.36, 0.36, 0.1]
    """
    rate = (solved + 1) / (counted + 2)
    return max(LEAST, 4 * rate * (1 - rate))


def choose(tasks: Sequence[Task], count: int, known: Counts, seed: int) -> list[Task]:
    """Draw `count` of these by their weights, each at most once."""
    draw = random.Random(f"curriculum {seed}")
    keys = {task.id: draw.random() ** (1 / weight(*known.get(task.id, (0, 0)))) for task in tasks}
    return sorted(tasks, key=lambda task: -keys[task.id])[:count]


class Kept:
    """What is known of a world's tasks, and which were chosen for a night, in a folder of the player's.

    One player at a time writes it. Each file is whole whenever it is read.
    """

    def __init__(self, folder: Path, world: World) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._world = folder, world
        self._file = folder / f"{_file_name(world.name)}.json"
        self._told: dict[str, Any] = _read(self._file)

    @property
    def counts(self) -> Counts:
        return {task: (int(of[0]), int(of[1])) for task, of in self._told.get("tasks", {}).items()}

    def tasks(self, split: Split, count: int, seed: int, night: str) -> list[Task]:
        """The tasks of a night: as they were chosen for it before, else chosen now. Raises Unplayable."""
        many = _draw(self._world, split, count, seed)
        nights = self._told.setdefault("nights", {})
        name = f"{night} {split} {seed} {count}"
        if name not in nights:
            nights[name] = [task.id for task in choose(many, count, self.counts, seed)]
            self._write()
        by_id = {task.id: task for task in many}
        if missing := [one for one in nights[name] if one not in by_id]:
            raise Unplayable(f"{self._file} names task {missing[0]} for this night, and the world has it no more.")
        return [by_id[one] for one in nights[name]]

    def note(self, played: Played) -> None:
        """Count an attempt that has ended."""
        if played.counts:
            counted, solved = self.counts.get(played.task, (0, 0))
            tasks = self._told.setdefault("tasks", {})
            tasks[played.task] = [counted + 1, solved + (played.status == "solved")]
            self._write()

    def _write(self) -> None:
        with tempfile.NamedTemporaryFile("w", dir=self._folder, delete=False, encoding="utf-8") as file:
            json.dump(self._told, file, ensure_ascii=False)
        os.replace(file.name, self._file)


def _draw(world: World, split: Split, count: int, seed: int) -> list[Task]:
    """CHOICE times as many as are wanted, or as many as there are. Raises Unplayable where there are too few."""
    for times in range(CHOICE, 1, -1):
        try:
            return world.tasks(split, times * count, seed)
        except Unplayable:
            continue
    return world.tasks(split, count, seed)


def _file_name(world: str) -> str:
    return "".join(sign if sign.isalnum() or sign in "-_." else "-" for sign in world)


def _read(file: Path) -> dict[str, Any]:
    try:
        told = json.loads(read_text(file))
        if not isinstance(told, dict):
            raise ValueError("it is no JSON object")
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise Unplayable(f"{file} cannot be read ({error}): move it away, and counting begins anew.") from error
    return told
