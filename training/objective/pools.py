"""What runs learn beside their lesson: some of it in each update, out of all that the judge gives. Training renders
nothing, so it is asked for as the model that is served here reads it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar


class Read(Protocol):
    @property
    def tokens(self) -> int:
        """As many as a model reads of it."""


Row = TypeVar("Row", bound=Read)


@dataclass
class Pool(Generic[Row]):
    """Rows of a kind, `at_once` of them an update."""

    at_once: int
    known: Callable[[], Sequence[Row]] = field(default=lambda: ())

    def ask_of_judge(self, known: Callable[[], Sequence[Row]]) -> None:
        """Have `known` asked for all that there are."""
        self.known = known

    def drawn(self, updates: int, seed: int, known: Sequence[Row] | None = None) -> list[Row]:
        """Those of a run, none twice while there are as many; the same seed draws the same of the same. Out of `known`,
        or else of what the judge gives."""
        known = self.known() if known is None else known
        return random.Random(seed).sample(known, min(self.at_once * updates, len(known)))

    def of_update(self, drawn: Sequence[Row], update: int) -> list[Row]:
        """Those of a run's update, counted from 1: the next ones, from the first again after the last."""
        count = min(self.at_once, len(drawn))
        first = (update - 1) * count
        return [drawn[at % len(drawn)] for at in range(first, first + count)]

    def tokens(self) -> int:
        """About as many as an update reads of them, once: which it draws is seen when it begins."""
        known = self.known()
        return round(sum(one.tokens for one in known) / len(known) * min(self.at_once, len(known))) if known else 0
