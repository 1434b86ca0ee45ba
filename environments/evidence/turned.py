"""Items of the general pack that changed sides, and how nearly the base had them either way. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from environments.evidence.figures import Pair

Row = Mapping[str, Any]

TIE = 0.1
"""Nats a token: where the base's right answer leads by less, a lesson about something else may turn it."""


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
    def turned(self) -> list[int]:
        """The seeds with which the arm has it the other way."""
        return sorted(seed for seed, row in self.after.items() if row["right"] != self.was_right)

    @property
    def is_lost(self) -> bool:
        return self.was_right and bool(self.turned)

    def told(self) -> dict[str, Any]:
        """As report.json has it, its lead afterwards as the mean of the seeds with which it turned."""
        return {
            "prompt": self.prompt,
            "answer": self.answer,
            "lost": self.was_right,
            "seeds": self.turned,
            "lead_before": round(self.lead, 4),
            "lead_after": round(mean(self.after[seed]["lead"] for seed in self.turned), 4),
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


def counted(found: Sequence[Item], seeds: int) -> dict[str, float]:
    """How many were lost and won, a seed, and how many of those lost were nearly a tie."""
    lost = [item for item in found if item.is_lost]
    return {
        "lost": sum(len(item.turned) for item in lost) / seeds,
        "ties": sum(len(item.turned) for item in lost if item.lead < TIE) / seeds,
        "won": sum(len(item.turned) for item in found if not item.was_right) / seeds,
    }


def told(found: Sequence[Item]) -> list[dict[str, Any]]:
    """Those that changed sides: the lost ones first, and of each those of most seeds and of the plainest lead first."""
    turned = [item for item in found if item.turned]
    turned.sort(key=lambda item: (not item.was_right, -len(item.turned), -abs(item.lead)))
    return [item.told() for item in turned]
