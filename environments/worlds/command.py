"""python -m environments worlds play"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import get_args

from core.visible import escape_hidden
from environments.client import KEY, Client
from environments.errors import Unplayable
from environments.worlds.answers import Check
from environments.worlds.base import Split, Task, World
from environments.worlds.choosing import FORMS, open_world
from environments.worlds.curriculum import Kept
from environments.worlds.harness import Sampling
from environments.worlds.played import Played, table
from environments.worlds.player import LEASE_S, Way, play
from environments.worlds.progress import Progress
from environments.worlds.width import Width

PATIENCE_S = 600.0
"""How long a request is tried again, as while Talkback is started anew."""
STOPPED = 130
"""The status of a night that was stopped by a signal."""


def add_worlds(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    worlds = verbs.add_parser("worlds", help="agents that play tasks with an outcome")
    playing = worlds.add_subparsers(required=True).add_parser("play", help="play groups of attempts, each once")
    playing.add_argument("--world", required=True, help=FORMS)
    playing.add_argument("--answers", choices=get_args(Check), default="math", help="how interpreter compares them")
    playing.add_argument("--groups", type=_at_least(1), default=16, help="tasks")
    playing.add_argument("--attempts", type=_at_least(1), default=8, help="at each task")
    playing.add_argument("--parallel", type=_at_least(1), help="attempts at once; left out: what the world is made for")
    playing.add_argument("--split", choices=get_args(Split), default="train")
    playing.add_argument("--seed", type=int, default=1, help="decides tasks and draws; two checkpoints draw alike")
    playing.add_argument("--night", default="", help="what its groups are named by; left out: the seed")
    playing.add_argument("--model", help="name@number that is to play; left out: what answers the key")
    playing.add_argument("--temperature", type=float, default=1.0)
    playing.add_argument("--max-tokens", type=_at_least(1), default=256, help="the longest reply")
    playing.add_argument("--tasks", nargs="+", metavar="ID", help="only these of the tasks that are drawn")
    playing.add_argument("--keep", metavar="FOLDER", type=Path, help="play what is always or never solved less often")
    playing.add_argument(
        "--lease", type=_at_least(5), default=LEASE_S, metavar="S", help="after which a player is dead"
    )
    playing.add_argument("--url", default="http://localhost:8000", help="where Talkback answers")
    playing.add_argument("--key", default=os.environ.get(KEY, ""), help=f"with the scope episodes, or in {KEY}")
    playing.add_argument("--json", action="store_true", help="each attempt as a JSON line instead of the table")
    playing.set_defaults(run=run)


async def run(said: argparse.Namespace) -> int:
    """Play a night, and return the command's status."""
    if not said.key:
        made = "`python manage.py create_key --name play --scope chat --scope episodes` makes one"
        raise Unplayable(f"Give an API key with --key or in {KEY}; {made}.")
    world = open_world(said.world, said.answers)
    kept = Kept(said.keep, world) if said.keep else None
    tasks = _tasks(said, world, kept)
    width = Width(min(said.parallel or world.parallel, len(tasks) * said.attempts))
    progress = Progress(len(tasks) * said.attempts, width, sys.stderr)
    every: list[Played] = []

    def note(played: Played) -> None:
        every.append(played)
        progress.note(played)
        if kept is not None:
            kept.note(played)
        if said.json:
            print(escape_hidden(json.dumps(played.row(), ensure_ascii=False)), flush=True)

    way = Way(
        seed=said.seed,
        night=said.night,
        sampling=Sampling(said.temperature, said.max_tokens),
        lease_s=said.lease,
        model=said.model,
    )
    is_stopped = False
    try:
        async with Client(said.url, said.key, patience_s=PATIENCE_S) as client:
            with stopping_by(signal.SIGTERM, signal.SIGINT):
                await play(client, world, tasks, said.attempts, way=way, width=width, on_played=note)
    except asyncio.CancelledError:
        is_stopped = True
    finally:
        progress.end()
    if not said.json:
        print(table(every))
    if is_stopped:
        print("Stopped. The same command goes on with what was not begun.", file=sys.stderr)
    return STOPPED if is_stopped else 0


def _tasks(said: argparse.Namespace, world: World, kept: Kept | None) -> list[Task]:
    if kept is not None and said.split == "train":
        drawn = kept.tasks(said.split, said.groups, said.seed, said.night)
    else:
        drawn = world.tasks(said.split, said.groups, said.seed)
    if not said.tasks:
        return drawn
    if missing := set(said.tasks) - {task.id for task in drawn}:
        raise Unplayable(f"--tasks {min(missing)}: it is not among those that --groups and --seed draw.")
    return [task for task in drawn if task.id in said.tasks]


class stopping_by:
    """Within this, the first of these signals cancels the task at work; the next one ends the process as usual."""

    def __init__(self, *signals: signal.Signals) -> None:
        self._signals = signals

    def __enter__(self) -> None:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None

        def stop() -> None:
            self.__exit__()
            task.cancel()

        with suppress(NotImplementedError, RuntimeError, ValueError):  # not in the main thread: its owner has signals
            for one in self._signals:
                loop.add_signal_handler(one, stop)

    def __exit__(self, *_: object) -> None:
        with suppress(NotImplementedError, RuntimeError, ValueError):
            for one in self._signals:
                asyncio.get_running_loop().remove_signal_handler(one)


def _at_least(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if (value := int(text)) < least:
            raise argparse.ArgumentTypeError(f"{value} is less than {least}")
        return value

    return number
