"""The world `till`: look up what things cost, add the prices up, and say the sum. Tiny, exact, and made of nothing.

Its rule for single steps says whether a call brought the agent nearer to the sum. A judge could see as much: what is
known stands in the results.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from environments.errors import Unplayable
from environments.worlds.base import Attempt, Call, Outcome, Seen, Split, Task, World

ITEMS: Mapping[Split, tuple[str, ...]] = {
    "train": ("apple", "bread", "candle", "drum", "egg", "fork", "glove", "hat", "ink", "jar", "kite", "lamp"),
    "heldout": ("mug", "nail", "oar", "pen", "quilt", "rope"),
}
"""No item is in both."""
DEAREST = 30
MANY = 100_000
"""Tasks of a split."""


def _tool(name: str, description: str, **fields: str) -> dict[str, Any]:
    properties = {field: {"type": kind} for field, kind in fields.items()}
    parameters = {"type": "object", "properties": properties, "required": list(fields), "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TOOLS = (
    _tool("price", "What one item costs.", item="string"),
    _tool("add", "The sum of two numbers.", a="integer", b="integer"),
    _tool("answer", "Say what all items cost together. It ends the task.", value="integer"),
)
SYSTEM = "You keep the till. Use the tools, one call at a time."


class Till(World):
    name, horizon, parallel = "till", 8, 128

    def __init__(self, wanted: int = 3) -> None:
        """`wanted` items a task."""
        self.wanted = wanted

    def tasks(self, split: Split, count: int, seed: int) -> list[Task]:
        if count > MANY:
            raise Unplayable(f"till has {MANY} {split} tasks, and {count} were asked for.")
        return [self.task(split, number) for number in random.Random(seed).sample(range(MANY), count)]

    def task(self, split: Split, number: int) -> Task:
        """The task of this number."""
        draw = random.Random(f"till {split} {self.wanted} {number}")
        prices = {item: draw.randint(1, DEAREST) for item in draw.sample(ITEMS[split], self.wanted)}
        return Task(self.name, f"{split}-{self.wanted}-{number}", split, {"prices": prices})

    def open(self, task: Task, seed: int) -> TillAttempt:
        return TillAttempt(task.data["prices"])


class TillAttempt(Attempt):
    """What is known so far, and what was said in the end."""

    tools: Sequence[Mapping[str, Any]] = TOOLS

    def __init__(self, prices: Mapping[str, int]) -> None:
        self.prices = dict(prices)
        self.known: dict[frozenset[str], int] = {}
        """What sets of items cost, as far as results have said it."""
        self.said: int | None = None
        self.opening = (
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": f"What do these cost together: {', '.join(prices)}?"},
        )

    @property
    def total(self) -> int:
        return sum(self.prices.values())

    def act(self, call: Call) -> Seen:
        given = call.read()
        tool = next((one["function"] for one in TOOLS if one["function"]["name"] == call.name), None)
        if tool is None:
            return Seen(f"Error: there is no tool {call.name!r}.", -1.0)
        if given is None or set(given) != set(tool["parameters"]["properties"]):
            return Seen(f"Error: {call.name} takes {' and '.join(tool['parameters']['properties'])}.", -1.0)
        if call.name == "price":
            return self._price(given["item"])
        numbers = {name: _whole(value) for name, value in given.items()}
        if None in numbers.values():
            return Seen(f"Error: {call.name} takes whole numbers.", -1.0)
        if call.name == "add":
            return self._add(numbers["a"] or 0, numbers["b"] or 0)
        self.said = numbers["value"]
        return Seen("Done.", 1.0 if self.is_right else -1.0, is_over=True)

    def hear(self, text: str) -> Seen:
        return Seen("Call a tool: price, add or answer.", -1.0)

    def outcome(self, *, is_truncated: bool) -> Outcome:
        if is_truncated:
            return Outcome("truncated", None, {"prices known": self._prices_known})
        checks = {"right": self.is_right, "prices known": self._prices_known}
        return Outcome("solved", 1.0, checks) if self.is_right else Outcome("failed", -1.0, checks)

    def close(self) -> None:
        """It holds nothing."""

    @property
    def is_right(self) -> bool:
        return self.said == self.total

    @property
    def _prices_known(self) -> float:
        return sum(frozenset((item,)) in self.known for item in self.prices) / len(self.prices)

    def _price(self, item: Any) -> Seen:
        if not isinstance(item, str) or item not in self.prices:
            return Seen("Error: that is not on the list.", -1.0)
        one = frozenset((item,))
        is_new = one not in self.known
        self.known[one] = self.prices[item]
        return Seen(str(self.prices[item]), 1.0 if is_new else -1.0)

    def _add(self, a: int, b: int) -> Seen:
        """A sum of two things that are known and have nothing in common makes a third one known."""
        wholes = [
            one | other
            for one, cost in self.known.items()
            for other, more in self.known.items()
            if cost == a and more == b and not one & other and one | other not in self.known
        ]
        if wholes:
            self.known[max(wholes, key=len)] = a + b
        return Seen(str(a + b), 1.0 if wholes else -1.0)


def _whole(value: Any) -> int | None:
    """A whole number of at most nine digits, also where a model wrote it as text.

    >>> _whole(7), _whole("7"), _whole(7.0), _whole(True), _whole("seven")
    (7, 7, 7, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str) or len(str(value)) > 12:
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return int(number) if number.is_integer() and abs(number) < 1e9 else None
