"""What the arms came to: success by update with intervals, the arms against each other, and what may be said. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from core.statistics import Interval, Pair, Values, average, difference, wilson
from lab.evidence.report.intervals import signed, span
from lab.worlds.demonstration.arms import ARMS, USUAL
from lab.worlds.demonstration.plan import ALIKE, apart

AHEAD = 0.15
"""By how much the arm with step values is to be ahead half-way."""
WARM = 0.15
"""What a warm start is to solve of held-out tasks."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Claim:
    """Something the demonstration is to show, and whether it did."""

    text: str
    seen: str
    holds: bool | None
    """None: it cannot be known from this run."""


class Figures:
    """The figures of a plan and its rows (`Side.write`)."""

    def __init__(self, plan: Row, rows: Iterable[Row]) -> None:
        self.plan = plan
        self.rows = list(rows)
        self.arms = [arm["name"] for arm in plan["arms"]]

    def solved(self, arm: str, update: int) -> Values:
        """1.0 where a held-out task was solved, 0.0 where it was not, by seed and task; of one that had to do with the
        world's failure, nothing."""
        return {
            Pair(row["seed"], task): float(is_solved)
            for row in self.rows
            if (row["kind"], row["arm"], row["update"]) == ("exam", arm, update)
            for task, is_solved in row["solved"].items()
        }

    @cached_property
    def curves(self) -> dict[str, dict[int, Interval]]:
        """Success on held-out tasks by arm and update."""
        found: dict[str, dict[int, Interval]] = {}
        for arm in self.arms:
            updates = sorted({row["update"] for row in self.rows if row["kind"] == "exam" and row["arm"] == arm})
            curve = {update: average(solved) for update in updates if (solved := self.solved(arm, update))}
            found |= {arm: curve} if curve else {}
        return found

    @cached_property
    def training(self) -> dict[str, dict[int, Interval]]:
        """Success of the attempts that were to teach, by arm and by how many updates the weights had had that made
        them; attempts at one task are taken for independent, which they are not."""
        found: dict[str, dict[int, Interval]] = {}
        for arm in self.arms:
            rows = [row for row in self.rows if row["kind"] == "update" and row["arm"] == arm]
            for update in sorted({row["update"] for row in rows}):
                here = [row for row in rows if row["update"] == update]
                counted = sum(row["counted"] for row in here)
                if counted:
                    solved = round(sum(row["success"] * row["counted"] for row in here))
                    found.setdefault(arm, {})[update - 1] = Interval(
                        solved / counted, *wilson(solved, counted), counted
                    )
        return found

    def lead(self, update: int, one: str = "index", other: str = "outcome") -> Interval | None:
        """How much more of the same tasks `one` solves than `other`; None where not both were examined there."""
        ones, others = self.solved(one, update), self.solved(other, update)
        both = ones.keys() & others.keys()
        if not both:
            return None
        return difference({pair: ones[pair] for pair in both}, {pair: others[pair] for pair in both})

    def sampled(self, update: int | None = None) -> dict[str, int]:
        """Tokens of replies that were to teach, by arm, over all seeds; up to an update, or in all."""
        found: dict[str, int] = {}
        for row in self.rows:
            if row["kind"] == "update" and (update is None or row["update"] <= update):
                found[row["arm"]] = found.get(row["arm"], 0) + row["tokens"]
        return found

    def updates(self, arm: str) -> int:
        """How many an arm had, of the seed that had most."""
        return max((row["update"] for row in self.rows if row["kind"] == "update" and row["arm"] == arm), default=0)

    @property
    def in_vain(self) -> list[str]:
        """Updates whose run failed, and why."""
        told = [(f"{row['arm']}, seed {row['seed']}, update {row['update']}", row["vain"]) for row in self.rows]
        return [f"{where}: {why}" for where, why in told if why]

    @property
    def marks(self) -> tuple[int, ...]:
        """The plan's, and those at which arms that were owed updates ended."""
        seen = {update for curve in self.curves.values() for update in curve}
        return tuple(sorted(seen | set(self.plan["marks"])))

    @property
    def line(self) -> dict[str, dict[str, float]]:
        """Success by arm and update, for scripts: the last line that `make worlds` prints."""
        return {
            arm: {str(update): round(found.mean, 3) for update, found in curve.items()}
            for arm, curve in self.curves.items()
        }

    def claims(self) -> list[Claim]:
        """What it was to reach."""
        found = []
        starts = [curve[0] for curve in self.curves.values() if 0 in curve]
        if starts:
            least = min(start.mean for start in starts)
            seen = f"{least:.2f} of held-out tasks"
            found.append(Claim(f"The warm model solves at least {WARM:g} before it learns.", seen, least >= WARM))
        if not set(USUAL) <= set(self.arms):
            return found
        half = self.plan["marks"][1:-1] or self.plan["marks"][1:]
        for update in dict.fromkeys((*half[:1], self.plan["updates"])):
            lead = self.lead(update)
            text = f"After {update} updates step values are ahead of the outcome alone" + (
                f" by {AHEAD:g}, and the interval is off 0." if update == half[0] else "."
            )
            wanted = AHEAD if update == half[0] else 0.0
            holds = None if lead is None else lead.mean >= wanted and lead.low > 0
            found.append(Claim(text, signed(asdict(lead)) if lead else "not played", holds))
        spent = {arm: tokens for arm, tokens in self.sampled().items() if arm in USUAL}
        if len(spent) == len(USUAL):
            said = ", ".join(f"{arm} {tokens:,} in {self.updates(arm)} updates" for arm, tokens in spent.items())
            text = f"Both arms sampled as many tokens, within {ALIKE:.0%}."
            found.append(Claim(text, said, apart(spent) <= ALIKE))
        if "random" in self.curves:
            last = max(set(self.curves["random"]) & set(self.curves["outcome"]))
            lead = self.lead(last, "random", "outcome")
            seen = signed(asdict(lead)) if lead and last else "it was not examined after an update"
            holds = None if lead is None or not last else lead.low <= 0
            found.append(Claim("A coin for each step is no better than the outcome alone.", seen, holds))
        return found

    @property
    def headline(self) -> str:
        """What may be said: of the speed, and nothing of the ceiling."""
        if len(self.arms) == 1:
            return self._gain(self.arms[0])
        lead = self.lead(self.plan["updates"])
        if lead is None:
            return "The arms have not been played to their end yet."
        many = f"after {self.plan['updates']} updates"
        ones, others = (self.curves[arm][self.plan["updates"]].mean for arm in ("index", "outcome"))
        if lead.low > 0:
            return (
                f"With a right score for each step an agent learned faster: {many} it solves {ones:.2f} of held-out "
                f"tasks, and {others:.2f} where the outcome alone taught it. That is of the speed, not of the ceiling: "
                "where both end with many more updates this does not say."
            )
        if lead.high < 0:
            return f"Step scores made it worse here: {many} {ones:.2f} of held-out tasks against {others:.2f}."
        return f"No difference shows {many}: {ones:.2f} of held-out tasks with step scores, {others:.2f} without."

    def _gain(self, arm: str) -> str:
        """What one arm alone learned."""
        last, solved = self.plan["updates"], self.curves.get(arm, {})
        if 0 not in solved or last not in solved:
            return "The arms have not been played to their end yet."
        before, after = self.solved(arm, 0), self.solved(arm, last)
        both = before.keys() & after.keys()
        gain = difference({pair: after[pair] for pair in both}, {pair: before[pair] for pair in both})
        said = f"{span(asdict(solved[0]))} of held-out tasks before, {span(asdict(solved[last]))} after {last} updates"
        learned = (
            "Nothing is learned" if gain.low <= 0 <= gain.high else "It learned" if gain.low > 0 else "It got worse"
        )
        return f"{learned}: it solves {said}."

    def as_json(self) -> dict[str, Any]:
        return {
            "headline": self.headline,
            "claims": [asdict(claim) for claim in self.claims()],
            "plan": dict(self.plan),
            "curves": {
                arm: {str(update): asdict(found) for update, found in curve.items()}
                for arm, curve in self.curves.items()
            },
            "lead": {str(mark): asdict(lead) for mark in self.marks if mark and (lead := self.lead(mark)) is not None},
            "sampled": self.sampled(),
            "in_vain": self.in_vain,
            "arms": [self._arm(name) for name in self.arms],
            "rows": self.rows,
        }

    def _arm(self, name: str) -> dict[str, Any]:
        """What one arm's updates were."""
        updates: Sequence[Row] = [row for row in self.rows if row["kind"] == "update" and row["arm"] == name]
        seconds = [row["seconds"]["all"] for row in updates]
        return {
            "name": name,
            "said": ARMS[name].said,
            "updates": self.updates(name),
            "tokens": sum(row["tokens"] for row in updates),
            "attempts": sum(row["attempts"] for row in updates),
            "steps": _mean([row["steps"] for row in updates]),
            "invalid": _mean([row["invalid"] for row in updates]),
            "seconds": _mean(seconds),
        }


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
