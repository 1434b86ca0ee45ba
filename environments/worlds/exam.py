"""Play what the gate asks for: held-out tasks, with a candidate and with what it is held against."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from environments.client import Client
from environments.errors import Unplayable
from environments.worlds.base import Task, World
from environments.worlds.harness import Sampling
from environments.worlds.played import Played
from environments.worlds.player import LEASE_S, Way, play
from environments.worlds.width import Width


@dataclass(frozen=True)
class Exam:
    """What is to be played, as GET /v1/episodes/exams says it."""

    id: int
    world: str
    tasks: int
    attempts: int
    seed: int
    models: tuple[str, ...]
    night: str
    """How the names of its groups begin."""

    @classmethod
    def read(cls, said: Mapping[str, Any]) -> Exam:
        return cls(
            id=int(said["id"]),
            world=str(said["world"]),
            tasks=int(said["tasks"]),
            attempts=int(said["attempts"]),
            seed=int(said["seed"]),
            models=tuple(map(str, said["models"])),
            night=str(said["groups"]).rstrip("/"),
        )

    def __str__(self) -> str:
        return f"exam {self.id}: {' and '.join(self.models)} in {self.world}"


async def list_open(client: Client) -> list[Exam]:
    """What this key's person is asked to play, the longest asked first."""
    return [Exam.read(said) for said in await client.exams()]


async def play_exam(
    client: Client,
    world: World,
    exam: Exam,
    *,
    width: Width | None = None,
    sampling: Sampling,
    lease_s: int = LEASE_S,
    on_played: Callable[[Played], object] | None = None,
) -> dict[str, list[Played]]:
    """Play all of an exam, by model: the same tasks, attempts and seeds with each. What was begun before is not played
    again, so the same call goes on where a player was killed.

    Of a world with fewer held-out tasks all are played, and then the exam is closed: the gate reads what there is.
    Raises what `play` does.
    """
    tasks = draw(world, exam.tasks, exam.seed)
    played: dict[str, list[Played]] = {}
    for model in exam.models:
        way = Way(seed=exam.seed, night=exam.night, sampling=sampling, lease_s=lease_s, model=model)
        played[model] = await play(client, world, tasks, exam.attempts, way=way, width=width, on_played=on_played)
    if len(tasks) < exam.tasks:
        why = f"{world.name} has {len(tasks)} held-out tasks, and {exam.tasks} were asked for."
        await client.close_exam(exam.id, why)
    return played


def draw(world: World, count: int, seed: int) -> list[Task]:
    """`count` held-out tasks, or as many as there are. Raises Unplayable where there is none."""
    try:
        return world.tasks("heldout", count, seed)
    except Unplayable:
        if count == 1:
            raise
    least, most = 1, count  # there may be `least`, and there are fewer than `most`
    while most - least > 1:
        middle = (least + most) // 2
        try:
            world.tasks("heldout", middle, seed)
        except Unplayable:
            most = middle
        else:
            least = middle
    return world.tasks("heldout", least, seed)
