"""python -m environments worlds check FOLDER | --world NAME"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from environments.errors import Unplayable
from environments.worlds.choosing import open_world
from environments.worlds.harbor import checking
from environments.worlds.harbor.checking import Checked, check_folders, report


@runtime_checkable
class Checkable(Protocol):
    """A world that can say of each task whether it can be played."""

    def check(self) -> Iterator[Checked]: ...


def add_check_plan(parser: argparse.ArgumentParser) -> None:
    checking.add_check_plan(parser)
    parser.add_argument(
        "--world", metavar="NAME", help="the tasks of a world in place of a folder: mcp:FILE, openenv:URL"
    )


async def check(said: argparse.Namespace) -> int:
    """Check what the command names. 1 where a task cannot be played."""
    if said.world is None:
        if said.folder is None:
            raise Unplayable("Name a folder of tasks, or a world with --world.")
        return await check_folders(said)
    world = open_world(said.world)
    if not isinstance(world, Checkable):
        raise Unplayable(f"--world {said.world}: this kind of world has no check.")
    return await asyncio.to_thread(report, world.check(), as_json=said.json, with_notes=said.notes)
