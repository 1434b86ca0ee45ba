"""Items of the general pack that changed sides, and how nearly the base had them either way. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from core.statistics import Pair

Row = Mapping[str, Any]

TIE = 0.1
"""Nats a token: where the base's right answer leads by less, a lesson about something else may turn it."""

DIGITS = 4
"""Of a lead in nats: what engines round otherwise is no difference."""


@dataclass(frozen=True)
class Item:
    """One item, as the base has it and as an arm has it with each seed."""

    prompt: str
    answer: str
    was_right: bool
    lead: float
    """How much likelier the base finds the right answer than the likeliest wrong one, in nats a token."""
    after: Mapping[int, Row]
    """The arm's row of it, by seed."""

    @property
    def crossed(self) -> list[int]:
        """The seeds with which the arm has it the other way."""
        return sorted(seed for seed, row in self.after.items() if row["right"] != self.was_right)

    @property
    def is_tie(self) -> bool:
        return round(abs(self.lead), DIGITS) < TIE

    def told(self) -> dict[str, Any]:
        """As report.json has it, its lead afterwards as the mean of the seeds with which it crossed."""
        return {
            "prompt": self.prompt,
            "answer": self.answer,
            "was_right": self.was_right,
            "seeds": self.crossed,
            "lead_before": round(self.lead, DIGITS),
            "lead_after": round(mean(self.after[seed]["lead"] for seed in self.crossed), DIGITS),
        }


def items(before: Sequence[Row], after: Mapping[Pair, Row]) -> list[Item]:
    """Of the base's rows, asked once, and an arm's with every seed."""
    of: dict[str, dict[int, Row]] = {}
    for pair, row in after.items():
        of.setdefault(pair.prompt, {})[pair.seed] = row
    return [
        Item(row["task"]["prompt"], row["task"]["right"], row["right"], row["lead"], of.get(str(row["task"]["id"]), {}))
        for row in before
    ]


def counted(found: Sequence[Item]) -> dict[str, float]:
    """How many were lost and won, a seed, and how many of those lost were nearly a tie. A seed that was asked a part
    counts as that part."""
    asked = sum(len(item.after) for item in found) / len(found)
    lost = [item for item in found if item.was_right]
    return {
        "lost": sum(len(item.crossed) for item in lost) / asked,
        "ties": sum(len(item.crossed) for item in lost if item.is_tie) / asked,
        "won": sum(len(item.crossed) for item in found if not item.was_right) / asked,
    }


def told(found: Sequence[Item]) -> list[dict[str, Any]]:
    """Those that crossed: the lost ones first, and of each those of most seeds and of the plainest lead first."""
    crossed = [item for item in found if item.crossed]
    crossed.sort(key=lambda item: (not item.was_right, -len(item.crossed), -abs(item.lead)))
    return [item.told() for item in crossed]
