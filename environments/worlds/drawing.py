"""Draw tasks of a world of which it is not known how many it has."""

from __future__ import annotations

from environments.errors import Unplayable
from environments.worlds.base import Split, Task, World


def draw(world: World, split: Split, count: int, seed: int) -> list[Task]:
    """`count` tasks of a split, or as many as there are. Raises Unplayable where there is none."""
    try:
        return world.tasks(split, count, seed)
    except Unplayable:
        if count == 1:
            raise
    least, most = 1, count  # there may be `least`, and there are fewer than `most`
    while most - least > 1:
        middle = (least + most) // 2
        try:
            world.tasks(split, middle, seed)
        except Unplayable:
            most = middle
        else:
            least = middle
    return world.tasks(split, least, seed)
