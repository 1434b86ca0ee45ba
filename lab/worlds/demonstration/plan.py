"""How much is played: tasks, attempts, updates, and the marks at which held-out tasks examine."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lab.worlds.demonstration.arms import Arm

ALIKE = 0.05
"""Arms may sample so much more or less than one another, as a share, and be compared."""

MOST_MORE = 0.5
"""Further updates that an arm with shorter attempts may have at most, as a share of the plan's."""


@dataclass(frozen=True)
class Plan:
    """A whole run. The same plan plays the same tasks with the same seeds."""

    arms: tuple[Arm, ...]
    seeds: tuple[int, ...] = (1,)
    updates: int = 10
    tasks: int = 4
    """Of an update; each is a group."""
    attempts: int = 8
    """At each of them, by the same weights."""
    heldout: int = 100
    """Tasks that examine, one attempt each; the same for all arms, seeds and marks."""
    every: int = 5
    """Updates between two examinations."""
    world: str = "till"
    """A name of lab.worlds.rows."""
    max_tokens: int = 24
    """Of a reply."""
    model: str = ""
    """The warm model."""

    @property
    def batch(self) -> int:
        """Attempts of an update."""
        return self.tasks * self.attempts

    @property
    def marks(self) -> tuple[int, ...]:
        """Updates after which held-out tasks are played.

        >>> Plan((), updates=12, every=5).marks
        (0, 5, 10, 12)
        """
        return (*range(0, self.updates, self.every), self.updates)

    @property
    def most_updates(self) -> int:
        return self.updates + math.ceil(MOST_MORE * self.updates)

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"marks": list(self.marks), "batch": self.batch}


def apart(sampled: Mapping[str, int]) -> float:
    """How far sampled tokens of arms lie apart: the least as a share below the most; 0.0 of none.

    >>> round(apart({"outcome": 950, "index": 1000}), 3), apart({})
    (0.05, 0.0)
    """
    return 1 - min(sampled.values()) / max(sampled.values()) if sampled and max(sampled.values()) else 0.0


def is_owed(sampled: int, others: Mapping[str, int], last: int) -> bool:
    """Whether an arm that sampled so many tokens is to play one more update before it is compared with others: it lies
    further behind the one with most than ALIKE, and one more, of about `last`, brings it nearer.

    >>> is_owed(900, {"index": 1000}, 90), is_owed(960, {"index": 1000}, 90), is_owed(900, {"index": 1000}, 250)
    (True, False, False)
    """
    most = max(others.values(), default=0)
    return sampled < (1 - ALIKE) * most and abs(sampled + last - most) < most - sampled
