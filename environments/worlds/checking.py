"""python3 -m environments worlds check FOLDER | --world NAME"""

from __future__ import annotations

import argparse
import asyncio

from environments.errors import Unplayable
from environments.worlds.checks import report
from environments.worlds.choosing import open_world
from environments.worlds.harbor import checking


def add_check_plan(parser: argparse.ArgumentParser) -> None:
    checking.add_check_plan(parser)
    parser.add_argument("--world", metavar="NAME", help="the tasks of a world in place of a folder, as play takes it")


async def check(said: argparse.Namespace) -> int:
    """Check the tasks of the folder or world that is named. 1 where one cannot be played."""
    if (said.world is None) == (said.folder is None):
        raise Unplayable("worlds check takes a folder of tasks, or --world NAME.")
    if said.folder is not None:
        return await checking.check_folders(said)
    found = open_world(said.world).check()
    return await asyncio.to_thread(report, found, as_json=said.json, with_notes=said.notes)
