"""Which page kinds can be played here: each loads, reads the same from the same seed, and offers what can be acted on.

python3 -m environments worlds check --world browser
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import starmap

from environments.errors import Unplayable
from environments.worlds.base import Task, World, WorldFailed
from environments.worlds.checks import Checked

AT_ONCE = 3


def check_kinds(world: World, kinds: Mapping[str, Sequence[Task]], unplayed: Mapping[str, str]) -> Iterator[Checked]:
    """Check each page kind by its tasks, of which there are two; then name those that are known not to be playable."""

    def one(kind: str) -> Checked:
        start = time.monotonic()
        try:
            fault, is_lasting = _fault(world, kinds[kind]), True
        except WorldFailed as error:
            fault, is_lasting = str(error), False
        except Unplayable as error:
            fault, is_lasting = str(error), True
        return Checked(kind, fault, seconds=round(time.monotonic() - start, 2), is_lasting=is_lasting)

    with ThreadPoolExecutor(AT_ONCE) as threads:
        yield from threads.map(one, kinds)
    yield from starmap(Checked, unplayed.items())


def _fault(world: World, tasks: Sequence[Task]) -> str:
    """Why a page kind cannot be played; empty where it can. Raises WorldFailed, Unplayable."""
    first, again, other = (_open(world, task) for task in (tasks[0], *tasks))
    if first != again:
        return "The same seed gave another page: it draws from what is not Math.random."
    if "[1] " not in first and "[1] " not in other:
        return "It has no element that an agent can act on."
    return ""


def _open(world: World, task: Task) -> str:
    with world.open(task, 1) as attempt:
        return str(attempt.opening[1]["content"])
