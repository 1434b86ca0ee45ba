"""One night: what is to be played, as a command or a message says it, and how it is carried out."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TextIO, get_args

from environments.client import KEY, Client
from environments.errors import Unplayable
from environments.worlds.answers import Check
from environments.worlds.base import Split, Task, World
from environments.worlds.choosing import FORMS, open_world
from environments.worlds.curriculum import Kept
from environments.worlds.drawing import draw
from environments.worlds.harness import Sampling
from environments.worlds.harnesses.visit import FILES_AT, Harness
from environments.worlds.played import Played
from environments.worlds.player import LEASE_S, Way, play
from environments.worlds.progress import Progress, Troubles
from environments.worlds.width import Width

GROUPS = 16
"""How many tasks are played where `--groups` is left out."""
PATIENCE_S = 600.0
"""How long a request is tried again, as while Talkback is started anew."""


def add_plan(parser: argparse.ArgumentParser) -> None:
    """Add what a night is made of."""
    parser.add_argument("--world", required=True, help=FORMS)
    parser.add_argument("--answers", choices=get_args(Check), default="math", help="how interpreter compares them")
    parser.add_argument("--groups", type=at_least(1), help=f"tasks; left out: {GROUPS}, or as many as there are")
    parser.add_argument("--attempts", type=at_least(1), default=8, help="at each task")
    parser.add_argument("--parallel", type=at_least(1), help="attempts at once; left out: what the world is made for")
    parser.add_argument("--split", choices=get_args(Split), default="train")
    parser.add_argument("--seed", type=int, default=1, help="decides tasks and draws; two checkpoints draw alike")
    parser.add_argument("--night", default="", help="what its groups are named by; left out: the seed")
    parser.add_argument("--model", help="name@number that is to play; left out: what answers the key")
    parser.add_argument("--tasks", nargs="+", metavar="ID", help="only these of the tasks that are drawn")
    parser.set_defaults(harness=None)
    parser.add_argument("--keep", metavar="FOLDER", type=Path, help="play what is always or never solved less often")
    parser.add_argument("--pictures", metavar="FOLDER", type=Path, help="keep screenshots of the world browser here")
    parser.add_argument("--no-pictures", action="store_true", help="let a model that sees play by words alone")
    add_sampling(parser)


def add_harness(parser: argparse.ArgumentParser) -> None:
    """Add what plays instead of our own tool loop. No message to a host has it: it runs what it says."""
    parser.add_argument("--harness", metavar="COMMAND", help="a command that plays, by OPENAI_BASE_URL and its own key")
    parser.add_argument(
        "--harness-files", metavar="FOLDER", type=Path, help=f"what it needs, seen read-only at {FILES_AT}"
    )
    parser.add_argument("--harness-limit", metavar="S", type=at_least(1), help="its time; left out: the task's own")
    parser.add_argument(
        "--harness-outside", action="store_true", help="run it here, as you, on a copy of the work: no sandbox holds it"
    )


def add_sampling(parser: argparse.ArgumentParser) -> None:
    """Add how each attempt is played."""
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--max-tokens", type=at_least(1), default=256, help="the longest reply")
    parser.add_argument("--lease", type=at_least(5), default=LEASE_S, metavar="S", help="then a silent player is dead")


async def play_night(
    said: argparse.Namespace,
    url: str,
    key: str,
    on_played: Callable[[Played], object],
    out: TextIO,
    *,
    most: int | None = None,
) -> None:
    """Play what is said, of `most` attempts at once. Each that ends is told to `on_played`, and progress to `out`.
    Raises as `play` does, and Unplayable where what is said cannot be played."""
    require_key(key)
    world = open_world(said.world, said.answers, said.pictures)
    kept = Kept(said.keep, world) if said.keep else None
    tasks = _tasks(said, world, kept)
    wanted = min(held_at_once(said.parallel, world, out), len(tasks) * said.attempts)
    width = Width(min(wanted, most) if most else wanted)
    progress = Progress(len(tasks) * said.attempts, width, out)

    def note(played: Played) -> None:
        progress.note(played)
        if kept is not None:
            kept.note(played)
        on_played(played)

    way = Way(
        seed=said.seed,
        night=said.night,
        sampling=Sampling(said.temperature, said.max_tokens),
        lease_s=said.lease,
        model=said.model,
        harness=_harness(said) if said.harness is not None else None,
        pictures=not said.no_pictures,
    )
    async with Client(url, key, patience_s=PATIENCE_S, on_trouble=Troubles(out)) as client:
        print(
            f"World {world.name}, {len(tasks)} × {said.attempts} attempts. {client.url}/worlds/ plays them back.",
            file=out,
        )
        async with progress:
            await play(client, world, tasks, said.attempts, way=way, width=width, on_played=note)


def held_at_once(asked: int | None, world: World, out: TextIO) -> int:
    """Attempts at once: as many as `--parallel` asks for, or the world is made for, and can hold. Said where these are
    fewer than were asked for."""
    wanted = asked or world.parallel
    if world.most is None or wanted <= world.most:
        return wanted
    print(f"--parallel {wanted}: the world {world.name} holds {world.most} attempts at once.", file=out)
    return world.most


def _tasks(said: argparse.Namespace, world: World, kept: Kept | None) -> list[Task]:
    count = said.groups or len(draw(world, said.split, GROUPS, said.seed))
    if kept is not None and said.split == "train":
        drawn = kept.tasks(said.split, count, said.seed, said.night)
    else:
        drawn = world.tasks(said.split, count, said.seed)
    if not said.tasks:
        return drawn
    if missing := set(said.tasks) - {task.id for task in drawn}:
        raise Unplayable(f"--tasks {min(missing)}: it is not among those that --groups and --seed draw.")
    return [task for task in drawn if task.id in said.tasks]


def _harness(said: argparse.Namespace) -> Harness:
    if said.harness_files and not said.harness_files.is_dir():
        raise Unplayable(f"--harness-files {said.harness_files}: there is no such folder.")
    return Harness(said.harness, said.harness_files, said.harness_limit, said.harness_outside)


def require_key(key: str) -> None:
    """Raises Unplayable where none was given."""
    if not key:
        made = "`python3 manage.py create_key --name play --scope chat --scope episodes` makes one"
        raise Unplayable(f"Give an API key with --key or in {KEY}; {made}.")


def at_least(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if (value := int(text)) < least:
            raise argparse.ArgumentTypeError(f"{value} is less than {least}")
        return value

    return number
