"""Play what the gate asks for: held-out tasks, with a candidate and with what it is held against."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TextIO

from environments.client import Client, Refused
from environments.errors import Unplayable
from environments.worlds.base import World
from environments.worlds.choosing import FORMS, open_world
from environments.worlds.drawing import draw
from environments.worlds.harness import Sampling
from environments.worlds.night import PATIENCE_S, add_sampling, at_least, held_at_once, require_key
from environments.worlds.played import Played, table
from environments.worlds.player import LEASE_S, Way, play
from environments.worlds.progress import Progress, Troubles
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


def add_exam_plan(parser: argparse.ArgumentParser) -> None:
    """Add which exams are played, and how."""
    parser.add_argument(
        "--world", nargs="+", default=[], help=f"play exams in these alone: {FORMS}; left out: in each that has a name"
    )
    parser.add_argument("--parallel", type=at_least(1), help="attempts at once; left out: what the world is made for")
    parser.add_argument("--watch", type=at_least(1), metavar="S", help="do not end, and ask again after so many s")
    add_sampling(parser)


async def play_exams(
    said: argparse.Namespace, url: str, key: str, on_played: Callable[[Played], object], out: TextIO
) -> None:
    """Play what the gate asks for; with `said.watch` again and again. Each attempt that ends is told to `on_played`,
    and progress, and how each of the two did, to `out`. Raises as `play_exam` does."""
    require_key(key)
    worlds = {world.name: world for world in map(open_world, said.world)}
    seen: set[int] = set()
    async with Client(url, key, patience_s=PATIENCE_S, on_trouble=Troubles(out)) as client:
        while True:
            for exam in await list_open(client):
                if exam.id not in seen:
                    seen.add(exam.id)
                    await _play(client, exam, worlds, said, on_played, out)
            if not said.watch:
                break
            await asyncio.sleep(said.watch)
    if not seen:
        print("The gate asks for nothing now.", file=out)


async def _play(
    client: Client,
    exam: Exam,
    worlds: dict[str, World],
    said: argparse.Namespace,
    on_played: Callable[[Played], object],
    out: TextIO,
) -> None:
    """Play one exam, or say why another player has to."""
    try:
        if worlds and exam.world not in worlds:
            raise Unplayable(f"--world names {', '.join(worlds)} alone.")
        world = worlds.get(exam.world) or open_world(exam.world)
    except Unplayable as error:
        print(f"{exam} is left to another player: {error}", file=out)
        return
    print(exam, file=out)
    width = Width(min(held_at_once(said.parallel, world, out), exam.tasks * exam.attempts))
    progress = Progress(len(exam.models) * exam.tasks * exam.attempts, width, out)

    def note(played: Played) -> None:
        progress.note(played)
        on_played(played)

    sampling = Sampling(said.temperature, said.max_tokens)
    try:
        async with progress:
            played = await play_exam(
                client, world, exam, width=width, sampling=sampling, lease_s=said.lease, on_played=note
            )
    except Refused as refused:
        if refused.said != "exam_over":  # the gate, or a person, was quicker
            raise
        print(refused, file=out)
        return
    for model, each in played.items():
        print(f"{model}\n{table(each)}", file=out)


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
    tasks = draw(world, "heldout", exam.tasks, exam.seed)
    played: dict[str, list[Played]] = {}
    for model in exam.models:
        way = Way(seed=exam.seed, night=exam.night, sampling=sampling, lease_s=lease_s, model=model)
        played[model] = await play(client, world, tasks, exam.attempts, way=way, width=width, on_played=on_played)
    if len(tasks) < exam.tasks:
        why = f"{world.name} has {len(tasks)} held-out tasks, and {exam.tasks} were asked for."
        await client.close_exam(exam.id, why)
    return played
