"""Say how many rows there are to be of each kind, and draw the words and numbers in them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate, islice
from typing import Any

from django.db import models

from benchmarks.talks import WORDS

DAYS = 365
"""For how long the installation was in use."""

START = (
    "b",
    "c",
    "d",
    "f",
    "g",
    "h",
    "k",
    "l",
    "m",
    "n",
    "p",
    "r",
    "s",
    "t",
    "v",
    "w",
    "z",
    "br",
    "cl",
    "dr",
    "gr",
    "st",
)
MIDDLE = "aeiou"
END = ("l", "m", "n", "r", "s", "t", "nd", "rk")
CODE = "```python\ndef area(width, height):\n    return width * height\n\n\nprint(area(3, 4))\n```"
FORMULA = "The area is $A = w \\cdot h$, and the diagonal\n\n$$d = \\sqrt{w^2 + h^2}$$"


@dataclass(frozen=True)
class Amounts:
    """How many rows there are to be; what is not named here follows from these."""

    turns: int = 100_000
    chats: int = 1_000
    checkpoints: int = 500
    people: int = 40
    episodes: int = 2_000
    """Attempts of agents, of five turns each, beside the others."""
    deeds: int = 5_000
    """Rows of the audit log."""


class Draw:
    """Seeded words and figures: with the same seed the same rows."""

    def __init__(self, seed: int, now: datetime) -> None:
        self.random, self.now = random.Random(seed), now
        rare = {self._make_word() for _ in range(6_000)}
        self.words = [*WORDS, *sorted(rare)]
        likely = [*accumulate(1 / (place + 3) for place in range(len(self.words)))]
        self.sentences = [
            " ".join(self.random.choices(self.words, cum_weights=likely, k=self.random.randint(6, 16))).capitalize()
            + "."
            for _ in range(4_000)
        ]

    def _make_word(self) -> str:
        draw = self.random.choice
        return "".join(draw(START) + draw(MIDDLE) for _ in range(self.random.randint(1, 3))) + draw(END)

    def question(self) -> str:
        return self.random.choice(self.sentences).rstrip(".") + "?"

    def wish(self) -> str:
        return f"Say it {self.random.choice(('in short', 'with an example', 'plainly', 'in one sentence'))}."

    def reply(self) -> str:
        """Some sentences; one in fifteen has code, one in forty mathematics."""
        said = " ".join(self.random.choices(self.sentences, k=self.random.randint(2, 7)))
        fate = self.random.random()
        return f"{said}\n\n{CODE}" if fate < 1 / 15 else f"{said}\n\n{FORMULA}" if fate < 1 / 15 + 1 / 40 else said

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def moment(self, share: float) -> datetime:
        """When so much of the time was over: 0 is a year ago, 1 now."""
        return self.now - timedelta(days=DAYS * (1 - share))


def write(rows: Iterable[models.Model], size: int = 1_000) -> None:
    """Store rows of one model, so many at once."""
    left = iter(rows)
    while some := list(islice(left, size)):
        type(some[0])._default_manager.bulk_create(some)


def shares(total: int, count: int) -> list[int]:
    """`total` in `count` parts, of which the first are many times as large as the last; each is at least 1.

    >>> shares(100, 4), sum(shares(100_000, 1_000)) - 100_000
    ([28, 26, 24, 22], 0)
    """
    weights = [1 / (place + 30) for place in range(count)]
    whole, ends, so_far = sum(weights), [], 0.0
    for weight in weights:
        so_far += weight
        ends.append(math.floor(total * so_far / whole + 1e-9))
    parts = [after - before for before, after in zip([0, *ends], ends, strict=False)]
    return [max(1, part) for part in parts]


def every(count: int, make: Callable[[int], Any]) -> list[Any]:
    return [make(number) for number in range(count)]
