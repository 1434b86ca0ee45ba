"""What is compared: the same loop from the same weights, by what a step is worth. Plain data, and what it asks of a
world and of a recipe."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from environments.errors import Unplayable
from environments.worlds.base import Attempt, Call, Message, Outcome, Seen, Split, Task, World

Voice = Literal["rule", "judge", "chance"]
"""Who says what a step was worth: the world's own rule, the judge's votes, or a coin."""


@dataclass(frozen=True)
class Arm:
    name: str
    said: str
    """For the page: what teaches it."""
    baseline: str
    """The recipe's: how a step's advantage is standardised."""
    voice: Voice = "rule"


ARMS: Mapping[str, Arm] = {
    arm.name: arm
    for arm in (
        Arm("outcome", "how the attempt ended, and nothing else", "outcome"),
        Arm("index", "each step's score by the world's rule, and how the attempt ended", "index"),
        Arm("judge", "each step's score by the small judge's votes, and how the attempt ended", "index", "judge"),
        Arm("random", "a coin for each step, and how the attempt ended", "index", "chance"),
    )
}
USUAL = ("outcome", "index")
"""Those that the claim is of; the others are controls."""


def chosen(names: Sequence[str]) -> tuple[Arm, ...]:
    """The arms of these names, each once, in this order. Raises Unplayable."""
    for name in names:
        if name not in ARMS:
            raise Unplayable(f"There is no arm {name!r}: {', '.join(ARMS)} are.")
    return tuple(ARMS[name] for name in dict.fromkeys(names))


def recipe(arm: Arm, *, attempts: int, laid_over: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What the arm's line learns by: the preset for agents, a run for all `attempts` of an update, and no exam, since
    held-out tasks examine here."""
    own = {"preset": "agents", "baseline": arm.baseline, "batch_size": attempts, "gate": {"off": True}}
    return own | dict(laid_over or {})


def heard(world: World, voice: Voice) -> World:
    """The world as this arm's player has it: with another voice its steps are scored by that instead of its rule."""
    return world if voice == "rule" else _Revoiced(world, voice)


class _Revoiced(World):
    """A world whose rule for single steps is not told. What happens in it, and its outcome, stay."""

    def __init__(self, world: World, voice: Voice) -> None:
        self.world, self.voice = world, voice
        self.name, self.horizon, self.parallel = world.name, world.horizon, world.parallel

    def tasks(self, split: Split, count: int, seed: int) -> list[Task]:
        return self.world.tasks(split, count, seed)

    def open(self, task: Task, seed: int) -> Attempt:
        coin = random.Random(f"{task.id} {seed}") if self.voice == "chance" else None
        return _RevoicedAttempt(self.world.open(task, seed), coin)


class _RevoicedAttempt(Attempt):
    def __init__(self, attempt: Attempt, coin: random.Random | None) -> None:
        self.attempt, self.coin = attempt, coin
        self.opening: Sequence[Message] = attempt.opening
        self.tools = attempt.tools

    def act(self, call: Call) -> Seen:
        return self._said(self.attempt.act(call))

    def hear(self, text: str) -> Seen:
        return self._said(self.attempt.hear(text))

    def outcome(self, *, is_truncated: bool) -> Outcome:
        return self.attempt.outcome(is_truncated=is_truncated)

    def close(self) -> None:
        self.attempt.close()

    def _said(self, seen: Seen) -> Seen:
        return replace(seen, score=self.coin.choice((-1.0, 1.0)) if self.coin else None)
